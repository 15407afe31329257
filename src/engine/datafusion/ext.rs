//! What a DataFusion user sees: methods on the session builder, the session and the DataFrame.

use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use datafusion::common::DFSchemaRef;
use datafusion::dataframe::DataFrame;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, execute_stream};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::config::TensorDictConfig;
use super::functions::{self, FieldNulls, UnnestNulls};
use super::planner::TensorizeQueryPlanner;
use super::relation::TensorDictRelations;
use super::rule::{PushTensorizeBelowMerge, tensorize};
use super::source::FrameSource;
use super::stream::TensorDictStream;
use crate::convert::Converter;
use crate::dict::{TensorDict, ensure_device};
use crate::error::{Error, Result};
use crate::loader::{Loader, shown_bytes};
use crate::options::{MaskKeys, Options};
use crate::schema::TensorDictSchema;

/// Adds tensordicts to a session that is being built.
pub trait SessionStateBuilderExt {
    /// Adds the relations `tensordict((SELECT …), …)` and `tensordict_schema((SELECT …), …)`, the
    /// defaults `SET tensordict.…`, what plans and places the operator, and the functions `pad_list`, `truncate_list`,
    /// `fill_null`, `tensor_shape`, `one_hot` and `shuffle_key`. On Linux and macOS also the forms of saved
    /// tensordicts: `COPY (…) TO 'dir' STORED AS TENSORDICT` or `SAFETENSORS`, `read_tensordict('dir')`,
    /// `read_safetensors('file')`, and `CREATE EXTERNAL TABLE`.
    ///
    /// `s['f']` and `unnest(s)` give null where `s` is null, in all queries of the session; DataFusion's
    /// own give what happens to lie there.
    ///
    /// A query planner that was set before still plans all queries without these relations. Call this
    /// after [`with_config`](SessionStateBuilder::with_config), which would drop the defaults.
    ///
    /// ```
    /// use datafusion::execution::session_state::SessionStateBuilder;
    /// use datafusion::prelude::SessionContext;
    /// use tensorquery::{DataFrameExt, SessionContextExt, SessionStateBuilderExt};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let state = SessionStateBuilder::new().with_default_features().with_tensordict().build();
    /// let ctx = SessionContext::new_with_state(state);
    /// let query = "SELECT x, x > 1 AS big FROM (VALUES (1), (NULL), (3)) AS t(x)";
    /// let query = format!("SELECT * FROM tensordict(({query}), nulls => 'mask')");
    /// let td = ctx.sql(&query).await?.to_tensordict(&ctx.tensordict_options()?).await?;
    /// assert_eq!(Vec::<i64>::try_from(td.tensor("x")?)?, [1, 0, 3]);
    /// assert_eq!(Vec::<bool>::try_from(td.tensor(["_mask", "x"])?)?, [true, false, true]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    fn with_tensordict(self) -> Self;
}

impl SessionStateBuilderExt for SessionStateBuilder {
    fn with_tensordict(mut self) -> Self {
        let config = self.config().get_or_insert_default();
        config.options_mut().extensions.insert(TensorDictConfig::default());
        self.relation_planners().get_or_insert_default().insert(0, Arc::new(TensorDictRelations));
        functions::register(&mut self);
        #[cfg(any(target_os = "linux", target_os = "macos"))]
        super::saved::register(&mut self);
        self.analyzer().get_or_insert_default().add_function_rewrite(Arc::new(FieldNulls::new()));
        let inner = self.query_planner().take();
        self.with_analyzer_rule(Arc::new(UnnestNulls))
            .with_query_planner(Arc::new(TensorizeQueryPlanner::new(inner)))
            .with_physical_optimizer_rule(Arc::new(PushTensorizeBelowMerge))
    }
}

/// The session's defaults.
pub trait SessionContextExt {
    /// The options that `SET tensordict.…` has given the session.
    ///
    /// # Errors
    ///
    /// Never today; a default that can't apply to every query may become one.
    fn tensordict_options(&self) -> Result<Options>;

    /// Takes back what `SET tensordict.…` has said of an option, as `RESET` does for the engine's own
    /// settings: its own `RESET` knows no others.
    ///
    /// # Errors
    ///
    /// An [option](Error::is_option) error for an unknown name.
    fn reset_tensordict_option(&self, name: &str) -> Result<()>;
}

impl SessionContextExt for SessionContext {
    fn tensordict_options(&self) -> Result<Options> {
        let state = self.state_ref();
        let state = state.read();
        Ok(TensorDictConfig::options(state.config_options()).without_idle_masks(|_| false))
    }

    fn reset_tensordict_option(&self, name: &str) -> Result<()> {
        let state = self.state_ref();
        let mut state = state.write();
        match state.config_mut().options_mut().extensions.get_mut::<TensorDictConfig>() {
            Some(config) => config.reset(name),
            // Nothing was set where nothing can be.
            None => Ok(()),
        }
    }
}

/// How far a query has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rows computed so far.
    pub rows: u64,
    /// Record batches that they came in.
    pub batches: u64,
}

/// A DataFrame's result as tensors.
#[async_trait]
pub trait DataFrameExt: Sized {
    /// What the result would be, without running the query.
    ///
    /// # Errors
    ///
    /// What [`TensorDictSchema::resolve`] says.
    fn tensordict_schema(&self, options: &Options) -> Result<TensorDictSchema>;

    /// Runs the query and gives its whole result as one tensordict.
    ///
    /// # Errors
    ///
    /// An [engine](Error::is_engine) error if the query fails; what [`from_arrow`](crate::from_arrow)
    /// says. A device that is not there is an error before the query starts.
    async fn to_tensordict(self, options: &Options) -> Result<TensorDict> {
        self.to_tensordict_with(options, |_| {}).await
    }

    /// As [`to_tensordict`](Self::to_tensordict), telling how far the query has come after each batch.
    ///
    /// # Errors
    ///
    /// As [`to_tensordict`](Self::to_tensordict).
    async fn to_tensordict_with<F>(self, options: &Options, progress: F) -> Result<TensorDict>
    where
        F: FnMut(Progress) + Send;

    /// Runs the query and gives its result batch by batch, as it is computed. Memory stays bounded.
    ///
    /// # Errors
    ///
    /// As [`to_tensordict`](Self::to_tensordict), and `mask_keys=observed`. Errors of the run come
    /// through the stream.
    async fn tensordict_stream(self, options: &Options) -> Result<TensorDictStream>;

    /// The query as batches for training, run anew each epoch: shuffled, sharded, computed ahead, resumed.
    ///
    /// ```
    /// use datafusion::prelude::SessionContext;
    /// use futures::TryStreamExt;
    /// use tensorquery::{DataFrameExt, LoaderState, Options, Order};
    ///
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
    /// let ctx = SessionContext::new();
    /// let query = ctx.sql("SELECT column1 AS id, column1 * 0.5 AS x FROM (VALUES (1), (2), (3), (4), (5))").await?;
    /// let loader = query.tensordict_loader(&Options::default()).await?;
    /// let loader = loader.batch_size(2).order(Order::shuffled(7, ["id"]));
    ///
    /// let mut batches = loader.epoch(0).await?;
    /// let first = batches.try_next().await?.expect("there are rows");
    /// assert_eq!(first.batch_size(), [2]);
    ///
    /// // After a crash, with exactly the batch that comes next.
    /// let state = LoaderState::from_json(&batches.state().to_string())?;
    /// let rest: Vec<_> = loader.resume(&state).await?.try_collect().await?;
    /// assert_eq!(rest.iter().map(|batch| batch.batch_size()[0]).collect::<Vec<_>>(), [2, 1]);
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`tensordict_stream`](Self::tensordict_stream).
    async fn tensordict_loader(self, options: &Options) -> Result<Loader>;
}

#[async_trait]
impl DataFrameExt for DataFrame {
    fn tensordict_schema(&self, options: &Options) -> Result<TensorDictSchema> {
        TensorDictSchema::resolve(announced(self)?.as_arrow(), options)
    }

    async fn to_tensordict_with<F>(self, options: &Options, progress: F) -> Result<TensorDict>
    where
        F: FnMut(Progress) + Send,
    {
        ensure_target(options)?;
        let schema = announced(&self)?;
        let schema = schema.as_arrow();
        let observed = options.masks_anything() && options.mask_keys_or(MaskKeys::Observed) == MaskKeys::Observed;
        let options = match observed {
            // The operator's schema can't depend on data: all masks are made, idle ones go at the end.
            true => {
                TensorDictSchema::resolve(schema, options)?;
                options.clone().mask_keys(MaskKeys::Nullable)
            }
            false => TensorDictSchema::plan_masks(schema, options)?,
        };
        let context = Arc::new(self.task_ctx());
        let plan = tensorize(self.create_physical_plan().await?, &options)?;
        let converter = Converter::whole(&plan.schema(), &options.after_nulls())?;
        let (batches, reservation) = collect(plan, context, progress).await?;
        let convert = move || converter.convert(batches).map(|(dict, _)| dict);
        let converted = tokio::task::spawn_blocking(convert).await.map_err(Error::engine)?;
        drop(reservation);
        let mut dict = converted?;
        if observed {
            dict.drop_idle_masks(&options.resolved_mask_key())?;
        }
        Ok(dict)
    }

    async fn tensordict_stream(self, options: &Options) -> Result<TensorDictStream> {
        ensure_target(options)?;
        let context = Arc::new(self.task_ctx());
        let options = TensorDictSchema::plan_masks(announced(&self)?.as_arrow(), options)?;
        let plan = tensorize(self.create_physical_plan().await?, &options)?;
        TensorDictStream::try_new(execute_stream(plan, context)?, &options.after_nulls())
    }

    async fn tensordict_loader(self, options: &Options) -> Result<Loader> {
        ensure_target(options)?;
        let options = TensorDictSchema::plan_masks(announced(&self)?.as_arrow(), options)?;
        Ok(Loader::new(Arc::new(FrameSource::try_new(self, &options).await?)))
    }
}

/// The schema that the query has once our rule has seen it: unnested fields of a nullable struct are
/// nullable.
fn announced(frame: &DataFrame) -> Result<DFSchemaRef> {
    let plan = frame.logical_plan();
    if !UnnestNulls::applies_to(plan)? {
        return Ok(DFSchemaRef::clone(plan.schema()));
    }
    let (state, plan) = frame.clone().into_parts();
    let ours = state.analyzer().rules.iter().any(|rule| rule.name() == UnnestNulls.name());
    let plan = if ours { UnnestNulls::rewrite(plan)? } else { plan };
    Ok(DFSchemaRef::clone(plan.schema()))
}

/// A device that is not there shows before anything is planned or run.
fn ensure_target(options: &Options) -> Result<()> {
    options.target_device().map_or(Ok(()), ensure_device)
}

/// All record batches, partition after partition, charged to the session's memory pool.
async fn collect(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    mut progress: impl FnMut(Progress) + Send,
) -> Result<(Vec<RecordBatch>, MemoryReservation)> {
    let partitions = plan.output_partitioning().partition_count();
    let reservation = MemoryConsumer::new("tensordict result").register(context.memory_pool());
    let mut collected: Vec<Vec<RecordBatch>> = vec![Vec::new(); partitions];
    let (sender, mut receiver) = mpsc::channel(partitions.max(1));
    let mut tasks = JoinSet::new();
    for partition in 0..partitions {
        let stream = plan.execute(partition, Arc::clone(&context))?;
        tasks.spawn(forward(stream, partition, sender.clone()));
    }
    drop(sender);
    let mut done = Progress::default();
    while let Some((partition, batch)) = receiver.recv().await {
        let batch: RecordBatch = batch?;
        reservation.try_grow(shown_bytes(&batch)).map_err(Error::from)?;
        done.rows += batch.num_rows() as u64;
        done.batches += 1;
        progress(done);
        collected[partition].push(batch);
    }
    // A task that panicked has sent no error of its own.
    while let Some(finished) = tasks.join_next().await {
        finished.map_err(Error::engine)?;
    }
    Ok((collected.into_iter().flatten().collect(), reservation))
}

type Sent = (usize, Result<RecordBatch, DataFusionError>);

async fn forward(mut stream: SendableRecordBatchStream, partition: usize, sender: mpsc::Sender<Sent>) {
    while let Some(batch) = stream.next().await {
        if sender.send((partition, batch)).await.is_err() {
            return;
        }
    }
}
