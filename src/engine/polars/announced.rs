//! What the columns of a frame will be, told before it is computed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use polars::prelude::{CompatLevel, DataFrame, DataType, LazyFrame, PlSmallStr};

use super::apart::apart;
use crate::error::{Error, Result};
use crate::ffi;
use crate::schema::MAX_LEVELS;

/// The columns in Polars' types and in Arrow's.
#[derive(Debug)]
pub(super) struct Announced {
    pub(super) columns: Vec<(PlSmallStr, DataType)>,
    pub(super) schema: SchemaRef,
}

impl Announced {
    /// # Errors
    ///
    /// As [`of_query`](Self::of_query), but for the engine's.
    pub(super) fn of_frame(frame: &DataFrame) -> Result<Announced> {
        Self::new(frame.columns().iter().map(|column| (column.name().clone(), column.dtype().clone())).collect())
    }

    /// # Errors
    ///
    /// An [engine](Error::is_engine) error if the query can't be planned, a [schema](Error::is_schema) error for a
    /// type that is neither a tensor nor an Arrow array.
    pub(super) fn of_query(query: &LazyFrame) -> Result<Announced> {
        let mut query = query.clone();
        // Files are opened for it, which Polars refuses to do on a thread of a runtime.
        let schema = apart(move || query.collect_schema().map_err(Error::from))??;
        Self::new(schema.iter().map(|(name, dtype)| (name.clone(), dtype.clone())).collect())
    }

    fn new(columns: Vec<(PlSmallStr, DataType)>) -> Result<Announced> {
        let fields = columns.iter().map(|(name, dtype)| field(name, dtype)).collect::<Result<Vec<_>>>()?;
        Ok(Announced { columns, schema: Arc::new(Schema::new(fields)) })
    }

    /// Whether a frame is what was announced: a function of the user's may have said one type and given another.
    ///
    /// # Errors
    ///
    /// An [engine](Error::is_engine) error that names the column.
    pub(super) fn check(&self, frame: &DataFrame) -> Result<()> {
        let wrong = |message: String| Err(Error::engine(message));
        if frame.width() != self.columns.len() {
            return wrong(format!("the query announced {} columns and gave {}", self.columns.len(), frame.width()));
        }
        for (column, (name, dtype)) in frame.columns().iter().zip(&self.columns) {
            if column.name() != name {
                return wrong(format!("the query announced the column {name} and gave {}", column.name()));
            }
            if column.dtype() != dtype {
                let message = format!("the query announced {dtype} and gave {}", column.dtype());
                return Err(Error::engine(message)
                    .at(name.as_str())
                    .remedy("a function in it must give the type that it is declared with"));
            }
        }
        Ok(())
    }
}

fn field(name: &PlSmallStr, dtype: &DataType) -> Result<Field> {
    // Before anything walks it by recursion.
    if is_deeper_than(MAX_LEVELS, dtype) {
        return Err(Error::schema(format!("its type nests deeper than {MAX_LEVELS} levels")).at(name.as_str()));
    }
    let unfit = |error: Error| {
        Error::schema(format!("its type is {dtype}: {error}"))
            .at(name.as_str())
            .remedy("cast it to another, or leave it out: 128-bit integers to Int64 or Decimal, objects to a struct")
    };
    // Polars panics at types that have none: decimals of a precision that can't be, objects that nobody registered.
    let told = catch_unwind(AssertUnwindSafe(|| dtype.to_arrow_field(name.clone(), CompatLevel::newest())));
    let told = told.map_err(|_| Error::schema("Polars knows no Arrow type for it"));
    told.and_then(|field| ffi::arrow_field(&field)).map_err(unfit)
}

fn is_deeper_than(levels: usize, dtype: &DataType) -> bool {
    let below = |dtype: &DataType| levels == 0 || is_deeper_than(levels - 1, dtype);
    match dtype {
        DataType::List(inner) | DataType::Array(inner, _) | DataType::Extension(_, inner) => below(inner),
        DataType::Struct(fields) => fields.iter().any(|field| below(field.dtype())),
        _ => false,
    }
}
