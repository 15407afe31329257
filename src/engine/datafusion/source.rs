//! A query as often as a loader asks for it, in the order it asks for.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::common::{Column, DFSchema};
use datafusion::dataframe::DataFrame;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;

use super::files::Files;
use super::repeatable::{ensure_order_is_stored, ensure_repeatable, ensure_same_rows};
use crate::error::{Error, Result};
use crate::loader::{BatchSource, DistinctRows, Order, RecordBatches, is_key_type, shuffle_keys};

#[derive(Debug)]
pub(super) struct FrameSource {
    frame: DataFrame,
    schema: SchemaRef,
    files: Files,
}

impl FrameSource {
    pub(super) async fn try_new(frame: DataFrame) -> Result<Self> {
        let plan = frame.clone().create_physical_plan().await?;
        Ok(FrameSource { frame, schema: plan.schema(), files: Files::of(&plan)? })
    }

    async fn as_stored(&self) -> Result<RecordBatches> {
        let (mut state, plan) = self.frame.clone().into_parts();
        ensure_repeatable(&plan)?;
        state.config_mut().options_mut().execution.target_partitions = 1;
        let frame = DataFrame::new(state, plan);
        let context = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await?;
        ensure_order_is_stored(&plan)?;
        self.run(plan, context)
    }

    fn run(&self, plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<RecordBatches> {
        self.files.ensure_read_by(&plan)?;
        Ok(execute_stream(plan, context)?.map(|batch| batch.map_err(Error::from)).boxed())
    }

    async fn shuffled(&self, seed: u64, epoch: u64, keys: &[String]) -> Result<RecordBatches> {
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
        let hash = ScalarUDF::new_from_impl(ShuffleKey::new(seed, epoch)).call(keyed.clone()).alias(&name);
        let by = [Expr::Column(Column::from_name(&name))].into_iter().chain(keyed);
        let by = by.map(|key| key.sort(true, true)).collect();
        let hash_place = columns.len();
        let sorted = self.frame.clone().select(columns.into_iter().chain([hash]).collect::<Vec<_>>())?.sort(by)?;

        let context = Arc::new(sorted.task_ctx());
        let plan = sorted.create_physical_plan().await?;
        let mut rows = DistinctRows::new([hash_place].into_iter().chain(places).collect(), keys.to_vec());
        let stream = self.run(plan, context)?.map(move |batch| {
            let mut batch = batch?;
            rows.check(&batch)?;
            batch.remove_column(hash_place);
            Ok(batch)
        });
        Ok(stream.boxed())
    }
}

#[async_trait]
impl BatchSource for FrameSource {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn open(&self, order: &Order, epoch: u64) -> Result<RecordBatches> {
        match order {
            Order::AsComputed => {
                let context = Arc::new(self.frame.task_ctx());
                self.run(self.frame.clone().create_physical_plan().await?, context)
            }
            Order::AsStored => self.as_stored().await,
            Order::Shuffled { seed, keys } => self.shuffled(*seed, epoch, keys).await,
        }
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

/// The hash by which an epoch is sorted, as a function of the engine's.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ShuffleKey {
    seed: u64,
    epoch: u64,
    signature: Signature,
}

impl ShuffleKey {
    fn new(seed: u64, epoch: u64) -> Self {
        ShuffleKey { seed, epoch, signature: Signature::variadic_any(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for ShuffleKey {
    fn name(&self) -> &str {
        "shuffle_key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType, DataFusionError> {
        Ok(DataType::UInt64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue, DataFusionError> {
        let keys = ColumnarValue::values_to_arrays(&args.args)?;
        // Constants alone come as arrays of one row.
        let rows = keys.first().map_or(args.number_rows, |key| key.len());
        Ok(ColumnarValue::Array(Arc::new(shuffle_keys(self.seed, self.epoch, &keys, rows)?)))
    }
}
