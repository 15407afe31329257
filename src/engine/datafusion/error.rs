//! Errors across the border.

use datafusion::arrow::error::ArrowError;
use datafusion::common::utils::datafusion_strsim::levenshtein;
use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;

use crate::error::Error;

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

/// Our own error comes back as it was, from however deep inside the engine's.
impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        match find(&error) {
            Some(own) => own.clone(),
            None => Error::engine(unknown_column(&error).unwrap_or_else(|| error.strip_backtrace())),
        }
    }
}

/// How many columns an error lists.
const NEAREST: usize = 5;

/// What to say of a column that isn't there. The engine lists all that are, in full.
fn unknown_column(error: &DataFusionError) -> Option<String> {
    let DataFusionError::SchemaError(error, _) = error.find_root() else { return None };
    let SchemaError::FieldNotFound { field, valid_fields } = error.as_ref() else { return None };
    let asked = field.name.to_lowercase();
    let mut near: Vec<&Column> = valid_fields.iter().collect();
    near.sort_by_cached_key(|column| levenshtein(&asked, &column.name.to_lowercase()));
    // Of one table's columns, the table says nothing new.
    let one_table = valid_fields.windows(2).all(|pair| pair[0].relation == pair[1].relation);
    let shown = near.iter().take(NEAREST).map(|column| match one_table && field.relation.is_none() {
        true => Column::new_unqualified(&column.name).quoted_flat_name(),
        false => column.quoted_flat_name(),
    });
    let shown: Vec<_> = shown.collect();
    let mut message = format!("No field named {}", field.quoted_flat_name());
    if !shown.is_empty() {
        message.push_str(&format!("; known are {}", shown.join(", ")));
    }
    if let Some(more @ 1..) = near.len().checked_sub(shown.len()) {
        message.push_str(&format!(", … and {more} more"));
    }
    if valid_fields.iter().any(|column| column.name.to_lowercase() == asked && column.name != field.name) {
        message.push_str("; capital letters count, and a name is kept as it is written in double quotes alone");
    }
    Some(message)
}

fn find<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
    if let Some(own) = error.downcast_ref::<Error>() {
        return Some(own);
    }
    if let Some(error) = error.downcast_ref::<DataFusionError>() {
        return match error {
            DataFusionError::External(inner) => find(inner.as_ref()),
            DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => find(inner.as_ref()),
            DataFusionError::Shared(inner) => find(inner.as_ref()),
            DataFusionError::ArrowError(inner, _) => find(inner.as_ref()),
            DataFusionError::Collection(errors) => errors.iter().find_map(|error| find(error)),
            _ => None,
        };
    }
    match error.downcast_ref::<ArrowError>() {
        Some(ArrowError::ExternalError(inner)) => find(inner.as_ref()),
        _ => None,
    }
}
