//! Results batch by batch, under hostile conditions as well.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration as Time, Instant};

use polars::prelude::*;
use tensorquery::{Error, MaskKeys, Nulls, Options, PolarsExt, TensorDict, TensorDictIter};

use super::masked;
use crate::show::show;

fn rows(count: i64) -> DataFrame {
    let x: Vec<Option<i64>> = (0..count).map(|i| (i % 5 != 0).then_some(i)).collect();
    df!("id" => (0..count).collect::<Vec<_>>(), "x" => x).unwrap()
}

fn ids(dict: &TensorDict) -> Vec<i64> {
    Vec::try_from(dict.tensor("id").unwrap()).unwrap()
}

/// `id` as it is, by a function that does `work` first.
fn through(frame: DataFrame, work: impl Fn(&Column) + Send + Sync + 'static) -> LazyFrame {
    let function = move |column: Column| {
        work(&column);
        Ok(column)
    };
    frame.lazy().with_column(col("id").map(function, |_, field| Ok(field.clone())))
}

#[test]
fn batches_are_exact_and_in_order() {
    // More than the engine takes at once.
    let count = 250_000;
    for size in [1000, 4096, 99_999, 300_000] {
        let sources: [TensorDictIter; 2] = [
            rows(count).lazy().tensordict_stream(&masked()).unwrap(),
            rows(count).tensordict_stream(&masked()).unwrap(),
        ];
        for source in sources {
            let batches: Vec<TensorDict> = source.with_batch_size(size).map(Result::unwrap).collect();
            let (last, full) = batches.split_last().unwrap();
            assert!(full.iter().all(|batch| batch.batch_size() == [size as i64]));
            assert_eq!(last.batch_size()[0] as usize, (count as usize - 1) % size + 1);
            assert_eq!(batches.iter().flat_map(ids).collect::<Vec<_>>(), (0..count).collect::<Vec<_>>());
        }
    }
}

#[test]
fn another_size_midway_loses_no_row() {
    for mut stream in
        [rows(100).lazy().tensordict_stream(&masked()).unwrap(), rows(100).tensordict_stream(&masked()).unwrap()]
    {
        let mut seen = Vec::new();
        for size in [10, 30, 4] {
            stream = stream.with_batch_size(size);
            seen.push(ids(&stream.next().unwrap().unwrap()));
        }
        assert_eq!(seen.iter().map(Vec::len).collect::<Vec<_>>(), [10, 30, 4]);
        seen.extend(stream.with_batch_size(50).map(|batch| ids(&batch.unwrap())));
        assert_eq!(seen[3..].iter().map(Vec::len).collect::<Vec<_>>(), [50, 6]);
        assert_eq!(seen.concat(), (0..100).collect::<Vec<_>>());
    }
}

#[test]
fn concatenated_batches_are_the_whole_result() {
    let query = rows(1000).lazy().filter(col("id").gt(lit(100))).sort(["x"], SortMultipleOptions::new());
    let whole = query.clone().to_tensordict(&masked()).unwrap();
    let batches: Vec<TensorDict> =
        query.tensordict_stream(&masked()).unwrap().with_batch_size(77).map(Result::unwrap).collect();
    let joined = TensorDict::cat(batches, 0).unwrap();
    assert_eq!(show(&joined.exclude(["_mask"])), show(&whole.exclude(["_mask"])));
    assert_eq!(ids(&joined), ids(&whole));
}

#[test]
fn keys_do_not_depend_on_the_batch() {
    let stream = rows(9).lazy().tensordict_stream(&masked()).unwrap().with_batch_size(4);
    assert_eq!(stream.schema().iter().count(), 2);
    let shown: Vec<_> = stream.map(|batch| show(&batch.unwrap())).collect();
    assert_eq!(
        shown[1..],
        [
            "{id: int64[4](4, 5, 6, 7), x: int64[4](4, 0, 6, 7), _mask: {id: bool[4](T, T, T, T), x: bool[4](T, F, T, T)}}",
            "{id: int64[1](8), x: int64[1](8), _mask: {id: bool[1](T), x: bool[1](T)}}",
        ]
    );
    let error = rows(1).lazy().tensordict_stream(&masked().mask_keys(MaskKeys::Observed)).unwrap_err();
    assert!(error.is_option(), "{error}");
}

#[test]
fn no_rows_are_no_batches() {
    let query = rows(10).lazy().filter(lit(false));
    let mut stream = query.tensordict_stream(&masked()).unwrap().with_batch_size(0);
    assert_eq!(stream.schema().entries().len(), 2);
    assert!(stream.next().is_none() && stream.next().is_none());
    assert!(rows(0).tensordict_stream(&masked()).unwrap().next().is_none());
    // A batch of no rows is one of one.
    assert_eq!(rows(3).tensordict_stream(&masked()).unwrap().with_batch_size(0).count(), 3);
}

/// Nothing but the error at the end, and nothing after it.
fn error_at_the_end(mut stream: TensorDictIter) -> (usize, Error) {
    let mut before = 0;
    let error = loop {
        match stream.next().unwrap() {
            Ok(_) => before += 1,
            Err(error) => break error,
        }
    };
    assert!(stream.next().is_none() && stream.next().is_none());
    (before, error)
}

#[test]
fn errors_come_once() {
    let refuse = Options::default().nulls(Nulls::Raise).column("x", |x| x.nulls(Nulls::Fill));
    let late = df!("id" => (0..10i64).map(|i| (i != 7).then_some(i)).collect::<Vec<_>>(), "x" => [0i64; 10]).unwrap();
    for stream in [late.clone().lazy().tensordict_stream(&refuse).unwrap(), late.tensordict_stream(&refuse).unwrap()] {
        let (before, error) = error_at_the_end(stream.with_batch_size(2));
        assert!(error.is_null() && error.row() == Some(7) && before == 3, "{before} {error}");
    }
    let fails = |_: Column| -> PolarsResult<Column> { polars_bail!(ComputeError: "no luck") };
    let query = rows(10).lazy().with_column(col("id").map(fails, |_, field| Ok(field.clone())));
    let (before, error) = error_at_the_end(query.clone().tensordict_stream(&masked()).unwrap());
    assert!(error.is_engine() && before == 0 && error.to_string().contains("no luck"), "{error}");
    assert!(query.to_tensordict(&masked()).unwrap_err().to_string().contains("no luck"));
    let missing = LazyFrame::default().select([col("nowhere")]).tensordict_stream(&masked()).unwrap_err();
    assert!(missing.is_engine(), "{missing}");
}

#[test]
fn panics_are_errors() {
    let boom = || through(rows(1000), |_| panic!("boom"));
    let queries = [boom(), boom().sort(["id"], SortMultipleOptions::new()), boom().select([col("id").sum()])];
    for query in queries {
        let (_, error) = error_at_the_end(query.clone().tensordict_stream(&masked()).unwrap().with_batch_size(10));
        assert!(error.is_engine() && error.to_string().contains("panicked"), "{error}");
        assert!(query.to_tensordict(&masked()).unwrap_err().is_engine());
    }
    // The engine still works.
    assert_eq!(ids(&rows(3).lazy().to_tensordict(&masked()).unwrap()), [0, 1, 2]);
}

#[test]
fn our_own_errors_come_back_as_they_were() {
    let refuses = |column: Column| -> PolarsResult<Column> {
        frame_like(&column).to_tensordict(&Options::default())?;
        Ok(column)
    };
    let query = rows(10).lazy().select([col("x").map(refuses, |_, field| Ok(field.clone()))]);
    let error = query.to_tensordict(&masked()).unwrap_err();
    assert!(error.is_null() && error.nested_key() == Some(&"x".into()), "{error}");
}

fn frame_like(column: &Column) -> DataFrame {
    DataFrame::new_infer_height(vec![column.clone()]).unwrap()
}

/// Waits until the count stands still, and gives it.
fn settled(count: &AtomicUsize) -> usize {
    let start = Instant::now();
    let mut last = count.load(Ordering::SeqCst);
    loop {
        thread::sleep(Time::from_millis(200));
        let now = count.load(Ordering::SeqCst);
        if now == last {
            return now;
        }
        assert!(start.elapsed() < Time::from_secs(20), "still counting at {now}");
        last = now;
    }
}

fn counted(count: i64) -> (LazyFrame, Arc<AtomicUsize>) {
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&seen);
    let ids = Int64Chunked::from_vec("id".into(), (0..count).collect()).into_column();
    let query = through(DataFrame::new_infer_height(vec![ids]).unwrap(), move |column| {
        counter.fetch_add(column.len(), Ordering::SeqCst);
        // Slower than a consumer that stops.
        thread::sleep(Time::from_millis(5));
    });
    (query, seen)
}

#[test]
fn dropping_stops_the_query() {
    let all = 4_000_000;
    let (query, seen) = counted(all as i64);
    let mut stream = query.tensordict_stream(&masked()).unwrap().with_batch_size(10);
    // It doesn't start before it is asked.
    assert_eq!(seen.load(Ordering::SeqCst), 0);
    assert_eq!(ids(&stream.next().unwrap().unwrap())[9], 9);
    drop(stream);
    let done = settled(&seen);
    assert!(done > 0 && done < all / 2, "{done} of {all} rows were computed");
}

#[test]
fn the_engine_waits_for_the_consumer() {
    let all = 4_000_000;
    let (query, seen) = counted(all as i64);
    let mut stream = query.tensordict_stream(&masked()).unwrap();
    stream.next().unwrap().unwrap();
    let ahead = settled(&seen);
    assert!(ahead < all / 2, "{ahead} of {all} rows were computed ahead");
    assert!(stream.next().unwrap().is_ok());
    assert!(settled(&seen) > 0);
}

#[test]
fn a_consumer_may_run_other_queries() {
    let outer = rows(500_000).lazy().tensordict_stream(&masked()).unwrap().with_batch_size(100_000);
    for batch in outer {
        let count = batch.unwrap().batch_size()[0];
        let inner = rows(count).lazy().tensordict_stream(&masked()).unwrap().with_batch_size(50_000);
        assert_eq!(inner.map(|batch| batch.unwrap().batch_size()[0]).sum::<i64>(), count);
    }
}

#[test]
fn many_at_once_all_end() {
    let threads: Vec<_> = (0..16)
        .map(|thread| {
            thread::spawn(move || {
                for query in 0..20 {
                    let count = thread * 20 + query + 1;
                    let frame = rows(count).lazy().filter(col("id").gt_eq(lit(0)));
                    let streamed = frame.clone().tensordict_stream(&masked()).unwrap().with_batch_size(7);
                    assert_eq!(streamed.flat_map(|batch| ids(&batch.unwrap())).count() as i64, count);
                    assert_eq!(frame.to_tensordict(&masked()).unwrap().batch_size(), [count]);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// A stream that nobody reads keeps one of Polars' threads, without which other queries would wait for ever.
#[test]
fn as_many_streams_run_as_polars_has_threads_for() {
    let limited = "POLARS_MAX_BLOCKING_THREAD_COUNT";
    if std::env::var_os(limited).is_none() {
        // Alone in a process, which may have few threads.
        let name = "polars::streams::as_many_streams_run_as_polars_has_threads_for";
        let alone = Command::new(std::env::current_exe().unwrap()).args(["--exact", name]).env(limited, "8").output();
        let alone = alone.unwrap();
        let said = String::from_utf8_lossy(&alone.stdout);
        assert!(alone.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let open = || counted(1_000_000).0.tensordict_stream(&masked()).unwrap().with_batch_size(10);
    let mut streams: Vec<_> = (0..4).map(|_| open()).collect();
    for stream in &mut streams {
        assert_eq!(ids(&stream.next().unwrap().unwrap())[9], 9);
    }
    let (_, error) = error_at_the_end(open());
    assert!(error.is_engine() && error.to_string().contains("4 streams"), "{error}");
    // Others find a thread.
    assert_eq!(ids(&rows(3).lazy().to_tensordict(&masked()).unwrap()), [0, 1, 2]);
    assert_eq!(rows(3).tensordict_stream(&masked()).unwrap().count(), 1);
    // One that is dropped and one that is read to its end make room.
    streams.pop();
    assert_eq!(rows(3).lazy().tensordict_stream(&masked()).unwrap().with_batch_size(1).count(), 3);
    let mut next = open();
    assert_eq!(ids(&next.next().unwrap().unwrap())[9], 9);
}

#[test]
fn runtimes_are_no_obstacle() {
    let current = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let many = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for runtime in [&current, &many] {
        runtime.block_on(async {
            let query = || rows(1000).lazy().filter(col("id").lt(lit(500)));
            assert_eq!(query().to_tensordict(&masked()).unwrap().batch_size(), [500]);
            assert_eq!(
                query().tensordict_stream(&masked()).unwrap().map(|batch| ids(&batch.unwrap()).len()).sum::<usize>(),
                500
            );
        });
    }
    let tasks: Vec<_> = (0..16)
        .map(|_| {
            many.spawn(async {
                for count in 1..20 {
                    assert_eq!(rows(count).lazy().to_tensordict(&masked()).unwrap().batch_size(), [count]);
                }
            })
        })
        .collect();
    tasks.into_iter().for_each(|task| many.block_on(task).unwrap());
}

/// Functions inside a query ask on threads that Polars needs for the answer.
#[test]
fn functions_may_run_queries() {
    let inner = |column: Column| -> PolarsResult<Column> {
        let query = rows(column.len() as i64).lazy().filter(col("id").gt_eq(lit(0))).group_by([col("id")]).agg([len()]);
        let count = query.to_tensordict(&masked())?.batch_size()[0];
        Ok(Column::new_scalar(column.name().clone(), Scalar::from(count), column.len()))
    };
    let count = |inner: fn(Column) -> PolarsResult<Column>| col("id").map(inner, |_, field| Ok(field.clone()));
    let columns = (0..8).map(|at| count(inner).alias(format!("n{at}")));
    let query = rows(500).lazy().select(columns.collect::<Vec<_>>());
    let td = query.clone().to_tensordict(&masked()).unwrap();
    assert_eq!(Vec::<i64>::try_from(td.tensor("n7").unwrap()).unwrap(), vec![500; 500]);
    assert_eq!(
        query.tensordict_stream(&masked()).unwrap().map(|batch| batch.unwrap().batch_size()[0]).sum::<i64>(),
        500
    );
}

#[test]
fn iterators_may_go_to_another_thread() {
    let stream = rows(10).lazy().tensordict_stream(&masked()).unwrap();
    let count = thread::spawn(move || stream.map(|batch| batch.unwrap().batch_size()[0]).sum::<i64>()).join().unwrap();
    assert_eq!(count, 10);
}
