//! `unnest(s)` of a struct with the nulls of `s`.
//!
//! DataFusion 55's unnest makes columns of a struct's children as they lie in memory, and so loses
//! where the struct itself is null.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{Column, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::builder::unnest_with_options;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Unnest, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use super::get_field::with_validity;

/// Hands the nulls of structs down to their fields before they are unnested.
///
/// ```text
/// Unnest: s                                Unnest: s
///   TableScan: t             →               Projection: nulls_in_fields(t.s) AS s
///                                              TableScan: t
/// ```
#[derive(Debug, Default)]
pub(in crate::engine::datafusion) struct UnnestNulls;

impl AnalyzerRule for UnnestNulls {
    fn name(&self) -> &str {
        "unnest_nulls"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !Self::applies_to(&plan)? {
            return Ok(plan);
        }
        Self::rewrite(plan)
    }
}

impl UnnestNulls {
    /// Whether the plan unnests a struct whose nulls would be lost.
    pub(in crate::engine::datafusion) fn applies_to(plan: &LogicalPlan) -> Result<bool> {
        let mut needed = false;
        plan.apply_with_subqueries(|plan| {
            needed |= matches!(plan, LogicalPlan::Unnest(unnest) if loses_nulls(unnest));
            Ok(if needed { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(needed)
    }

    /// The plan as the rule leaves it. Its schema may have fields nullable that were not: whoever plans by
    /// the schema, as masks are, asks this first.
    pub(in crate::engine::datafusion) fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
        let rewrite = |plan| match plan {
            LogicalPlan::Unnest(unnest) if loses_nulls(&unnest) => with_nulls_below(unnest).map(Transformed::yes),
            other => Ok(Transformed::no(other)),
        };
        // Fields that were never null by their type may be now, all the way up.
        plan.transform_up_with_subqueries(|plan| rewrite(plan)?.map_data(LogicalPlan::recompute_schema)).data()
    }
}

fn loses_nulls(unnest: &Unnest) -> bool {
    unnest.struct_type_columns.iter().any(|index| is_at_fault(&unnest.input, *index))
}

/// Whether this struct may be null and has not handed that down yet.
fn is_at_fault(input: &LogicalPlan, index: usize) -> bool {
    let handed_down = match input {
        LogicalPlan::Projection(projection) => projection.expr.get(index).is_some_and(|expr| {
            let call = expr.clone().unalias();
            matches!(call, Expr::ScalarFunction(call) if call.func.inner().is::<NullsInFields>())
        }),
        _ => false,
    };
    input.schema().field(index).is_nullable() && !handed_down
}

fn with_nulls_below(unnest: Unnest) -> Result<LogicalPlan> {
    let function = Arc::new(ScalarUDF::new_from_impl(NullsInFields::default()));
    let input = unnest.input;
    let columns = input.schema().iter().enumerate().map(|(index, (qualifier, field))| {
        let column = Expr::Column(Column::from((qualifier, field)));
        if unnest.struct_type_columns.contains(&index) && is_at_fault(&input, index) {
            let call = ScalarFunction::new_udf(Arc::clone(&function), vec![column]);
            Expr::ScalarFunction(call).alias_qualified(qualifier.cloned(), field.name())
        } else {
            column
        }
    });
    let columns: Vec<Expr> = columns.collect();
    let input = LogicalPlanBuilder::from(input).project(columns)?.build()?;
    unnest_with_options(input, unnest.exec_columns, unnest.options)
}

/// A struct whose fields are null where it is.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NullsInFields {
    signature: Signature,
}

impl Default for NullsInFields {
    fn default() -> Self {
        NullsInFields { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for NullsInFields {
    fn name(&self) -> &str {
        "nulls_in_fields"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [DataType::Struct(fields)] => Ok(DataType::Struct(nullable(fields))),
            other => internal_err!("nulls_in_fields is for structs, got {other:?}"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let (Some(array), DataType::Struct(fields)) = (arrays.into_iter().next(), args.return_field.data_type()) else {
            return internal_err!("nulls_in_fields is for structs");
        };
        let (_, columns, nulls) = array.as_struct().clone().into_parts();
        let columns = columns.into_iter().map(|column| with_validity(nulls.as_ref(), column));
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        let structs = StructArray::try_new_with_length(fields.clone(), columns, nulls, array.len())?;
        Ok(ColumnarValue::Array(Arc::new(structs)))
    }
}

fn nullable(fields: &Fields) -> Fields {
    fields.iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true))).collect()
}
