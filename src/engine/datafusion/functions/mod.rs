//! Stand-ins for what loses nulls in the engine.

mod get_field;
mod unnest;

pub(super) use get_field::FieldNulls;
pub(super) use unnest::UnnestNulls;
