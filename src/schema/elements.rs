//! Types whose values are numbers or booleans: what their elements look like.

use arrow::datatypes::{DataType, Field};

use crate::dtype::DType;
use crate::error::{Error, Result};

const FIXED_SHAPE_TENSOR: &str = "arrow.fixed_shape_tensor";
const EXTENSION_NAME: &str = "ARROW:extension:name";
const EXTENSION_METADATA: &str = "ARROW:extension:metadata";

/// The elements of a tensor column: numbers or booleans with trailing dims.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Elements {
    pub(crate) dtype: DType,
    /// Trailing dims as they lie in memory.
    pub(crate) physical: Vec<usize>,
    /// Logical trailing dim `i` is physical dim `permutation[i]`.
    pub(crate) permutation: Vec<usize>,
}

impl Elements {
    /// Numbers, booleans, fixed-size lists and fixed-shape tensors of such; `None` for all else.
    pub(crate) fn of(field: &Field) -> Result<Option<Elements>> {
        if let DataType::FixedSizeList(child, size) = field.data_type() {
            let Some(inner) = Elements::of(child)? else {
                return Ok(None);
            };
            let size = usize::try_from(*size)
                .map_err(|_| Error::schema(format!("a fixed-size list of {size} elements can't be")))?;
            let (dims, permutation) = match fixed_shape_tensor(field)? {
                Some(tensor) => tensor,
                None if is_extension(field) => return Ok(None),
                None => (vec![size], vec![0]),
            };
            return Ok(Some(Elements {
                dtype: inner.dtype,
                permutation: permutation.into_iter().chain(inner.permutation.iter().map(|p| p + dims.len())).collect(),
                physical: dims.into_iter().chain(inner.physical).collect(),
            }));
        }
        let dtype = DType::of_arrow(field.data_type()).filter(|_| !is_extension(field));
        Ok(dtype.map(|dtype| Elements { dtype, physical: vec![], permutation: vec![] }))
    }

    /// Trailing dims as the user sees them.
    pub(crate) fn logical(&self) -> Vec<usize> {
        self.permutation.iter().map(|&dim| self.physical[dim]).collect()
    }

    /// Numbers per row.
    pub(crate) fn width(&self) -> usize {
        self.physical.iter().product()
    }
}

pub(super) fn is_extension(field: &Field) -> bool {
    field.extension_type_name().is_some()
}

/// The field of tensors of one shape, row-major, in fixed-size lists.
///
/// # Errors
///
/// A row has more elements than a fixed-size list counts.
pub(crate) fn fixed_shape_field(name: &str, element: Field, shape: &[usize], nullable: bool) -> Result<Field> {
    let size = shape.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim));
    let size = size.and_then(|size| i32::try_from(size).ok()).ok_or_else(|| {
        Error::shape(format!("rows of shape {shape:?} have more elements than a fixed-size list counts, {}", i32::MAX))
    })?;
    let metadata = [
        (EXTENSION_NAME.to_owned(), FIXED_SHAPE_TENSOR.to_owned()),
        (EXTENSION_METADATA.to_owned(), serde_json::json!({ "shape": shape }).to_string()),
    ];
    Ok(Field::new(name, DataType::FixedSizeList(element.into(), size), nullable).with_metadata(metadata.into()))
}

/// Shape and permutation of `arrow.fixed_shape_tensor`, whose metadata is a JSON object
/// (Arrow's "Canonical Extension Types"). arrow-rs' own type tells neither its shape nor takes
/// nullable elements.
fn fixed_shape_tensor(field: &Field) -> Result<Option<(Vec<usize>, Vec<usize>)>> {
    if field.extension_type_name() != Some(FIXED_SHAPE_TENSOR) {
        return Ok(None);
    }
    let malformed = |what: &str| Error::schema(format!("its {FIXED_SHAPE_TENSOR} metadata {what}"));
    let text = field.extension_type_metadata().ok_or_else(|| malformed("is missing"))?;
    let metadata: serde_json::Value =
        serde_json::from_str(text).map_err(|error| malformed(&format!("is no JSON: {error}")))?;
    let numbers = |name: &str| -> Result<Option<Vec<usize>>> {
        let numbers = match &metadata[name] {
            serde_json::Value::Null => return Ok(None),
            serde_json::Value::Array(values) => {
                values.iter().map(|value| value.as_u64().and_then(|n| usize::try_from(n).ok())).collect()
            }
            _ => None,
        };
        Some(numbers)
            .filter(Option::is_some)
            .ok_or_else(|| malformed(&format!("has a '{name}' that is no list of sizes")))
    };
    let dims = numbers("shape")?.ok_or_else(|| malformed("has no 'shape'"))?;
    let permutation = numbers("permutation")?.unwrap_or_else(|| (0..dims.len()).collect());
    let mut sorted = permutation.clone();
    sorted.sort_unstable();
    if sorted.iter().copied().ne(0..dims.len()) {
        return Err(malformed(&format!("has {permutation:?}, which is no permutation of {} dims", dims.len())));
    }
    let stored = match field.data_type() {
        DataType::FixedSizeList(_, size) => usize::try_from(*size).ok(),
        _ => None,
    };
    if stored != dims.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim)) {
        return Err(malformed(&format!("says shape {dims:?}, which {} can't hold", field.data_type())));
    }
    Ok(Some((dims, permutation)))
}
