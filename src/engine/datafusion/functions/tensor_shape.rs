//! `tensor_shape(list, [dims])`: fixed-size lists as tensors of a shape.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};
use datafusion::logical_expr::{Documentation, Expr};

use super::column::{Arguments, ColumnFunction, SECTION, whole_number};
use super::lists::elements_of;
use crate::error::{Error, Result};
use crate::schema::fixed_shape_field;

#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct TensorShape;

impl ColumnFunction for TensorShape {
    const NAME: &'static str = "tensor_shape";
    const ARGUMENTS: RangeInclusive<usize> = 2..=2;

    fn example() -> (Vec<DataType>, DataType) {
        let list = DataType::FixedSizeList(Field::new_list_field(DataType::Float32, true).into(), 1);
        (vec![list.clone(), DataType::new_list(DataType::Int64, true)], list)
    }

    fn documentation() -> Documentation {
        Documentation::builder(
            SECTION,
            "Says that each fixed-size list is a tensor of this shape, row-major: the column becomes a dense tensor \
             `[rows, …dims]`. Its type is Arrow's `arrow.fixed_shape_tensor`. Nothing is copied. `pad_list` makes \
             fixed-size lists of others.",
            "tensor_shape(list, [dims])",
        )
        .with_sql_example(
            "```sql\n> SELECT tensor_shape(pad_list([1, 2, 3, 4], 4), [2, 2]);   -- [[1, 2], [3, 4]] as a tensor\n```",
        )
        .with_argument("list", "A fixed-size list of numbers or booleans.")
        .with_argument("dims", "A constant list of sizes, whose product is the list's.")
        .with_related_udf("pad_list")
        .build()
    }

    fn field(arguments: &Arguments<'_>) -> Result<Field> {
        let (element, size) = elements_of(arguments)?;
        let Some(size) = size else {
            return Err(arguments
                .wrong_type("fixed-size lists")
                .remedy("make it one: tensor_shape(pad_list(list, n), [dims])"));
        };
        let constant = arguments.constant(1, "dims")?;
        let dims = sizes(constant)
            .ok_or_else(|| arguments.wrong("dims", constant).remedy("it takes a list of sizes, as in [3, 224, 224]"))?;
        let nullable = arguments.column().is_nullable();
        let field = fixed_shape_field(Self::NAME, element.as_ref().clone(), &dims, nullable);
        match field {
            Ok(field) if matches!(field.data_type(), DataType::FixedSizeList(_, all) if *all == size) => Ok(field),
            _ => {
                let message = format!("its lists of {size} elements can't have the shape {dims:?}");
                Err(arguments.of_column(Error::shape(message).remedy("the product of the dims is the list's size")))
            }
        }
    }

    fn evaluate(_: &Arguments<'_>, column: ArrayRef, _: &Field) -> Result<ArrayRef> {
        Ok(column)
    }
}

fn sizes(constant: &ScalarValue) -> Option<Vec<usize>> {
    let lists: ArrayRef = match constant {
        ScalarValue::List(list) => Arc::clone(list) as ArrayRef,
        ScalarValue::LargeList(list) => Arc::clone(list) as ArrayRef,
        ScalarValue::FixedSizeList(list) => Arc::clone(list) as ArrayRef,
        _ => return None,
    };
    let lists = super::lists::Lists::of(&lists).ok()?;
    let size = |place| whole_number(&ScalarValue::try_from_array(lists.values(), place).ok()?);
    lists.row(0)?.map(|place| size(place).and_then(|size| usize::try_from(size).ok())).collect()
}

/// `[3, 224, 224]` is a constant from the start, as `3` is. The engine's own planner makes a call of it, which the
/// optimizer computes; by then types are settled, and a type can't depend on it.
#[derive(Debug)]
pub(super) struct ConstantLists;

impl ExprPlanner for ConstantLists {
    fn plan_array_literal(
        &self,
        exprs: Vec<Expr>,
        _: &DFSchema,
    ) -> datafusion::error::Result<PlannerResult<Vec<Expr>>> {
        let number = |expr: &Expr| match expr {
            Expr::Literal(number @ ScalarValue::Int64(Some(_)), None) => Some(number.clone()),
            _ => None,
        };
        Ok(match exprs.iter().map(number).collect::<Option<Vec<_>>>() {
            Some(numbers) if !numbers.is_empty() => {
                let list = ScalarValue::List(ScalarValue::new_list_nullable(&numbers, &DataType::Int64));
                PlannerResult::Planned(Expr::Literal(list, None))
            }
            _ => PlannerResult::Original(exprs),
        })
    }
}
