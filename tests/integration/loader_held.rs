//! Batches of a tensordict that is there already, in memory or saved.

use futures::TryStreamExt;
use proptest::prelude::*;
use tch::{Kind, Tensor};
use tensorquery::{Collate, JaggedTensor, Loader, LoaderState, Order, PadSequence, Remainder, TensorDict};

use crate::loader::{epoch, ids, refused};

/// Rows `id`, `x` `[n, 2]` in bfloat16, `l` of `id % 5` elements, and `st` with another `id`.
fn dict(rows: i64) -> TensorDict {
    let mut td = TensorDict::new([rows]);
    td.set("id", Tensor::arange(rows, (Kind::Int64, tch::Device::Cpu))).unwrap();
    td.set("x", Tensor::arange(rows * 2, (Kind::BFloat16, tch::Device::Cpu)).reshape([rows, 2])).unwrap();
    let lists: Vec<Tensor> = (0..rows).map(|id| Tensor::from_slice(&vec![id; (id % 5) as usize])).collect();
    td.set("l", JaggedTensor::from_rows(&lists).unwrap()).unwrap();
    td.set(["st", "id"], Tensor::arange(rows, (Kind::Int64, tch::Device::Cpu))).unwrap();
    td
}

fn loader(rows: i64) -> Loader {
    Loader::of_tensordict(dict(rows)).unwrap().batch_size(16)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_as_stored_or_permuted() {
    assert_eq!(epoch(&loader(100), 0).await.concat(), (0..100).collect::<Vec<_>>());
    let permuted = loader(1000).order(Order::permuted(3));
    let mut all = epoch(&permuted, 0).await.concat();
    assert_eq!(epoch(&permuted, 0).await.concat(), all);
    assert_ne!(epoch(&permuted, 1).await.concat(), all);
    assert!(all.iter().enumerate().filter(|(place, id)| *place as i64 == **id).count() < 8);
    all.sort_unstable();
    assert_eq!(all, (0..1000).collect::<Vec<_>>());
    // Each row whole.
    let mut batches = permuted.epoch(0).await.unwrap();
    while let Some(batch) = batches.try_next().await.unwrap() {
        let lists = batch.jagged("l").unwrap().unbind().unwrap();
        assert_eq!(batch.tensor("x").unwrap().kind(), Kind::BFloat16);
        assert_eq!(batch.tensor(["st", "id"]).unwrap(), batch.tensor("id").unwrap());
        for (id, list) in ids(&batch).into_iter().zip(lists) {
            assert_eq!(Vec::<i64>::try_from(list).unwrap(), vec![id; (id % 5) as usize]);
        }
    }
    assert!(batches.metrics().bytes_copied > 1000 * 20);
    assert!(epoch(&loader(0).order(Order::permuted(3)), 0).await.is_empty());
}

/// A batch is a copy: what is written to it is in no other.
#[tokio::test(flavor = "multi_thread")]
async fn batches_are_copies() {
    let loader = loader(32);
    let batch = loader.epoch(0).await.unwrap().try_next().await.unwrap().unwrap();
    let _ = batch.tensor("id").unwrap().fill_(-1);
    assert_eq!(epoch(&loader, 0).await.concat(), (0..32).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_cut_grouped_and_padded() {
    let elements = loader(200).batch_elements("l", 12).order(Order::permuted(1));
    let all = epoch(&elements, 0).await;
    assert!(all.iter().all(|batch| batch.iter().map(|id| (id % 5).max(1)).sum::<i64>() <= 12));
    assert_eq!(all.concat().len(), 200);
    let grouped = loader(200).batch_size(10).order(Order::permuted(1)).group_by_length("l", 200);
    let mut batches = grouped.collate(Collate::Padded(PadSequence::default())).epoch(0).await.unwrap();
    while let Some(batch) = batches.try_next().await.unwrap() {
        assert_eq!(batch.tensor("l").unwrap().size()[0], 10);
    }
    // Of each length there are forty rows, four batches.
    assert_eq!(batches.metrics().padding, 0);
    for (column, word) in [("nope", "nope"), ("id", "jagged")] {
        let error = refused(loader(10).batch_elements(column, 10)).await;
        assert!(error.to_string().contains(word), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn ranks_and_resuming_are_arithmetic(
        rows in 0i64..300,
        size in 1usize..40,
        stop in 0usize..12,
        world in 1u64..6,
        group in prop::option::of(1usize..100),
        elements in any::<bool>(),
    ) {
        let mut all = Vec::new();
        for rank in 0..world {
            let of = |remainder| {
                let loader = loader(rows).batch_size(size).order(Order::permuted(9)).shard(rank, world, remainder);
                let loader = if elements && remainder == Remainder::Keep { loader.batch_elements("l", size) } else { loader };
                if let Some(window) = group { loader.group_by_length("l", window) } else { loader }
            };
            let loader = of(Remainder::Keep);
            let mut batches = loader.epoch_blocking(4).unwrap();
            let mut seen: Vec<_> = batches.by_ref().take(stop).map(|batch| ids(&batch.unwrap())).collect();
            let state = LoaderState::from_json(&batches.state().to_string()).unwrap();
            seen.extend(loader.resume_blocking(&state).unwrap().map(|batch| ids(&batch.unwrap())));
            let whole: Vec<_> = loader.epoch_blocking(4).unwrap().map(|batch| ids(&batch.unwrap())).collect();
            prop_assert_eq!(&seen, &whole);
            all.extend(seen.concat());
            let count = |remainder| of(remainder).epoch_blocking(4).unwrap().map(|batch| ids(&batch.unwrap()).len()).sum::<usize>();
            prop_assert_eq!(count(Remainder::Drop) as u64, rows as u64 / world);
            prop_assert_eq!(count(Remainder::Pad) as u64, (rows as u64).div_ceil(world));
        }
        all.sort_unstable();
        prop_assert_eq!(all, (0..rows).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_rows_or_another_order_is_refused() {
    assert!(Loader::of_tensordict(TensorDict::new([])).unwrap_err().is_shape());
    let uneven = TensorDict::lazy_stack([TensorDict::new([2]), TensorDict::new([3])], 1).unwrap();
    assert!(Loader::of_tensordict(uneven).unwrap_err().is_shape());
    for order in [Order::shuffled(1, ["id"]), Order::streamed(1, 10)] {
        let error = refused(loader(10).order(order)).await;
        assert!(error.is_option() && error.to_string().contains("Order::permuted"), "{error}");
    }
    let state = loader(10).epoch(0).await.unwrap().state();
    let error = loader(11).resume(&state).await.unwrap_err();
    assert!(error.is_option() && error.to_string().contains("rows"), "{error}");
    // An entry that was made smaller behind its back is an error, not a read out of bounds.
    let td = dict(100);
    let mut entry = td.tensor("id").unwrap();
    let loader = Loader::of_tensordict(td).unwrap().batch_size(10);
    let _ = entry.resize_([5]);
    let results: Vec<_> = loader.epoch_blocking(0).unwrap().collect();
    assert!(results.last().unwrap().is_err());
}

#[cfg(any(target_os = "linux", target_os = "macos"))]
#[tokio::test(flavor = "multi_thread")]
async fn saved_tensordicts_are_loaded_by_mapping() {
    use tensorquery::{LoadOptions, SaveOptions, load_memmap, save_memmap};

    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("train");
    save_memmap(&dict(500), &dir, &SaveOptions::default()).unwrap();
    let saved = || Loader::of_tensordict(load_memmap(&dir, &LoadOptions::default()).unwrap()).unwrap().batch_size(16);
    let permuted = |loader: Loader| loader.order(Order::permuted(5));
    assert_eq!(epoch(&permuted(saved()), 2).await, epoch(&permuted(loader(500)), 2).await);
    let mut all = Vec::new();
    for rank in 0..3 {
        all.extend(epoch(&permuted(saved()).shard(rank, 3, Remainder::Keep), 0).await.concat());
    }
    all.sort_unstable();
    assert_eq!(all, (0..500).collect::<Vec<_>>());
}
