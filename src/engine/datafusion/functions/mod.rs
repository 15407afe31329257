//! Functions of SQL: those for columns that become tensors, and stand-ins for what loses nulls in the engine.

mod column;
mod lists;

mod fill_null;
mod one_hot;
mod pad_list;
mod shuffle_key;
mod tensor_shape;
mod truncate_list;

mod get_field;
mod unnest;

use std::sync::Arc;

use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::ScalarUDF;

use self::column::function;
pub(super) use self::get_field::FieldNulls;
pub(super) use self::shuffle_key::ShuffleKey;
pub(super) use self::unnest::UnnestNulls;

/// Adds the functions of one column.
pub(super) fn register(builder: &mut SessionStateBuilder) {
    builder.scalar_functions().get_or_insert_default().extend([
        function::<fill_null::FillNull>(),
        function::<one_hot::OneHot>(),
        function::<pad_list::PadList>(),
        function::<tensor_shape::TensorShape>(),
        function::<truncate_list::TruncateList>(),
        Arc::new(ScalarUDF::new_from_impl(ShuffleKey::new(0))),
    ]);
    builder.expr_planners().get_or_insert_default().insert(0, Arc::new(tensor_shape::ConstantLists));
}
