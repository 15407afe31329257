//! Tensordicts as one line of text, so that a test reads as input and output.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema};
use std::sync::Arc;
use tch::{Kind, Tensor};
use tensorquery::{DType, Entry, JaggedTensor, NonTensorStack, TensorDict};

/// `{x: int64[2](1, 2), l: jag(float32[1](0.5); 0, 1, 1), s: nts("a", null), d: {…}}`
pub(crate) fn show(dict: &TensorDict) -> String {
    let entries: Vec<_> =
        dict.items().unwrap().iter().map(|(name, entry)| format!("{name}: {}", show_entry(entry))).collect();
    format!("{{{}}}", entries.join(", "))
}

pub(crate) fn show_entry(entry: &Entry) -> String {
    match entry {
        Entry::Tensor(tensor) => show_tensor(tensor),
        Entry::Jagged(jagged) => show_jagged(jagged),
        Entry::NonTensor(values) => show_non_tensor(values),
        Entry::Dict(dict) => show(dict),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn show_jagged(jagged: &JaggedTensor) -> String {
    format!("jag({}; {})", show_tensor(jagged.values()), numbers(jagged.offsets()))
}

fn show_non_tensor(values: &NonTensorStack) -> String {
    let shown: Vec<_> = (0..values.values().len()).map(|row| values.value(row).unwrap().to_string()).collect();
    format!("nts({})", shown.join(", "))
}

/// Dtype, shape and all values in row-major order; booleans as T and F.
pub(crate) fn show_tensor(tensor: &Tensor) -> String {
    format!("{}{:?}({})", DType::from(tensor.kind()), tensor.size(), numbers(tensor))
}

fn numbers(tensor: &Tensor) -> String {
    let flat = tensor.reshape([-1]);
    let values: Vec<String> = match tensor.kind() {
        Kind::Bool => {
            let values = Vec::<bool>::try_from(flat).unwrap();
            values.into_iter().map(|value| if value { "T" } else { "F" }.to_owned()).collect()
        }
        Kind::Half | Kind::Float | Kind::Double => {
            let values = Vec::<f64>::try_from(flat.to_kind(Kind::Double)).unwrap();
            values.into_iter().map(|value| value.to_string()).collect()
        }
        _ => {
            let values = Vec::<i64>::try_from(flat.to_kind(Kind::Int64)).unwrap();
            values.into_iter().map(|value| value.to_string()).collect()
        }
    };
    values.join(", ")
}

/// A batch of one nullable column `c`.
pub(crate) fn column(array: ArrayRef) -> RecordBatch {
    let field = Field::new("c", array.data_type().clone(), true);
    column_of(field, array)
}

pub(crate) fn column_of(field: Field, array: ArrayRef) -> RecordBatch {
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).unwrap()
}

/// A field of the canonical extension type for tensors of one shape.
pub(crate) fn tensor_field(name: &str, array: &ArrayRef, metadata: &str) -> Field {
    let metadata = [
        ("ARROW:extension:name".to_owned(), "arrow.fixed_shape_tensor".to_owned()),
        ("ARROW:extension:metadata".to_owned(), metadata.to_owned()),
    ];
    Field::new(name, array.data_type().clone(), true).with_metadata(metadata.into())
}
