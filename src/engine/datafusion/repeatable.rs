//! Whether a query gives the same each time, as far as its plan can prove it.
//!
//! What isn't known to is refused: a training run that can't be repeated should show before it starts.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, Volatility};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::error::{Error, Result};

const REMEDY: &str = "store the query's result first, with `cache()` or in a file, and load that";

/// Aggregates whose result doesn't depend on the order of rows, whatever their types. Sums and means are not: those of floats
/// are rounded in the order that they are added in.
const ORDERLESS: [&str; 7] = ["count", "min", "max", "bool_and", "bool_or", "bit_and", "bit_or"];

/// Refuses functions that give something else each time.
pub(super) fn ensure_repeatable(plan: &LogicalPlan) -> Result<()> {
    let mut volatile = None;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(call) = expr
                    && call.func.signature().volatility != Volatility::Immutable
                {
                    volatile = Some(call.func.name().to_owned());
                    return Ok(TreeNodeRecursion::Stop);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    match volatile {
        Some(name) => {
            let message = format!("`{name}` may give something else each time, so epochs can't be repeated");
            Err(Error::option(message).remedy(REMEDY))
        }
        None => Ok(()),
    }
}

/// Refuses what may give other rows when they are computed in another order.
pub(super) fn ensure_same_rows(plan: &LogicalPlan) -> Result<()> {
    let mut refused = None;
    plan.apply_with_subqueries(|node| {
        refused = depends_on_order(node)?;
        Ok(if refused.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    match refused {
        Some(what) => {
            let message =
                format!("{what} depends on the order of rows, which isn't fixed where several threads compute");
            Err(Error::option(message).remedy(REMEDY))
        }
        None => Ok(()),
    }
}

fn depends_on_order(node: &LogicalPlan) -> Result<Option<String>, datafusion::error::DataFusionError> {
    Ok(match node {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Join(_)
        | LogicalPlan::Repartition(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::EmptyRelation(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::Unnest(_)
        | LogicalPlan::Distinct(Distinct::All(_)) => None,
        LogicalPlan::TableScan(scan) => scan.fetch.map(|_| String::from("LIMIT")),
        LogicalPlan::Sort(sort) => sort.fetch.map(|_| String::from("LIMIT")),
        LogicalPlan::Limit(_) => Some("LIMIT".into()),
        LogicalPlan::Distinct(Distinct::On(_)) => Some("DISTINCT ON".into()),
        LogicalPlan::Aggregate(aggregate) => {
            let mut found = None;
            for expr in &aggregate.aggr_expr {
                expr.apply(|expr| {
                    if let Expr::AggregateFunction(call) = expr
                        && !ORDERLESS.contains(&call.func.name())
                    {
                        found = Some(format!("`{}`", call.func.name()));
                        return Ok(TreeNodeRecursion::Stop);
                    }
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
            found
        }
        // Ours rules on nulls row by row.
        LogicalPlan::Extension(extension) if extension.node.name() == "Tensorize" => None,
        LogicalPlan::Window(_) => Some("a window function".into()),
        other => Some(format!("`{}`", other.display())),
    })
}

/// What is found first in a node of the plan, from the top.
pub(super) fn first_of<T>(
    plan: &Arc<dyn ExecutionPlan>,
    mut find: impl FnMut(&Arc<dyn ExecutionPlan>) -> Option<T>,
) -> Result<Option<T>> {
    let mut found = None;
    plan.apply(|node| {
        found = find(node);
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Refuses plans of one partition in which rows don't come as they are stored.
pub(super) fn ensure_order_is_stored(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    const KEEP_ORDER: [&str; 9] = [
        "DataSourceExec",
        "FilterExec",
        "ProjectionExec",
        "UnnestExec",
        "CooperativeExec",
        "GlobalLimitExec",
        "LocalLimitExec",
        "EmptyExec",
        "TensorizeExec",
    ];
    let refused = first_of(plan, |node| {
        let partitions = node.output_partitioning().partition_count();
        match node.name() {
            name if !KEEP_ORDER.contains(&name) => Some(format!("`{name}` doesn't keep the order of rows")),
            _ if partitions > 1 => Some(format!("a table of {partitions} partitions has no order")),
            _ => None,
        }
    })?;
    match refused {
        Some(message) => Err(Error::option(message).remedy("use `Order::shuffled`, or store the result in one file")),
        None => Ok(()),
    }
}
