//! `tensordict((SELECT …), nulls => 'mask')` and `tensordict_schema((SELECT …))` in FROM.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use arrow::datatypes::Schema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, plan_err};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Expr as LogicalExpr, Extension, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    DollarQuotedString, Expr, FunctionArg, FunctionArgExpr, FunctionArgOperator, ObjectName, Query, SetExpr,
    TableAlias, TableFactor, TableFunctionArgs, Value,
};

use super::config::TensorDictConfig;
use super::functions::UnnestNulls;
use super::logical::TensorizeNode;
use crate::error::Error;
use crate::options::{OptionValue, Options};
use crate::schema::{TensorDictSchema, mark_ruled_on};

const TENSORDICT: &str = "tensordict";
const TENSORDICT_SCHEMA: &str = "tensordict_schema";

/// Plans our two relations, and leaves all others as they are.
#[derive(Debug, Default)]
pub(super) struct TensorDictRelations;

impl RelationPlanner for TensorDictRelations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let Some(name) = called(&relation, &[TENSORDICT, TENSORDICT_SCHEMA]) else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let call = Call::parse(name, relation)?;
        let input =
            context.plan(TableFactor::Derived { lateral: false, subquery: call.query, alias: None, sample: None })?;
        if let Some(column) = references_outside(&input)?.first() {
            return plan_err!(
                "{name}(…) can't use {column} of the query around it: LATERAL and correlated queries are not \
                 supported; {}",
                join_instead(name)
            );
        }
        // Masks are planned by the schema, which must be the one after the analyzer.
        let input = if UnnestNulls::applies_to(&input)? { UnnestNulls::rewrite(input)? } else { input };
        let defaults = TensorDictConfig::options(context.context_provider().options());
        let options = with_arguments(name, defaults, &call.arguments)?;
        let plan = if name == TENSORDICT {
            let options = TensorDictSchema::plan_masks(input.schema().as_arrow(), &options)?;
            let node = TensorizeNode::try_new(input, Arc::new(options))?;
            LogicalPlan::Extension(Extension { node: Arc::new(node) })
        } else {
            let resolved = TensorDictSchema::resolve_static(input.schema().as_arrow(), &options)?;
            let batch = describe(&resolved)?;
            let table = MemTable::try_new(batch.schema(), vec![vec![batch]])?;
            LogicalPlanBuilder::scan(TENSORDICT_SCHEMA, provider_as_source(Arc::new(table)), None)?.build()?
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, call.alias))))
    }
}

/// Which of these names the factor calls.
pub(super) fn called<'a>(relation: &TableFactor, names: &[&'a str]) -> Option<&'a str> {
    let (name, called) = match relation {
        TableFactor::Table { name, args, .. } => (name, args.is_some()),
        TableFactor::Function { name, .. } => (name, true),
        _ => return None,
    };
    let ObjectName(parts) = name;
    let [part] = parts.as_slice() else {
        return None;
    };
    let ident = part.as_ident().filter(|ident| ident.quote_style.is_none())?;
    let known = names.iter().find(|known| ident.value.eq_ignore_ascii_case(known));
    // A table may have our name; only the call is ours.
    known.filter(|_| called).copied()
}

/// A call, taken apart.
struct Call {
    query: Box<Query>,
    arguments: Vec<(String, OptionValue)>,
    alias: Option<TableAlias>,
}

impl Call {
    fn parse(name: &str, relation: TableFactor) -> Result<Call> {
        let (args, alias) = arguments_of(name, relation)?;
        let mut args = args.into_iter();
        let query = match args.next() {
            Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Subquery(query)))) => query,
            other => {
                let got = other.map_or("nothing".to_owned(), |arg| arg.to_string());
                return plan_err!(
                    "{name}(…) takes a query in parentheses, got {got}; write {name}((SELECT * FROM my_table))"
                );
            }
        };
        if orders_in_vain(&query) {
            return plan_err!(
                "ORDER BY inside {name}(…) has no effect; order outside: SELECT * FROM {name}((…)) ORDER BY …"
            );
        }
        Ok(Call { query, arguments: named(name, args)?, alias })
    }
}

/// The arguments and alias of a call in FROM. Every part of it is looked at, so that no modifier is passed over in
/// silence.
pub(super) fn arguments_of(name: &str, relation: TableFactor) -> Result<(Vec<FunctionArg>, Option<TableAlias>)> {
    let (args, alias, modified) = match relation {
        TableFactor::Table {
            name: _,
            alias,
            args: Some(TableFunctionArgs { args, settings }),
            with_hints,
            version,
            with_ordinality,
            partitions,
            json_path,
            sample,
            index_hints,
        } => {
            let modified = settings.is_some()
                || !with_hints.is_empty()
                || version.is_some()
                || with_ordinality
                || !partitions.is_empty()
                || json_path.is_some()
                || sample.is_some()
                || !index_hints.is_empty();
            (args, alias, modified)
        }
        TableFactor::Function { lateral: true, .. } => {
            return plan_err!("LATERAL {name}(…) is not supported; {}", join_instead(name));
        }
        TableFactor::Function { lateral: false, name: _, args, with_ordinality, alias } => {
            (args, alias, with_ordinality)
        }
        _ => return plan_err!("{name} is called as {name}(…)"),
    };
    if modified {
        return plan_err!("{name}(…) takes no modifiers such as WITH ORDINALITY, TABLESAMPLE or hints");
    }
    Ok((args, alias))
}

/// An ORDER BY that no LIMIT uses: the engine drops it from a relation.
fn orders_in_vain(query: &Query) -> bool {
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return false;
    }
    query.order_by.is_some()
        || match query.body.as_ref() {
            SetExpr::Query(inner) => orders_in_vain(inner),
            _ => false,
        }
}

/// Options by name, each given once.
pub(super) fn named(relation: &str, args: impl Iterator<Item = FunctionArg>) -> Result<Vec<(String, OptionValue)>> {
    let mut arguments: Vec<(String, OptionValue)> = Vec::new();
    for arg in args {
        let (name, value, operator) = match arg {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), operator } => (name.value, value, operator),
            FunctionArg::ExprNamed { name: Expr::Identifier(name), arg: FunctionArgExpr::Expr(value), operator } => {
                (name.value, value, operator)
            }
            other => {
                return plan_err!("{relation}(…) takes options by name, as in option => 'value', got {other}");
            }
        };
        if !matches!(operator, FunctionArgOperator::RightArrow | FunctionArgOperator::Assignment) {
            return plan_err!("{relation}(…) takes options as {name} => …, not {name} {operator} …");
        }
        let argument = name.to_ascii_lowercase();
        if arguments.iter().any(|(known, _)| *known == argument) {
            return plan_err!("{relation}(…) is given {argument} twice");
        }
        arguments.push((argument, option_value(&value)));
    }
    Ok(arguments)
}

pub(super) fn option_value(expr: &Expr) -> OptionValue {
    let text = |value: &Value| match value {
        Value::SingleQuotedString(text) | Value::DollarQuotedString(DollarQuotedString { value: text, tag: _ }) => {
            Some(OptionValue::Text(text.clone()))
        }
        _ => None,
    };
    let value = match expr {
        Expr::Value(value) => text(&value.value),
        Expr::Array(array) => Some(OptionValue::List(array.elem.iter().map(option_value).collect())),
        Expr::Nested(inner) => Some(option_value(inner)),
        Expr::Dictionary(fields) => {
            let fields =
                fields.iter().map(|field| (OptionValue::Text(field.key.value.clone()), option_value(&field.value)));
            Some(OptionValue::Map(fields.collect()))
        }
        Expr::Map(map) => {
            let entries = map.entries.iter().map(|entry| (option_value(&entry.key), option_value(&entry.value)));
            Some(OptionValue::Map(entries.collect()))
        }
        _ => None,
    };
    value.unwrap_or_else(|| OptionValue::Other(expr.to_string()))
}

fn join_instead(relation: &str) -> String {
    format!("join with it: SELECT … FROM t JOIN {relation}((SELECT key, … FROM …)) AS d ON d.key = t.key")
}

/// The columns of queries around this one that it refers to.
fn references_outside(plan: &LogicalPlan) -> Result<Vec<Column>> {
    let mut found = Vec::new();
    plan.apply_expressions(|expr| {
        expr.apply(|expr| {
            match expr {
                LogicalExpr::OuterReferenceColumn(_, column) => found.push(column.clone()),
                LogicalExpr::ScalarSubquery(subquery)
                | LogicalExpr::Exists(Exists { subquery, .. })
                | LogicalExpr::InSubquery(InSubquery { subquery, .. })
                | LogicalExpr::SetComparison(SetComparison { subquery, .. }) => {
                    found.extend(references_outside(&subquery.subquery)?);
                }
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    for input in plan.inputs() {
        found.extend(references_outside(input)?);
    }
    // A subquery may refer to the query that it is in, and the right side of a lateral join to the left.
    found.retain(|column| !plan.inputs().iter().any(|input| input.schema().has_column(column)));
    Ok(found)
}

/// The session's defaults with a call's arguments over them.
fn with_arguments(relation: &str, mut options: Options, arguments: &[(String, OptionValue)]) -> Result<Options> {
    for (name, value) in arguments {
        if matches!(name.as_str(), "copy" | "device") {
            // It would have no effect: the relation gives columns, and the end of the query makes tensors of them.
            return Err(Error::option(format!("{relation}(…) is given {name}, but it makes no tensors"))
                .remedy(format!(
                    "say it where the result becomes tensors: SET tensordict.{name} = {value}, --{name} of the \
                     command, or Options::{name} in Rust"
                ))
                .into());
        }
        options.set(name, value.clone())?;
    }
    // What the defaults say of masks is for the calls that mask.
    Ok(options.without_idle_masks(|option| arguments.iter().any(|(name, _)| name == option)))
}

/// One row per entry: what it is and where its mask would be.
fn describe(schema: &TensorDictSchema) -> Result<RecordBatch> {
    let entries: Vec<_> = schema.iter().collect();
    let strings = |value: &dyn Fn(usize) -> Option<String>| -> ArrayRef {
        Arc::new((0..entries.len()).map(value).collect::<StringArray>())
    };
    let nullable: BooleanArray = entries.iter().map(|entry| Some(entry.nullable())).collect();
    let path = |names: &[String]| names.join(".");
    RecordBatch::try_from_iter_with_nullable([
        ("path", strings(&|i| Some(path(entries[i].key().names()))), false),
        ("arrow_type", strings(&|i| Some(entries[i].field().data_type().to_string())), false),
        ("kind", strings(&|i| Some(entries[i].kind().to_owned())), false),
        ("dtype", strings(&|i| entries[i].dtype().map(|dtype| dtype.to_string())), true),
        ("shape", strings(&|i| Some(entries[i].shape())), false),
        ("nullable", Arc::new(nullable) as ArrayRef, false),
        ("nulls", strings(&|i| Some(entries[i].nulls().to_string())), false),
        ("mask_path", strings(&|i| schema.mask_key_of(entries[i]).map(|key| path(key.names()))), true),
    ])
    .map(ruled_on)
    .map_err(DataFusionError::from)
}

/// A missing dtype or mask is an answer, not a null to refuse.
fn ruled_on(batch: RecordBatch) -> RecordBatch {
    let fields: Vec<_> = batch.schema().fields().iter().map(|field| mark_ruled_on(field)).collect();
    let schema = Arc::new(Schema::new(fields));
    batch.clone().with_schema(schema).unwrap_or(batch)
}
