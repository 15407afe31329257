//! Arrow's IPC files: what is no tensor, exactly as it was.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow::buffer::Buffer;
use arrow::compute::concat;
use arrow::datatypes::{FieldRef, Schema};
use arrow::error::ArrowError;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::{FileDecoder, read_footer_length};
use arrow::ipc::writer::FileWriter;
use arrow::ipc::{Block, root_as_footer, root_as_message};
use tch::Tensor;

use super::open::Opened;
use super::sink::Sink;
use crate::error::{Error, Result};
use crate::schema::{MAX_LEVELS, reject_deep};

/// A file of one column that is appended to.
pub(super) struct ArrowWriter(FileWriter<Sink>);

impl ArrowWriter {
    pub(super) fn new(sink: Sink, field: &FieldRef) -> Result<ArrowWriter> {
        let schema = Schema::new(vec![Arc::clone(field)]);
        Ok(ArrowWriter(FileWriter::try_new(sink, &schema)?))
    }

    pub(super) fn put(&mut self, values: &ArrayRef) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        let options = RecordBatchOptions::new().with_row_count(Some(values.len()));
        let schema = Arc::clone(self.0.schema());
        let batch = RecordBatch::try_new_with_options(schema, vec![Arc::clone(values)], &options)?;
        self.0.write(&batch).map_err(|error| match error {
            ArrowError::InvalidArgumentError(text) if text.contains("Dictionary") => {
                Error::schema("the batches have different dictionaries, and an Arrow file has room for one")
                    .remedy("cast the column to the type of its values")
            }
            other => other.into(),
        })
    }

    /// The file, whole and on the disk.
    pub(super) fn finish(mut self) -> Result<Sink> {
        self.0.finish()?;
        let mut sink = self.0.into_inner()?;
        sink.finish()?;
        Ok(sink)
    }
}

/// Where an Arrow file lies.
pub(super) trait Bytes {
    fn bytes(&self) -> u64;
    fn read_at(&self, at: u64, length: u64) -> Result<Vec<u8>>;
}

impl Bytes for Opened {
    fn bytes(&self) -> u64 {
        Opened::bytes(self)
    }

    fn read_at(&self, at: u64, length: u64) -> Result<Vec<u8>> {
        Opened::read_at(self, at, length)
    }
}

/// The bytes of a tensor of uint8.
impl Bytes for Tensor {
    fn bytes(&self) -> u64 {
        self.numel() as u64
    }

    fn read_at(&self, at: u64, length: u64) -> Result<Vec<u8>> {
        if at.checked_add(length).is_none_or(|end| end > self.bytes()) {
            return Err(Error::file("an Arrow file in it ends too early"));
        }
        // No cast loses anything: both are at most the tensor's number of elements.
        let (at, length) = (at as i64, length as usize);
        let mut content = vec![0; length];
        self.f_narrow(0, at, length as i64)?.f_copy_data_u8(&mut content, length)?;
        Ok(content)
    }
}

/// A file of one column.
pub(super) struct ArrowFile<'a> {
    source: &'a dyn Bytes,
    field: FieldRef,
    decoder: FileDecoder,
    /// Where each part lies, and how many rows it says it has.
    parts: Vec<(Block, u64)>,
}

impl<'a> ArrowFile<'a> {
    /// Reads where things are; nothing of the column but its dictionaries.
    pub(super) fn open(source: &'a dyn Bytes) -> Result<ArrowFile<'a>> {
        guarded(|| ArrowFile::parse(source))
    }

    fn parse(source: &'a dyn Bytes) -> Result<ArrowFile<'a>> {
        let bytes = source.bytes();
        let start = bytes.checked_sub(10).ok_or_else(|| broken("it is too short"))?;
        let end: [u8; 10] = source.read_at(start, 10)?.try_into().map_err(|_| broken("it is too short"))?;
        let length = read_footer_length(end)? as u64;
        let at = start.checked_sub(length).ok_or_else(|| broken("its footer is longer than the file"))?;
        let footer = source.read_at(at, length)?;
        let footer = root_as_footer(&footer).map_err(|error| broken(&error.to_string()))?;
        let schema = footer.schema().ok_or_else(|| broken("it has no schema"))?;
        let schema = Arc::new(fb_to_schema(schema));
        reject_deep(schema.fields(), MAX_LEVELS)?;
        let [field] = &**schema.fields() else {
            return Err(broken("it has more than one column, or none"));
        };
        let field = Arc::clone(field);
        let mut decoder = FileDecoder::new(schema, footer.version());
        for block in footer.dictionaries().iter().flatten() {
            decoder.read_dictionary(block, &read_block(source, block)?)?;
        }
        let mut parts = Vec::new();
        for block in footer.recordBatches().iter().flatten() {
            let (at, metadata, _) = extent(source, block)?;
            let metadata = source.read_at(at, metadata)?;
            let skipped = if metadata.starts_with(&[0xff; 4]) { 8 } else { 4 };
            let message = metadata.get(skipped..).ok_or_else(|| broken("a part has no message"))?;
            let message = root_as_message(message).map_err(|error| broken(&error.to_string()))?;
            let batch = message.header_as_record_batch().ok_or_else(|| broken("a part is no record batch"))?;
            let rows = u64::try_from(batch.length()).map_err(|_| broken("a part has less than no rows"))?;
            parts.push((*block, rows));
        }
        Ok(ArrowFile { source, field, decoder, parts })
    }

    pub(super) fn field(&self) -> &FieldRef {
        &self.field
    }

    /// The rows that the file says it has.
    pub(super) fn rows(&self) -> u64 {
        self.parts.iter().fold(0, |sum, (_, rows)| sum.saturating_add(*rows))
    }

    /// Some of its rows, `start..end`, which lie within it. Parts without any are not read.
    pub(super) fn read(&self, start: u64, end: u64) -> Result<ArrayRef> {
        guarded(|| {
            let mut before = 0u64;
            let mut pieces = Vec::new();
            for (block, rows) in &self.parts {
                let (from, to) = (start.max(before), end.min(before.saturating_add(*rows)));
                if from < to {
                    let whole = self.part(block, *rows)?;
                    // No cast loses anything: the part is in memory.
                    pieces.push(whole.slice((from - before) as usize, (to - from) as usize));
                }
                before = before.saturating_add(*rows);
            }
            match pieces.as_slice() {
                [] => Ok(new_empty_array(self.field.data_type())),
                [piece] => Ok(Arc::clone(piece)),
                pieces => Ok(concat(&pieces.iter().map(|piece| piece as &dyn Array).collect::<Vec<_>>())?),
            }
        })
    }

    fn part(&self, block: &Block, rows: u64) -> Result<ArrayRef> {
        let batch = self.decoder.read_record_batch(block, &read_block(self.source, block)?)?;
        let batch = batch.filter(|batch| batch.num_rows() as u64 == rows && batch.num_columns() == 1);
        let batch = batch.ok_or_else(|| broken("a part has not the rows that it says"))?;
        Ok(Arc::clone(batch.column(0)))
    }
}

/// Where a block begins, and the lengths of its metadata and body, all within the file.
fn extent(source: &dyn Bytes, block: &Block) -> Result<(u64, u64, u64)> {
    let at = u64::try_from(block.offset()).ok();
    let metadata = u64::try_from(block.metaDataLength()).ok().filter(|length| *length >= 8);
    let body = u64::try_from(block.bodyLength()).ok();
    match (at, metadata, body) {
        (Some(at), Some(metadata), Some(body))
            if at
                .checked_add(metadata)
                .and_then(|end| end.checked_add(body))
                .is_some_and(|end| end <= source.bytes()) =>
        {
            Ok((at, metadata, body))
        }
        _ => Err(broken("a part lies outside of the file")),
    }
}

fn read_block(source: &dyn Bytes, block: &Block) -> Result<Buffer> {
    let (at, metadata, body) = extent(source, block)?;
    Ok(Buffer::from(source.read_at(at, metadata + body)?))
}

fn broken(how: &str) -> Error {
    Error::file(format!("its Arrow file can't be read: {how}"))
}

/// Arrow's reader checks what it builds, but panics at some of what is no Arrow file.
fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Err(error)) if error.is_schema() => Err(broken(&error.to_string())),
        Ok(done) => done,
        Err(_) => Err(broken("it holds something else")),
    }
}
