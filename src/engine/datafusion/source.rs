//! A query as often as a loader asks for it, in the order it asks for.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::common::{Column, DFSchema};
use datafusion::dataframe::DataFrame;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::logical_expr::{Expr, ScalarUDF, lit};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;

use super::files::Files;
use super::functions::ShuffleKey;
use super::repeatable::{ensure_order_is_stored, ensure_repeatable, ensure_same_rows};
use super::scan::{Scan, bytes_scanned};
use crate::convert::Converter;
use crate::error::{Error, Result};
use crate::loader::{
    BatchSource, Charge, Chunk, DistinctRows, Made, Measure, Opened, Order, Reading, is_key_type, measure_lists,
    part_of, stored_part,
};
use crate::options::Options;
use crate::schema::TensorDictSchema;

#[derive(Debug)]
pub(super) struct FrameSource {
    frame: DataFrame,
    converter: Converter,
    columns: SchemaRef,
    files: Files,
    memory: MemoryReservation,
}

impl FrameSource {
    /// `options` are those of the rows as the query gives them.
    pub(super) async fn try_new(frame: DataFrame, options: &Options) -> Result<Self> {
        let memory = MemoryConsumer::new("tensordict loader").register(frame.task_ctx().memory_pool());
        let plan = frame.clone().create_physical_plan().await?;
        let columns = plan.schema();
        let converter = Converter::streaming(&columns, options)?;
        Ok(FrameSource { frame, converter, columns, files: Files::of(&plan)?, memory })
    }

    /// The query planned for one partition, which keeps rows in the order of the files.
    async fn in_one_partition(&self) -> Result<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)> {
        let (mut state, plan) = self.frame.clone().into_parts();
        ensure_repeatable(&plan)?;
        let options = state.config_mut().options_mut();
        options.execution.target_partitions = 1;
        // Else a large file is read as the one range that it is.
        options.optimizer.repartition_file_scans = false;
        let frame = DataFrame::new(state, plan);
        let context = Arc::new(frame.task_ctx());
        Ok((frame.create_physical_plan().await?, context))
    }

    async fn as_stored(&self, reading: &Reading<'_>) -> Result<Opened> {
        let (plan, context) = self.in_one_partition().await?;
        ensure_order_is_stored(&plan)?;
        if Scan::ensure_fits(&plan).is_err() {
            return self.run(plan, context);
        }
        self.files.ensure_read_by(&plan)?;
        let scan = Scan::try_new(plan, context, false).await?;
        let part = stored_part(&scan.rows, scan.filtered, reading);
        let opened = scan.read(part, self.threads())?;
        Ok(Opened { dealt: false, total: opened.total.filter(|_| reading.shard.is_none()), ..opened })
    }

    async fn streamed(&self, seed: u64, reading: &Reading<'_>) -> Result<Opened> {
        let (plan, context) = self.in_one_partition().await?;
        self.files.ensure_read_by(&plan)?;
        // So that copies of the files that are listed otherwise give the same.
        let scan = Scan::try_new(plan, context, true).await?;
        let part = part_of(&scan.rows, scan.filtered, seed, reading)?;
        scan.read(part, self.threads())
    }

    fn threads(&self) -> usize {
        self.frame.task_ctx().session_config().target_partitions()
    }

    fn run(&self, plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Opened> {
        self.files.ensure_read_by(&plan)?;
        let rows = execute_stream(Arc::clone(&plan), context)?;
        let chunks = rows.map(|rows| rows.map(Chunk::from).map_err(Error::from)).boxed();
        Ok(Opened { bytes_read: Box::new(move || bytes_scanned(&plan)), ..Opened::whole(chunks) })
    }

    async fn shuffled(&self, seed: u64, epoch: u64, keys: &[String]) -> Result<Opened> {
        let schema = self.frame.schema();
        let places = keys.iter().map(|key| key_place(schema, key)).collect::<Result<Vec<_>>>()?;
        if places.is_empty() {
            return Err(Error::option("a shuffle needs columns that tell rows apart").remedy("name some in `keys`"));
        }
        let plan = self.frame.logical_plan();
        ensure_repeatable(plan)?;
        ensure_same_rows(plan)?;

        let columns: Vec<Expr> =
            schema.iter().map(|(table, field)| Expr::Column(Column::from((table, field.as_ref())))).collect();
        let keyed: Vec<Expr> = places.iter().map(|place| columns[*place].clone()).collect();
        let mut name = String::from("_shuffle");
        while schema.fields().iter().any(|field| *field.name() == name) {
            name.push('_');
        }
        let hash = ScalarUDF::new_from_impl(ShuffleKey::new(epoch));
        let hash = hash.call([lit(seed)].into_iter().chain(keyed.clone()).collect()).alias(&name);
        let by = [Expr::Column(Column::from_name(&name))].into_iter().chain(keyed);
        let by = by.map(|key| key.sort(true, true)).collect();
        let hash_place = columns.len();
        let sorted = self.frame.clone().select(columns.into_iter().chain([hash]).collect::<Vec<_>>())?.sort(by)?;

        let context = Arc::new(sorted.task_ctx());
        let plan = sorted.create_physical_plan().await?;
        let mut rows = DistinctRows::new([hash_place].into_iter().chain(places).collect(), keys.to_vec());
        let mut opened = self.run(plan, context)?;
        let chunks = opened.chunks.map(move |chunk| {
            let mut chunk = chunk?;
            rows.check(&chunk.rows)?;
            chunk.rows.remove_column(hash_place);
            Ok(chunk)
        });
        opened.chunks = chunks.boxed();
        Ok(opened)
    }
}

#[async_trait]
impl BatchSource for FrameSource {
    fn schema(&self) -> Option<&TensorDictSchema> {
        Some(self.converter.schema())
    }

    fn columns(&self) -> Vec<String> {
        self.columns.fields().iter().map(|field| field.name().clone()).collect()
    }

    async fn open(&self, reading: Reading<'_>) -> Result<Opened> {
        match reading.order {
            Order::AsComputed => {
                let context = Arc::new(self.frame.task_ctx());
                self.run(self.frame.clone().create_physical_plan().await?, context)
            }
            Order::AsStored => self.as_stored(&reading).await,
            Order::Shuffled { seed, keys } => self.shuffled(*seed, reading.epoch, keys).await,
            Order::Streamed { seed, .. } => self.streamed(*seed, &reading).await,
            other @ Order::Permuted { .. } => Err(self.refuse(
                other,
                "is for tensordicts: a query's rows can't be had by number",
                "use `Order::shuffled` or `Order::streamed`, or save the result with `save_memmap` and load that",
            )),
        }
    }

    fn measure(&self, column: &str) -> Result<Measure> {
        measure_lists(column, &self.columns)
    }

    fn make(&self, rows: Vec<RecordBatch>) -> Result<Made> {
        let (dict, receipt) = self.converter.convert(rows)?;
        let (bytes_copied, bytes_viewed) = (receipt.bytes_copied() as u64, receipt.bytes_viewed() as u64);
        Ok(Made { dict, bytes_copied, bytes_viewed })
    }

    fn charge(&self) -> Box<dyn Charge> {
        Box::new(Reserved(self.memory.new_empty()))
    }
}

/// Memory of the session's pool.
struct Reserved(MemoryReservation);

impl Charge for Reserved {
    fn resize(&mut self, bytes: usize) -> Result<()> {
        Ok(self.0.try_resize(bytes)?)
    }
}

fn key_place(schema: &DFSchema, key: &str) -> Result<usize> {
    let mut found = schema.fields().iter().enumerate().filter(|(_, field)| field.name() == key);
    let (place, field) = match (found.next(), found.next()) {
        (Some(one), None) => one,
        (None, _) => {
            let names = schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ");
            let error = Error::key(format!("no such column to shuffle by; there are {names}"));
            return Err(error.at(key).remedy("select it, too"));
        }
        (Some(_), Some(_)) => return Err(Error::key("two columns of this name, to shuffle by one").at(key)),
    };
    if is_key_type(field.data_type()) {
        return Ok(place);
    }
    let message = format!("rows can't be told apart by {}", field.data_type());
    let remedy = "use columns of integers, booleans, strings, binaries, dates or times";
    Err(Error::option(message).at(key).remedy(remedy))
}
