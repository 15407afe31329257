//! Lists of numbers → jagged tensors.

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait};
use arrow::buffer::MutableBuffer;
use arrow::datatypes::DataType;

use super::{Wrap, dense};
use crate::convert::receipt::CopyReason;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ffi;
use crate::options::Unsigned;
use crate::schema::Elements;
use crate::tensor::JaggedTensor;

pub(super) fn wrap(
    chunks: Vec<ArrayRef>,
    elements: &Elements,
    unsigned: Unsigned,
    wrap: &mut Wrap,
) -> Result<JaggedTensor> {
    match chunks.first().map(|chunk| chunk.data_type()) {
        Some(DataType::LargeList(_)) => wrap_offsets::<i64>(chunks, elements, unsigned, wrap),
        _ => wrap_offsets::<i32>(chunks, elements, unsigned, wrap),
    }
}

fn wrap_offsets<O: OffsetSizeTrait>(
    chunks: Vec<ArrayRef>,
    elements: &Elements,
    unsigned: Unsigned,
    wrap: &mut Wrap,
) -> Result<JaggedTensor> {
    let single = chunks.len() == 1;
    let mut ends: Vec<i64> = Vec::new();
    let mut viewed: Option<MutableBuffer> = None;
    let mut values = Vec::with_capacity(chunks.len());
    let mut end = 0i64;
    for chunk in chunks {
        let list = chunk.as_list::<O>().clone();
        drop(chunk);
        let (_, offsets, child, _) = list.into_parts();
        let (start, stop) = (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize());
        let whole = start == 0 && stop == child.len();
        values.push(if whole { child } else { child.slice(start, stop - start) });
        let added = i64::try_from(stop - start).ok().and_then(|added| end.checked_add(added));
        let after = added.ok_or_else(|| Error::shape("more elements than offsets can count"))?;
        if single && start == 0 && O::IS_LARGE {
            // These may be the tensor's offsets as they are.
            match wrap.own(offsets.into_inner().into_inner())? {
                Ok(owned) => viewed = Some(owned),
                Err(shared) => ends = shared.typed_data::<i64>().to_vec(),
            }
        } else {
            wrap.copies(match (single, O::IS_LARGE) {
                (false, _) => CopyReason::Chunked,
                (true, false) => CopyReason::Widened,
                (true, true) => CopyReason::Part,
            })?;
            if ends.is_empty() {
                ends.reserve(offsets.len());
                ends.push(0);
            }
            let shift = end - offsets[0].to_i64().unwrap_or_default();
            ends.extend(offsets[1..].iter().map(|offset| offset.to_i64().unwrap_or_default() + shift));
        }
        end = after;
    }
    let row_of = |number: usize| {
        let element = number / elements.width().max(1);
        let ends = viewed.as_ref().map_or(ends.as_slice(), |owned| owned.typed_data());
        ends.partition_point(|end| usize::try_from(*end).is_ok_and(|end| end <= element)).saturating_sub(1)
    };
    let numbers = dense::wrap(values, elements, end, unsigned, wrap, &row_of)?;
    let offsets = match viewed {
        Some(owned) => {
            let rows = owned.len() / size_of::<i64>();
            ffi::tensor_over(owned, DType::Int64, &[count(rows)?])?
        }
        None => {
            wrap.copied(ends.len() * size_of::<i64>());
            let rows = count(ends.len())?;
            ffi::tensor_over(MutableBuffer::from(ends), DType::Int64, &[rows])?
        }
    };
    Ok(JaggedTensor::from_trusted(numbers, offsets))
}

fn count(rows: usize) -> Result<i64> {
    i64::try_from(rows).map_err(|_| Error::shape("more rows than a tensor can count"))
}
