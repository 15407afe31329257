//! Errors across the border.

use std::io;

use polars::error::PolarsError;

use crate::error::Error;

impl From<Error> for PolarsError {
    fn from(error: Error) -> Self {
        // The one variant that holds another crate's error.
        PolarsError::from(io::Error::other(error))
    }
}

/// Our own error comes back as it was, from however deep inside the engine's.
impl From<PolarsError> for Error {
    fn from(error: PolarsError) -> Self {
        match find(&error) {
            Some(own) => own.clone(),
            None => Error::engine(error),
        }
    }
}

fn find(error: &PolarsError) -> Option<&Error> {
    match error {
        PolarsError::Context { error, .. } | PolarsError::ExprContext { error, .. } => find(error),
        PolarsError::IO { error, .. } => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}
