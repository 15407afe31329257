//! The logical node: `Tensorize` over one input.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};

use crate::options::Options;
use crate::schema::TensorDictSchema;

/// Rules on the nulls of its input's columns and appends the masks.
///
/// ```text
/// Tensorize: nulls=mask                       a, b, _mask
///   Projection: t.a, t.b                      a, b
/// ```
#[derive(Clone, Debug)]
pub(super) struct TensorizeNode {
    input: LogicalPlan,
    options: Arc<Options>,
    resolved: TensorDictSchema,
    schema: DFSchemaRef,
}

impl TensorizeNode {
    /// # Errors
    ///
    /// What [`TensorDictSchema::resolve_static`] says of the input's schema and the options.
    pub(super) fn try_new(input: LogicalPlan, options: Arc<Options>) -> Result<Self> {
        let fields = input.schema().as_arrow();
        let resolved = TensorDictSchema::resolve_static(fields, &options)?;
        let output = resolved.output_schema(fields);
        let qualifiers = input.schema().iter().map(|(qualifier, _)| qualifier.cloned());
        let qualified = qualifiers.chain([None]).zip(output.fields().iter().map(Arc::clone)).collect();
        let schema = Arc::new(DFSchema::new_with_metadata(qualified, output.metadata().clone())?);
        Ok(TensorizeNode { input, options, resolved, schema })
    }

    pub(super) fn options(&self) -> &Arc<Options> {
        &self.options
    }

    fn num_columns(&self) -> usize {
        self.resolved.entries().len()
    }
}

impl PartialEq for TensorizeNode {
    fn eq(&self, other: &Self) -> bool {
        self.input == other.input && self.options == other.options
    }
}

impl Eq for TensorizeNode {}

impl Hash for TensorizeNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.input.hash(state);
        self.options.hash(state);
    }
}

impl PartialOrd for TensorizeNode {
    /// By input; nodes over one input with different options have no order.
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.input.partial_cmp(&other.input).filter(|order| *order != Ordering::Equal || self == other)
    }
}

impl UserDefinedLogicalNodeCore for TensorizeNode {
    fn name(&self) -> &str {
        "Tensorize"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    /// None: an expression would count as a use of its columns, and keep unused ones alive.
    fn expressions(&self) -> Vec<Expr> {
        vec![]
    }

    /// Filters pass where they see the same values below: not on what is filled or refused, nor on masks.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        let touched = self.resolved.entries().iter().filter(|entry| !entry.is_untouched());
        let names = touched.map(|entry| entry.field().name().clone());
        names.chain(self.resolved.mask_key().names().first().cloned()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensorize: {}", self.options)
    }

    /// The input may have been pruned, so the options are read again by column name.
    fn with_exprs_and_inputs(&self, _exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = inputs.swap_remove(0);
        let options = self.options.restricted_to(|name| input.schema().as_arrow().index_of(name).is_ok());
        TensorizeNode::try_new(input, Arc::new(options))
    }

    /// A column needs itself; the masks need all the columns they tell of.
    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let count = self.num_columns();
        let mut needed: Vec<usize> = output_columns.iter().copied().filter(|column| *column < count).collect();
        if output_columns.iter().any(|column| *column >= count) {
            let masked = |index: &usize| self.resolved.has_masks(&self.resolved.entries()[*index]);
            needed.extend((0..count).filter(masked));
        }
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }
}
