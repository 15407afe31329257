//! Where a loader's rows come from.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::stream::BoxStream;

use super::Order;
use crate::error::Result;

/// Rows of one epoch, in its order.
pub(crate) type RecordBatches = BoxStream<'static, Result<RecordBatch>>;

/// A query, or something else, that gives the same rows as often as it is asked.
#[async_trait]
pub(crate) trait BatchSource: Send + Sync {
    /// The columns of its record batches.
    fn schema(&self) -> &SchemaRef;

    /// Starts over, in the order of `epoch`. Nothing is computed before the stream is polled.
    ///
    /// An order that the rows can't be put in, or not twice in the same way, is an [option](crate::Error::is_option)
    /// error.
    async fn open(&self, order: &Order, epoch: u64) -> Result<RecordBatches>;
}
