//! Errors across the border.

use datafusion::arrow::error::ArrowError;
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
            None => Error::engine(error.strip_backtrace()),
        }
    }
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
