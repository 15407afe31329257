//! What becomes of rows of different lengths, and which are put together.

use futures::TryStreamExt;
use tensorquery::{Collate, Loader, Order, PadSequence, PaddingSide, TensorDict};

use crate::loader::{epoch, ids, loader, refused, rows};
use crate::sql::{context, register_rows};

async fn batches(loader: &Loader) -> Vec<TensorDict> {
    loader.epoch(0).await.unwrap().try_collect().await.unwrap()
}

fn shuffled() -> Order {
    Order::shuffled(7, ["id"])
}

/// The list of row `id`, as `register_rows` made it.
fn list(id: i64) -> Vec<i32> {
    if id % 4 == 0 { Vec::new() } else { vec![id as i32; (id % 3) as usize] }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_padded_with_value_side_and_mask() {
    let loader = rows(2).await.batch_size(10).order(shuffled());
    for side in [PaddingSide::Left, PaddingSide::Right] {
        let padding = PadSequence::default().value(-1).value_of("l", -7).side(side).masks("is_data");
        let loader = loader.clone().collate(Collate::Padded(padding));
        let mut epoch = loader.epoch(0).await.unwrap();
        let (mut padding, mut padded) = (0, 0);
        while let Some(batch) = epoch.try_next().await.unwrap() {
            let lists = Vec::<Vec<i32>>::try_from(batch.tensor("l").unwrap()).unwrap();
            let masks = Vec::<Vec<bool>>::try_from(batch.tensor(["is_data", "l"]).unwrap()).unwrap();
            let longest = ids(&batch).iter().map(|id| list(*id).len()).max().unwrap();
            for ((id, row), mask) in ids(&batch).into_iter().zip(lists).zip(masks) {
                assert_eq!((row.len(), mask.len()), (longest, longest));
                let kept: Vec<i32> =
                    row.iter().zip(&mask).filter(|(_, mask)| **mask).map(|(value, _)| *value).collect();
                assert_eq!(kept, list(id));
                assert!(row.iter().zip(&mask).all(|(value, mask)| *mask || *value == -7));
                // All data is on the other side.
                let data_first = mask.is_sorted_by(|left, right| left >= right);
                assert!(if side == PaddingSide::Right { data_first } else { mask.is_sorted() });
                padding += mask.iter().filter(|mask| !**mask).count() as u64;
                padded += mask.len() as u64;
            }
            // Which rows are null is another question.
            assert_eq!(batch.tensor(["_mask", "l"]).unwrap().size(), [batch.batch_size()[0]]);
            assert_eq!(batch.keys().last().as_deref(), Some("is_data"));
        }
        let metrics = epoch.metrics();
        assert_eq!((metrics.padding, metrics.padded), (padding, padded));
        assert!((metrics.padding_share() - padding as f64 / padded as f64).abs() < 1e-12 && padding > 0);
    }
    // Where no row has an element, there is no place for one.
    let ctx = context(1);
    register_rows(&ctx);
    let empty = crate::loader::loader(&ctx, "SELECT id, l FROM rows WHERE id % 4 = 0").await;
    let batch = &batches(&empty.collate(Collate::Padded(PadSequence::default().masks("m")))).await[0];
    assert_eq!(
        (batch.tensor("l").unwrap().size(), batch.tensor(["m", "l"]).unwrap().size()),
        (vec![250, 0], vec![250, 0])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lazy_stack_holds_each_row_as_it_is() {
    let loader = rows(2).await.batch_size(10).order(shuffled()).collate(Collate::LazyStack);
    let mut all = Vec::new();
    for batch in batches(&loader).await {
        assert!(batch.is_lazy());
        assert_eq!(batch.batch_size()[0], 10);
        for row in batch.members() {
            let id = row.tensor("id").unwrap().int64_value(&[]);
            assert_eq!(Vec::<i32>::try_from(row.tensor("l").unwrap()).unwrap(), list(id));
            all.push(id);
        }
    }
    assert_eq!(all, epoch(&rows(1).await.order(shuffled()), 0).await.concat());
    assert_eq!(loader.epoch(0).await.unwrap().metrics().padding_share(), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn similar_lengths_come_together() {
    let group = |threads| async move {
        let loader = rows(threads).await.batch_size(20).order(shuffled()).group_by_length("l", 190);
        loader.collate(Collate::Padded(PadSequence::default()))
    };
    let reference = epoch(&group(1).await, 0).await;
    for threads in [3, 8] {
        assert_eq!(epoch(&group(threads).await, 0).await, reference);
    }
    let plain = rows(2).await.batch_size(20).order(shuffled()).collate(Collate::Padded(PadSequence::default()));
    // Windows of 200 rows, a multiple of the batch, hold the rows that the order alone gives.
    let whole = epoch(&plain, 0).await.concat();
    assert_eq!(reference.len(), 50);
    for (window, expected) in reference.chunks(10).zip(whole.chunks(200)) {
        let mut window = window.concat();
        let mut expected = expected.to_vec();
        window.sort_unstable();
        expected.sort_unstable();
        assert_eq!(window, expected);
    }
    let share = |loader: Loader| async move {
        let mut batches = loader.epoch(0).await.unwrap();
        while batches.try_next().await.unwrap().is_some() {}
        batches.metrics().padding_share()
    };
    let (plain, grouped) = (share(plain).await, share(group(2).await).await);
    assert!(grouped < plain / 4.0, "{plain} {grouped}");
    // By elements, too, and with the last left out.
    let elements = rows(2).await.batch_elements("l", 30).order(shuffled()).group_by_length("l", 300);
    let all = epoch(&elements, 1).await;
    assert_eq!(all.concat().len(), 1000);
    assert!(all.iter().all(|batch| batch.iter().map(|id| list(*id).len().max(1)).sum::<usize>() <= 30));
    assert_eq!(epoch(&elements.clone().drop_last(true), 1).await, all[..all.len() - 1]);
    let short = rows(2).await.batch_size(300).order(shuffled()).group_by_length("l", 600);
    let sizes = |batches: Vec<Vec<i64>>| batches.iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(sizes(epoch(&short, 0).await), [300, 300, 300, 100]);
    assert_eq!(sizes(epoch(&short.drop_last(true), 0).await), [300, 300, 300]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_an_error() {
    for (column, word) in [("nope", "nope"), ("id", "lists")] {
        let error = refused(rows(2).await.group_by_length(column, 10)).await;
        assert!(error.to_string().contains(word), "{error}");
    }
    let error = refused(rows(2).await.collate(Collate::Padded(PadSequence::default().dim(1)))).await;
    assert!(error.is_option() && error.to_string().contains("dim"), "{error}");
    for (padding, word) in [
        (PadSequence::default().masks("_mask"), "_mask"),
        (PadSequence::default().value(1i64 << 40), "hold"),
        (PadSequence::default().value_of("nope", 1), "nope"),
    ] {
        let ctx = context(1);
        register_rows(&ctx);
        let loader = loader(&ctx, "SELECT id, l FROM rows").await.collate(Collate::Padded(padding));
        let error = loader.epoch(0).await.unwrap().try_next().await.unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    }
}
