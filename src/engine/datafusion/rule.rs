//! Where the operator sits in a physical plan.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;

use super::exec::TensorizeExec;
use crate::options::Options;

/// The plan with its nulls ruled on: the operator on top of it, or below the merges at its root, so
/// that it runs once per partition. A plan that has nothing to rule on comes back as it is.
///
/// It needs no planner hooks, so it works with any session and any host.
///
/// # Errors
///
/// What [`TensorDictSchema::resolve_static`](crate::TensorDictSchema::resolve_static) says of the
/// plan's schema and the options.
pub fn tensorize(plan: Arc<dyn ExecutionPlan>, options: &Options) -> Result<Arc<dyn ExecutionPlan>> {
    let exec = TensorizeExec::try_new(plan, Arc::new(options.clone()))?;
    if exec.is_idle() {
        return Ok(Arc::clone(exec.input()));
    }
    push_below_merge(&exec).transpose().unwrap_or_else(|| Ok(Arc::new(exec)))
}

/// Moves the operator below merges of partitions, so that it runs in parallel (and on workers).
///
/// ```text
/// TensorizeExec                                      SortPreservingMergeExec: [id ASC]
///   SortPreservingMergeExec: [id ASC]         →        TensorizeExec
///     SortExec: [id ASC]                                 SortExec: [id ASC]
/// ```
///
/// It stays above a merge whose sort keys it changes, and above one with a limit: rows that the limit
/// drops are nobody's business.
#[derive(Debug, Default)]
pub struct PushTensorizeBelowMerge;

impl PhysicalOptimizerRule for PushTensorizeBelowMerge {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let pushed = plan.downcast_ref::<TensorizeExec>().map(push_below_merge).transpose()?.flatten();
            Ok(pushed.map_or_else(|| Transformed::no(plan), Transformed::yes))
        })
        .data()
    }

    fn name(&self) -> &str {
        "push_tensorize_below_merge"
    }

    /// Masks are part of the operator's schema, and the merge takes it over.
    fn schema_check(&self) -> bool {
        true
    }
}

fn push_below_merge(exec: &TensorizeExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let below = |input: &Arc<dyn ExecutionPlan>| -> Result<Arc<dyn ExecutionPlan>> {
        let moved = TensorizeExec::try_new(Arc::clone(input), Arc::clone(exec.options()))?;
        // The next merge further down, if there is one.
        Ok(push_below_merge(&moved)?.unwrap_or_else(|| Arc::new(moved)))
    };
    let input = exec.input();
    if let Some(merge) = input.downcast_ref::<SortPreservingMergeExec>() {
        if merge.fetch().is_none() && exec.keeps_sort_keys(merge.expr().iter()) {
            // Columns keep their places, so the sort keys are right as they are.
            let merged = SortPreservingMergeExec::new(merge.expr().clone(), below(merge.input())?);
            return Ok(Some(Arc::new(merged)));
        }
    } else if let Some(merge) = input.downcast_ref::<CoalescePartitionsExec>()
        && merge.fetch().is_none()
    {
        return Ok(Some(Arc::new(CoalescePartitionsExec::new(below(merge.input())?))));
    }
    Ok(None)
}
