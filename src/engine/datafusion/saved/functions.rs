//! `read_tensordict('dir')` and `read_safetensors('file')` in FROM.

use std::sync::Arc;

use datafusion::common::plan_err;
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::sql::sqlparser::ast::{FunctionArg, FunctionArgExpr, TableFactor};

use super::form::{Form, local_path};
use super::table::SavedTable;
use crate::engine::datafusion::relation::{arguments_of, called, named, option_value};
use crate::options::{OptionValue, ReadOptions};

/// Plans the two functions, and leaves all other relations as they are.
#[derive(Debug)]
pub(super) struct ReadFunctions;

impl RelationPlanner for ReadFunctions {
    fn plan_relation(&self, relation: TableFactor, _: &mut dyn RelationPlannerContext) -> Result<RelationPlanning> {
        let Some(form) = Form::ALL.into_iter().find(|form| called(&relation, &[form.function()]).is_some()) else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let name = form.function();
        let (args, alias) = arguments_of(name, relation)?;
        let mut args = args.into_iter();
        let path = match args.next() {
            Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(path))) => match option_value(&path) {
                OptionValue::Text(path) => path,
                other => return plan_err!("{name}(…) takes a path in quotes, got {other}; write {name}('path')"),
            },
            other => {
                let got = other.map_or("nothing".to_owned(), |arg| arg.to_string());
                return plan_err!("{name}(…) takes a path in quotes, got {got}; write {name}('path')");
            }
        };
        let mut options = ReadOptions::default();
        for (name, value) in named(name, args)? {
            options.set(&name, &value)?;
        }
        let table = SavedTable::open(form, local_path(&path)?, options, None)?;
        let plan = LogicalPlanBuilder::scan(name, provider_as_source(Arc::new(table)), None)?.build()?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
    }
}
