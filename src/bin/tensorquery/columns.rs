//! Files with two columns of one name are refused: the engine would merge the two into one and not say so.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::ipc::reader::{FileReader, StreamReader};
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Statistics};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory, FileMeta};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig, FileSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::object_store::{GetResultPayload, ObjectMeta, ObjectStore, ObjectStoreExt};
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_plan::ExecutionPlan;

use super::failure::FileError;

/// Has the session check the formats whose files carry a schema.
pub(crate) fn check_in(state: &mut SessionState) -> Result<()> {
    for (name, schemas) in [("parquet", Schemas::Parquet), ("arrow", Schemas::Arrow)] {
        if let Some(inner) = state.get_file_format_factory(name) {
            state.register_file_format(Arc::new(CheckedFactory { inner, schemas }), true)?;
        }
    }
    Ok(())
}

/// Where a format's files keep their schema.
#[derive(Clone, Copy, Debug)]
enum Schemas {
    Parquet,
    Arrow,
}

impl Schemas {
    async fn read(self, state: &dyn Session, store: &Arc<dyn ObjectStore>, object: &ObjectMeta) -> Result<Schema> {
        match self {
            Schemas::Parquet => {
                // The engine reads the footer from the same cache afterwards.
                let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
                let metadata = DFParquetMetadata::new(store.as_ref(), object).with_file_metadata_cache(Some(cache));
                metadata.fetch_schema().await
            }
            Schemas::Arrow => match store.get(&object.location).await?.payload {
                GetResultPayload::File(file, _) => Ok(Schema::clone(&*arrow_schema(file)?)),
                GetResultPayload::Stream(_) => Err(FileError("only local files can be read".to_owned()).into()),
            },
        }
    }
}

/// Of the file format, else of the stream format.
fn arrow_schema(mut file: File) -> Result<SchemaRef, ArrowError> {
    if let Ok(reader) = FileReader::try_new(&mut file, None) {
        return Ok(reader.schema());
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(StreamReader::try_new(&mut file, None)?.schema())
}

fn refuse_twins(schema: &Schema, object: &ObjectMeta) -> Result<(), FileError> {
    let mut seen = HashSet::new();
    match schema.fields().iter().find(|field| !seen.insert(field.name())) {
        None => Ok(()),
        Some(field) => Err(FileError(format!(
            "/{} has two columns named '{}', and a query could see only one of them; write the file with one name each",
            object.location,
            field.name()
        ))),
    }
}

#[derive(Debug)]
struct CheckedFactory {
    inner: Arc<dyn FileFormatFactory>,
    schemas: Schemas,
}

impl GetExt for CheckedFactory {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }
}

impl FileFormatFactory for CheckedFactory {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        Ok(Arc::new(Checked { inner: self.inner.create(state, options)?, schemas: self.schemas }))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(Checked { inner: self.inner.default(), schemas: self.schemas })
    }
}

/// The engine's format in all but the check.
#[derive(Debug)]
struct Checked {
    inner: Arc<dyn FileFormat>,
    schemas: Schemas,
}

#[async_trait]
impl FileFormat for Checked {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.inner.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.inner.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let schema = self.inner.infer_schema(state, store, objects).await?;
        for object in objects {
            refuse_twins(&self.schemas.read(state, store, object).await?, object)?;
        }
        Ok(schema)
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        self.inner.infer_stats(state, store, schema, object).await
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Option<LexOrdering>> {
        self.inner.infer_ordering(state, store, schema, object).await
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<FileMeta> {
        self.inner.infer_stats_and_ordering(state, store, schema, object).await
    }

    async fn create_physical_plan(&self, state: &dyn Session, scan: FileScanConfig) -> Result<Arc<dyn ExecutionPlan>> {
        self.inner.create_physical_plan(state, scan).await
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        sink: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.inner.create_writer_physical_plan(input, state, sink, order).await
    }

    fn file_source(&self, schema: TableSchema) -> Arc<dyn FileSource> {
        self.inner.file_source(schema)
    }
}
