//! From the logical node to the operator.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

use super::exec::TensorizeExec;
use super::logical::TensorizeNode;

/// Plans the logical node. For hosts that have a query planner of their own: add it to their
/// [`DefaultPhysicalPlanner::with_extension_planners`].
#[derive(Debug, Default)]
pub struct TensorizeExtensionPlanner;

#[async_trait]
impl ExtensionPlanner for TensorizeExtensionPlanner {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        _session: &dyn Session,
        _planning_ctx: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(node), [input]) = (node.as_any().downcast_ref::<TensorizeNode>(), physical_inputs) else {
            return Ok(None);
        };
        Ok(Some(Arc::new(TensorizeExec::try_new(Arc::clone(input), Arc::clone(node.options()))?)))
    }
}

/// A query planner that knows the logical node, and leaves plans without it to the planner before it.
#[derive(Debug, Default)]
pub struct TensorizeQueryPlanner {
    inner: Option<Arc<dyn QueryPlanner + Send + Sync>>,
}

impl TensorizeQueryPlanner {
    /// In front of `inner`, or of DataFusion's own planner.
    pub fn new(inner: Option<Arc<dyn QueryPlanner + Send + Sync>>) -> Self {
        TensorizeQueryPlanner { inner }
    }
}

#[async_trait]
impl QueryPlanner for TensorizeQueryPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        match &self.inner {
            Some(inner) if !has_tensorize(plan)? => inner.create_physical_plan(plan, session).await,
            _ => {
                let planner =
                    DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(TensorizeExtensionPlanner)]);
                planner.create_physical_plan(plan, session).await
            }
        }
    }
}

/// Whether the node is anywhere in the plan, subqueries included.
fn has_tensorize(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|plan| {
        if let LogicalPlan::Extension(extension) = plan {
            found |= extension.node.as_any().is::<TensorizeNode>();
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}
