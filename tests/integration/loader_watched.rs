//! What a loader tells of itself: metrics, and spans of `tracing`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures::TryStreamExt;
use tensorquery::{Collate, Order, PadSequence, Remainder};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{self, Subscriber};
use tracing::{Event, Metadata};

use crate::loader::{numbers, rows, write_numbers};

/// The fields of the loader's spans, by span.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<BTreeMap<u64, BTreeMap<&'static str, String>>>>, Arc<AtomicU64>);

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.name() == "tensordict_epoch"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.1.fetch_add(1, Ordering::Relaxed) + 1;
        let mut spans = self.0.lock().unwrap();
        span.record(&mut Fields(spans.entry(id).or_default()));
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut spans = self.0.lock().unwrap();
        values.record(&mut Fields(spans.entry(span.into_u64()).or_default()));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn an_epoch_is_a_span_with_what_it_cost() {
    let spans = Spans::default();
    let _guard = subscriber::set_default(spans.clone());
    let loader = rows(1)
        .await
        .batch_size(100)
        .order(Order::shuffled(7, ["id"]))
        .collate(Collate::Padded(PadSequence::default()));
    let batches = loader.epoch(3).await.unwrap();
    assert_eq!(batches.try_collect::<Vec<_>>().await.unwrap().len(), 10);
    // One that stops in the middle, too.
    drop(loader.epoch(4).await.unwrap());
    let spans = spans.0.lock().unwrap();
    let [whole, stopped] = [&spans[&1], &spans[&2]];
    assert_eq!(
        (&*whole["epoch"], &*whole["order"], &*whole["batches"], &*whole["rows"]),
        ("3", "\"shuffled\"", "10", "1000")
    );
    let share: f64 = whole["padding_share"].parse().unwrap();
    assert!((0.3..0.8).contains(&share), "{share}");
    assert!(whole["consumer_wait"].parse::<f64>().unwrap() > 0.0 && whole.contains_key("bytes_read"));
    assert_eq!((&*stopped["epoch"], &*stopped["rows"]), ("4", "0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_know_what_is_left_where_it_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("numbers.parquet");
    write_numbers(&path, 10_000);
    let loader = numbers(&path, 2).await.batch_size(500).order(Order::streamed(1, 1000)).shard(1, 2, Remainder::Keep);
    let mut batches = loader.epoch(0).await.unwrap();
    assert_eq!(batches.metrics().expected_rows, Some(5000));
    batches.try_next().await.unwrap().unwrap();
    let metrics = batches.metrics();
    assert!(metrics.time_left().is_some() && metrics.rows_per_second() > 0.0 && metrics.bytes_read > 0, "{metrics}");
    assert!(metrics.to_string().contains(" of 5000 rows, "), "{metrics}");
    // Resumed: what is left alone.
    let mut resumed = loader.resume(&batches.state()).await.unwrap();
    assert_eq!(resumed.metrics().expected_rows, Some(4500));
    while resumed.try_next().await.unwrap().is_some() {}
    assert_eq!(resumed.metrics().rows, 4500);
    // A sort doesn't say.
    let shuffled = loader.order(Order::shuffled(1, ["id"])).epoch(0).await.unwrap().metrics();
    assert_eq!((shuffled.expected_rows, shuffled.time_left()), (None, None));
}
