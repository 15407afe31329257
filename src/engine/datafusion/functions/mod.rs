//! Functions that stand in for the engine's own, where those lose nulls.

mod get_field;

pub(super) use get_field::FieldNulls;
