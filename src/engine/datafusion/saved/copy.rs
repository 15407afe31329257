//! `COPY (…) TO 'dir' STORED AS TENSORDICT`, as the engine plans it: a format, which gives the plan of its writer.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Statistics};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig, FileSource, JsonSource};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::object_store::{ObjectMeta, ObjectStore};
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::ExecutionPlan;

use super::form::{Form, local_path};
use super::sink::SavedSink;
use crate::convert::Converter;
use crate::engine::datafusion::config::{TensorDictConfig, parse};
use crate::error::Error;
use crate::options::{CopyPolicy, Options, flag};
use crate::schema::TensorDictSchema;

/// Makes the format of a COPY from its OPTIONS and the session's defaults.
#[derive(Debug)]
pub(super) struct SavedFormatFactory(pub(super) Form);

impl GetExt for SavedFormatFactory {
    fn get_ext(&self) -> String {
        self.0.word().to_owned()
    }
}

impl FileFormatFactory for SavedFormatFactory {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        let defaults = TensorDictConfig::options(state.config_options());
        Ok(Arc::new(SavedFormat::try_new(self.0, defaults, options)?))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(SavedFormat { form: self.0, options: Options::default(), overwrite: false })
    }
}

/// How a query's result is saved.
#[derive(Debug)]
struct SavedFormat {
    form: Form,
    options: Options,
    overwrite: bool,
}

impl SavedFormat {
    fn try_new(form: Form, defaults: Options, given: &HashMap<String, String>) -> crate::error::Result<SavedFormat> {
        // Defaults of tensors in memory mean nothing to files.
        let mut options = defaults.copy(CopyPolicy::Auto).device(None);
        let mut overwrite = false;
        let mut given: Vec<_> = given.iter().map(|(key, value)| (short(key), value)).collect();
        given.sort();
        for (name, value) in &given {
            match *name {
                "overwrite" => overwrite = flag(name, &parse(name, value)?)?,
                "copy" | "device" => {
                    return Err(Error::option(format!("COPY is given {name}, but files hold no tensors in memory"))
                        .remedy(format!("leave it out; say {name} where the files are loaded")));
                }
                name if Options::NAMES.contains(&name) => options.set(name, parse(name, value)?)?,
                name => {
                    let known = Options::NAMES.iter().filter(|name| !matches!(**name, "copy" | "device"));
                    let known: Vec<_> = known.copied().chain(["overwrite"]).collect();
                    return Err(Error::option(format!("there is no option '{name}' of COPY to a {}", form.word()))
                        .remedy(format!("the options are {}", known.join(", "))));
                }
            }
        }
        // What the defaults say of masks is for the results that mask.
        let options = options.without_idle_masks(|option| given.iter().any(|(name, _)| *name == option));
        Ok(SavedFormat { form, options, overwrite })
    }

    fn reads_elsewhere(&self) -> Error {
        Error::option(format!("a {} is no table of files", self.form.word())).remedy(format!(
            "read it with {}('path'), or CREATE EXTERNAL TABLE … STORED AS {}",
            self.form.function(),
            self.form.word().to_ascii_uppercase()
        ))
    }
}

/// An option's name without the prefix that the engine gives it.
pub(super) fn short(key: &str) -> &str {
    key.strip_prefix("format.").unwrap_or(key)
}

#[async_trait]
impl FileFormat for SavedFormat {
    fn get_ext(&self) -> String {
        self.form.word().to_owned()
    }

    fn get_ext_with_compression(&self, _: &FileCompressionType) -> Result<String> {
        Ok(self.get_ext())
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        None
    }

    async fn infer_schema(&self, _: &dyn Session, _: &Arc<dyn ObjectStore>, _: &[ObjectMeta]) -> Result<SchemaRef> {
        Err(self.reads_elsewhere().into())
    }

    async fn infer_stats(
        &self,
        _: &dyn Session,
        _: &Arc<dyn ObjectStore>,
        _: SchemaRef,
        _: &ObjectMeta,
    ) -> Result<Statistics> {
        Err(self.reads_elsewhere().into())
    }

    async fn create_physical_plan(&self, _: &dyn Session, _: FileScanConfig) -> Result<Arc<dyn ExecutionPlan>> {
        Err(self.reads_elsewhere().into())
    }

    /// One writer takes the result in its order. It rules on nulls itself: an operator below it would hide from the
    /// optimizer that rows are to stay in the order of a column whose nulls are filled.
    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        _: &dyn Session,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let path = local_path(&config.original_url)?;
        if let Some((column, _)) = config.table_partition_cols.first() {
            let error =
                Error::option(format!("a {} isn't PARTITIONED BY columns", self.form.word())).at(column.as_str());
            return Err(error.remedy("copy each part to a place of its own: … WHERE column = value").into());
        }
        let options = TensorDictSchema::plan_masks(&config.output_schema, &self.options)?;
        let converter = Converter::streaming(&input.schema(), &options)?;
        let sink = SavedSink::new(self.form, path, converter, &options, self.overwrite, order.is_some());
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), order)))
    }

    /// Of a scan that [`create_physical_plan`](Self::create_physical_plan) refuses; the engine asks for it before.
    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        Arc::new(JsonSource::new(table_schema))
    }
}

/// The path as it is written, for people.
pub(super) fn shown(path: &Path) -> String {
    format!("'{}'", path.display())
}
