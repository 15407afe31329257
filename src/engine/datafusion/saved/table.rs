//! A saved tensordict as a table.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider, TableProviderFactory};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::logical_expr::{CreateExternalTable, Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::columns::{Saved, Source};
use super::copy::short;
use super::form::{Form, local_path};
use super::scan::SavedScan;
use crate::engine::datafusion::config::parse;
use crate::error::Error;
use crate::options::ReadOptions;

/// Its columns are those that were there when it was made; its rows those of when a query is planned.
#[derive(Debug)]
pub(super) struct SavedTable {
    source: Source,
    schema: SchemaRef,
    definition: Option<String>,
}

impl SavedTable {
    /// # Errors
    ///
    /// What [`Saved::inspect`] says.
    pub(super) fn open(
        form: Form,
        path: PathBuf,
        options: ReadOptions,
        definition: Option<String>,
    ) -> crate::error::Result<SavedTable> {
        let source = Source { form, path, options };
        let schema = Saved::inspect(&source)?.schema;
        Ok(SavedTable { source, schema, definition })
    }
}

#[async_trait]
impl TableProvider for SavedTable {
    fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.definition.as_deref()
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let saved = Saved::inspect(&self.source)?;
        if saved.schema != self.schema {
            return Err(Error::file("it holds other columns than when the table was made")
                .in_file(&self.source.path)
                .remedy("drop the table and create it again")
                .into());
        }
        let projection = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let scan = SavedScan::try_new(saved, projection, limit, state.config())?;
        Ok(DataSourceExec::from_data_source(scan))
    }
}

/// Makes the tables of `CREATE EXTERNAL TABLE … STORED AS TENSORDICT` and `SAFETENSORS`.
#[derive(Debug)]
pub(super) struct SavedTableFactory(pub(super) Form);

#[async_trait]
impl TableProviderFactory for SavedTableFactory {
    async fn create(&self, _: &dyn Session, table: &CreateExternalTable) -> Result<Arc<dyn TableProvider>> {
        let form = self.0;
        let refused = |what: &str, remedy: &str| {
            let message = format!("a table stored as a {} takes no {what}", form.word());
            Err(Error::option(message).remedy(remedy).into())
        };
        let [location] = table.locations.as_slice() else {
            return refused("several locations", "create a table of each, and a view of their UNION ALL");
        };
        if !table.schema.fields().is_empty() || !table.column_defaults.is_empty() {
            return refused("columns", "leave them out: what is saved says what they are");
        }
        if !table.table_partition_cols.is_empty() {
            return refused("PARTITIONED BY", "create a table of each part, and a view of their UNION ALL");
        }
        if !table.order_exprs.is_empty() || table.constraints.iter().next().is_some() {
            return refused("WITH ORDER or constraints", "leave them out: nothing checks that they hold");
        }
        if table.unbounded {
            return refused("UNBOUNDED", "leave it out");
        }
        let mut options = ReadOptions::default();
        let mut given: Vec<_> = table.options.iter().map(|(key, value)| (short(key), value)).collect();
        given.sort();
        for (name, value) in given {
            options.set(name, &parse(name, value)?)?;
        }
        Ok(Arc::new(SavedTable::open(form, local_path(location)?, options, table.definition.clone())?))
    }
}
