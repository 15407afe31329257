//! `s['f']` with the nulls of `s`.
//!
//! DataFusion 55's `get_field` hands out the child of a struct as it lies in memory, and the entries of
//! a map by its offsets. Both ignore where the struct or map itself is null: what happens to lie under
//! a null row would come out as a value.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::functions::core::getfield::GetFieldFunc;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

use crate::nulls;

/// Puts our `get_field` in the place of DataFusion's, wherever a query came from: SQL's brackets and
/// dots, `DataFrame`s, other rules.
#[derive(Debug)]
pub(in crate::engine::datafusion) struct FieldNulls {
    function: Arc<ScalarUDF>,
}

impl FieldNulls {
    pub(in crate::engine::datafusion) fn new() -> Self {
        FieldNulls { function: Arc::new(ScalarUDF::new_from_impl(GetField::default())) }
    }
}

impl FunctionRewrite for FieldNulls {
    fn name(&self) -> &str {
        "field_nulls"
    }

    fn rewrite(&self, expr: Expr, _schema: &DFSchema, _config: &ConfigOptions) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::ScalarFunction(call) if call.func.inner().is::<GetFieldFunc>() => {
                let call = ScalarFunction::new_udf(Arc::clone(&self.function), call.args);
                Transformed::yes(Expr::ScalarFunction(call))
            }
            other => Transformed::no(other),
        })
    }
}

/// DataFusion's `get_field` in all but the nulls.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
struct GetField {
    inner: GetFieldFunc,
}

impl ScalarUDFImpl for GetField {
    fn name(&self) -> &str {
        self.inner.name()
    }

    #[expect(deprecated, reason = "plans are still shown by it")]
    fn display_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.display_name(args)
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    /// Nullable if any level is.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let encoded = args.arg_fields.first().is_some_and(|base| may_hide_nulls(base.data_type()));
        let field = self.inner.return_field_from_args(args)?;
        Ok(if encoded { Arc::new(field.as_ref().clone().with_nullable(true)) } else { field })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let single = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let mut args_left = args.args.clone().into_iter();
        let Some(base) = args_left.next() else {
            return self.inner.invoke_with_args(args);
        };
        // Level by level, since each has nulls of its own.
        let mut current = base.into_array(if single { 1 } else { args.number_rows })?;
        for name in args_left {
            if current.data_type().is_null() {
                return Ok(ColumnarValue::Scalar(ScalarValue::Null));
            }
            let step = ScalarFunctionArgs {
                args: vec![ColumnarValue::Array(Arc::clone(&current)), name],
                arg_fields: args.arg_fields.clone(),
                number_rows: current.len(),
                return_field: Arc::clone(&args.return_field),
                config_options: Arc::clone(&args.config_options),
            };
            let child = self.inner.invoke_with_args(step)?.into_array(current.len())?;
            current = with_nulls_of(&current, child)?;
        }
        if single {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&current, 0)?));
        }
        Ok(ColumnarValue::Array(current))
    }

    /// Paths become flat, as DataFusion's do: `s['a']['b']` is one call. It knows only its own function,
    /// so nested calls of ours are joined here.
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let mut args = args;
        let mut flattened = false;
        while let Some(Expr::ScalarFunction(call)) = args.first()
            && call.func.inner().is::<GetField>()
        {
            let path = args.split_off(1);
            let Some(Expr::ScalarFunction(call)) = args.pop() else {
                break;
            };
            args = call.args;
            args.extend(path);
            flattened = true;
        }
        // What it makes of a call on a struct constructor may be a call of its own function.
        Ok(match self.inner.simplify(args, info)? {
            ExprSimplifyResult::Simplified(Expr::ScalarFunction(call)) if call.func.inner().is::<GetFieldFunc>() => {
                ExprSimplifyResult::Simplified(call_of(call.args))
            }
            ExprSimplifyResult::Original(args) if flattened => ExprSimplifyResult::Simplified(call_of(args)),
            other => other,
        })
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.inner.placement(args)
    }
}

fn call_of(args: Vec<Expr>) -> Expr {
    let function = Arc::new(ScalarUDF::new_from_impl(GetField::default()));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, args))
}

/// Whether nulls lie where the field does not tell of them: among the values of a dictionary.
fn may_hide_nulls(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(..) => true,
        DataType::Struct(fields) => fields.iter().any(|field| may_hide_nulls(field.data_type())),
        _ => false,
    }
}

/// `child` with the nulls of the struct or map it was taken from.
fn with_nulls_of(parent: &ArrayRef, child: ArrayRef) -> Result<ArrayRef> {
    match (parent.as_any_dictionary_opt(), child.as_any_dictionary_opt()) {
        // The keys are the parent's, so only the values can lack nulls.
        (Some(parent), Some(child)) => {
            let values = with_validity(parent.values().nulls(), Arc::clone(child.values()))?;
            Ok(child.with_values(values))
        }
        _ => with_validity(parent.nulls(), child),
    }
}

/// `child`, null also where `validity` says so.
pub(super) fn with_validity(validity: Option<&NullBuffer>, child: ArrayRef) -> Result<ArrayRef> {
    match validity.filter(|validity| validity.null_count() > 0) {
        Some(validity) => Ok(nulls::hide(child, validity)?),
        None => Ok(child),
    }
}
