//! Functions of SQL for one column: against plain loops, and what they refuse.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, Int64Array, OffsetSizeTrait, RecordBatch,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use proptest::prelude::*;
use tensorquery::{DataFrameExt, Error, Nulls, Options, Order};
use tokio::runtime::Runtime;

use crate::sql::context;

/// A column of lists: null rows, nulls in rows.
type Rows = Vec<Option<Vec<Option<i64>>>>;

const TYPES: [DataType; 12] = [
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::UInt8,
    DataType::UInt16,
    DataType::UInt32,
    DataType::UInt64,
    DataType::Float16,
    DataType::Float32,
    DataType::Float64,
    DataType::Boolean,
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Layout {
    List,
    LargeList,
    /// All rows have so many elements.
    Fixed(usize),
}

fn lists<O: OffsetSizeTrait>(field: Field, lengths: &[usize], values: ArrayRef, nulls: NullBuffer) -> ArrayRef {
    let offsets = OffsetBuffer::<O>::from_lengths(lengths.iter().copied());
    Arc::new(GenericListArray::new(field.into(), offsets, values, Some(nulls)))
}

/// The rows, with elements hidden under null ones, cut out of a longer array.
fn array(rows: &Rows, layout: Layout, element: &DataType) -> ArrayRef {
    let hidden = |length| Some(vec![Some(1); length]);
    let (first, last, under) = match layout {
        Layout::Fixed(size) => (hidden(size), hidden(size), vec![Some(1); size]),
        _ => (hidden(3), hidden(1), vec![Some(1), None]),
    };
    let all: Rows = [first].into_iter().chain(rows.iter().cloned()).chain([last]).collect();
    let nulls: NullBuffer = all.iter().map(Option::is_some).collect::<Vec<_>>().into();
    let full: Vec<Vec<Option<i64>>> = all.into_iter().map(|row| row.unwrap_or_else(|| under.clone())).collect();
    let lengths: Vec<usize> = full.iter().map(Vec::len).collect();
    let values: Int64Array = full.into_iter().flatten().collect();
    let values = cast(&values, element).unwrap();
    let field = Field::new_list_field(element.clone(), true);
    let lists = match layout {
        Layout::List => lists::<i32>(field, &lengths, values, nulls),
        Layout::LargeList => lists::<i64>(field, &lengths, values, nulls),
        Layout::Fixed(size) => {
            let rows = lengths.len();
            Arc::new(
                FixedSizeListArray::try_new_with_length(field.into(), size as i32, values, Some(nulls), rows).unwrap(),
            )
        }
    };
    lists.slice(1, rows.len())
}

/// The rows that an array of lists shows.
fn shown(array: &ArrayRef) -> Rows {
    (0..array.len())
        .map(|row| {
            let list = match array.data_type() {
                DataType::List(_) => array.as_list::<i32>().value(row),
                DataType::LargeList(_) => array.as_list::<i64>().value(row),
                _ => array.as_fixed_size_list().value(row),
            };
            let list = cast(&list, &DataType::Int64).unwrap();
            array.is_valid(row).then(|| list.as_primitive::<Int64Type>().iter().collect())
        })
        .collect()
}

/// A table of the column, `x`, and of its rows' numbers, in two partitions of several batches; one is empty.
fn table(ctx: &SessionContext, column: &ArrayRef) {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..column.len() as i64));
    let batch =
        RecordBatch::try_from_iter_with_nullable([("id", ids, false), ("x", Arc::clone(column), true)]).unwrap();
    let cut = [0, batch.num_rows() / 3, batch.num_rows() / 3, batch.num_rows() / 2, batch.num_rows()];
    let mut parts = cut.windows(2).map(|ends| batch.slice(ends[0], ends[1] - ends[0]));
    let partitions = vec![parts.by_ref().take(2).collect(), parts.collect()];
    ctx.deregister_table("t").unwrap();
    ctx.register_table("t", Arc::new(MemTable::try_new(batch.schema(), partitions).unwrap())).unwrap();
}

/// What `expr` gives for the table's rows, in their order.
async fn column(ctx: &SessionContext, expr: &str) -> Result<ArrayRef, Error> {
    let frame = ctx.sql(&format!("SELECT {expr} AS y, id FROM t ORDER BY id")).await.map_err(Error::from)?;
    let schema = Arc::clone(frame.schema().inner());
    let batches = frame.collect().await.map_err(Error::from)?;
    // What was planned is what comes.
    for batch in &batches {
        assert_eq!(batch.schema().field(0).data_type(), schema.field(0).data_type(), "{expr}");
    }
    Ok(Arc::clone(concat_batches(&schema, &batches).unwrap().column(0)))
}

async fn error(ctx: &SessionContext, sql: &str) -> Error {
    let ran = async { ctx.sql(sql).await?.to_tensordict(&Options::default().nulls(Nulls::Fill)).await };
    match ran.await {
        Ok(dict) => panic!("{sql}: an error is due, got {dict}"),
        Err(error) => error,
    }
}

/// A constant in SQL.
fn constant(value: i64, element: &DataType) -> String {
    if *element == DataType::Boolean { (value != 0).to_string() } else { value.to_string() }
}

fn padded(rows: &Rows, n: usize, value: Option<i64>, left: bool) -> Rows {
    let pad = |row: &Vec<Option<i64>>| {
        let mut padded = row.clone();
        while padded.len() < n {
            padded.insert(if left { 0 } else { padded.len() }, value);
        }
        padded
    };
    rows.iter().map(|row| row.as_ref().map(pad)).collect()
}

fn truncated(rows: &Rows, n: usize, left: bool) -> Rows {
    let cut = |row: &Vec<Option<i64>>| {
        let mut kept = row.clone();
        while kept.len() > n {
            kept.remove(if left { 0 } else { kept.len() - 1 });
        }
        kept
    };
    rows.iter().map(|row| row.as_ref().map(cut)).collect()
}

fn filled(rows: &Rows, value: i64) -> Rows {
    let fill = |row: &Vec<Option<i64>>| row.iter().map(|element| element.or(Some(value))).collect();
    rows.iter().map(|row| row.as_ref().map(fill)).collect()
}

/// All functions of lists over one column.
async fn check(ctx: &SessionContext, rows: &Rows, layout: Layout, element: &DataType, n: usize, left: bool) {
    let rows = &match element {
        DataType::Boolean => {
            rows.iter().map(|row| row.as_ref().map(|row| row.iter().map(|x| x.map(|x| x % 2)).collect())).collect()
        }
        _ => rows.clone(),
    };
    let column_type = array(rows, layout, element);
    table(ctx, &column_type);
    let side = if left { "left" } else { "right" };
    let what = format!("{layout:?} of {element}, n {n}, {side}: {rows:?}");

    let cut = column(ctx, &format!("truncate_list(x, {n}, '{side}')")).await.unwrap();
    assert_eq!(shown(&cut), truncated(rows, n, left), "{what}");
    match layout {
        Layout::Fixed(size) => {
            assert!(matches!(cut.data_type(), DataType::FixedSizeList(_, kept) if *kept as usize == size.min(n)))
        }
        _ => assert_eq!(cut.data_type(), column_type.data_type()),
    }

    let longest = match layout {
        Layout::Fixed(size) => size,
        _ => rows.iter().flatten().map(Vec::len).max().unwrap_or(0),
    };
    let wide = longest.max(n);
    let value = constant(1, element);
    let pad = column(ctx, &format!("pad_list(x, {wide}, {value}, '{side}')")).await.unwrap();
    assert_eq!(shown(&pad), padded(rows, wide, Some(1), left), "{what}");
    assert!(matches!(pad.data_type(), DataType::FixedSizeList(field, size)
        if field.data_type() == element && *size as usize == wide));
    let pad = column(ctx, &format!("pad_list(truncate_list(x, {n}), {n})")).await.unwrap();
    assert_eq!(shown(&pad), padded(&truncated(rows, n, false), n, Some(0), false), "{what}");
    let pad = column(ctx, &format!("pad_list(x, {wide}, NULL)")).await.unwrap();
    assert_eq!(shown(&pad), padded(rows, wide, None, false), "{what}");

    let fill = column(ctx, &format!("fill_null(x, {value})")).await.unwrap();
    assert_eq!(shown(&fill), filled(rows, 1), "{what}");

    // The engine's own.
    let lengths = column(ctx, "CAST(array_length(x) AS BIGINT)").await.unwrap();
    let expected: Vec<Option<i64>> = rows.iter().map(|row| row.as_ref().map(|row| row.len() as i64)).collect();
    assert_eq!(lengths.as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), expected, "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_types_and_layouts_agree_with_loops() {
    let ctx = context(3);
    let variable: Rows = vec![
        Some(vec![Some(1), None, Some(3)]),
        None,
        Some(vec![]),
        Some(vec![Some(4)]),
        Some(vec![None]),
        Some(vec![Some(5), Some(6), Some(7), None, Some(9)]),
        None,
    ];
    let fixed: Rows = vec![Some(vec![Some(1), None, Some(3)]), None, Some(vec![None; 3]), Some(vec![Some(4); 3])];
    for element in &TYPES {
        for (rows, layout) in [(&variable, Layout::List), (&variable, Layout::LargeList), (&fixed, Layout::Fixed(3))] {
            for (n, left) in [(2, false), (2, true), (3, false), (7, true)] {
                check(&ctx, rows, layout, element, n, left).await;
            }
            // No rows, and none but null ones.
            check(&ctx, &vec![], layout, element, 2, false).await;
            check(&ctx, &vec![None, None], layout, element, 2, true).await;
        }
    }
}

fn rows(length: impl Strategy<Value = usize> + Clone) -> impl Strategy<Value = Rows> {
    let row = length.prop_flat_map(|length| prop::collection::vec(prop::option::weighted(0.8, 0..100i64), length));
    prop::collection::vec(prop::option::weighted(0.8, row), 0..20)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_lists_agree_with_loops(
        variable in rows(0..9usize),
        (size, fixed) in (1..6usize).prop_flat_map(|size| (Just(size), rows(Just(size)))),
        element in prop::sample::select(TYPES.to_vec()),
        n in 1..9usize,
        left in any::<bool>(),
    ) {
        Runtime::new().unwrap().block_on(async {
            let ctx = context(2);
            check(&ctx, &variable, Layout::List, &element, n, left).await;
            check(&ctx, &variable, Layout::LargeList, &element, n, left).await;
            check(&ctx, &fixed, Layout::Fixed(size), &element, n, left).await;
        });
    }
}

/// The engine sorts no such lists, so they aren't.
#[tokio::test]
async fn fixed_size_lists_of_no_elements() {
    let ctx = context(1);
    let rows: Rows = vec![Some(vec![]), None, Some(vec![])];
    let batch = RecordBatch::try_from_iter([("x", array(&rows, Layout::Fixed(0), &DataType::Int32))]).unwrap();
    ctx.register_batch("t", batch).unwrap();
    let sql = "SELECT pad_list(x, 2, 5) AS p, truncate_list(x, 1) AS t, fill_null(x, 1) AS f, tensor_shape(x, [2, 0]) AS s FROM t";
    let batch = ctx.sql(sql).await.unwrap().collect().await.unwrap().remove(0);
    assert_eq!(shown(batch.column(0)), padded(&rows, 2, Some(5), false));
    for place in 1..4 {
        assert_eq!(shown(batch.column(place)), rows, "{place}");
    }
}

#[tokio::test]
async fn fill_null_reaches_any_depth() {
    let ctx = context(1);
    let query = "SELECT fill_null([[1, NULL], NULL, [NULL]], 7) AS deep, fill_null(CAST(NULL AS DOUBLE), 0.5) AS x,
                 fill_null(arrow_cast([[NULL], [2]], 'LargeList(FixedSizeList(1, Int32))'), -1) AS large,
                 fill_null(CAST(NULL AS BOOLEAN), true) AS b";
    let batch = ctx.sql(query).await.unwrap().collect().await.unwrap().remove(0);
    assert_eq!(format!("{:?}", batch.column(1).as_primitive::<arrow::datatypes::Float64Type>().value(0)), "0.5");
    let deep = batch.column(0).as_list::<i32>().value(0);
    assert_eq!(shown(&deep), [Some(vec![Some(1), Some(7)]), None, Some(vec![Some(7)])]);
    let large = batch.column(2).as_list::<i64>().value(0);
    assert_eq!(shown(&large), [Some(vec![Some(-1)]), Some(vec![Some(2)])]);
    assert!(batch.column(3).as_boolean().value(0));
    let nullable: Vec<bool> = batch.schema().fields().iter().map(|field| field.is_nullable()).collect();
    assert!(!nullable[1] && !nullable[3]);
    // A column of numbers keeps its type.
    table(&ctx, &(Arc::new(arrow::array::Int8Array::from(vec![Some(1), None, Some(3)])) as ArrayRef));
    let filled = column(&ctx, "fill_null(x, -5)").await.unwrap();
    assert_eq!(filled.as_primitive::<arrow::datatypes::Int8Type>().values(), &[1, -5, 3]);
}

#[tokio::test]
async fn one_hot_marks_the_class_of_any_integer() {
    let ctx = context(3);
    let classes: Int64Array = [Some(2), None, Some(0), Some(4), Some(1)].into_iter().collect();
    for integer in TYPES.iter().filter(|element| element.is_integer()) {
        table(&ctx, &cast(&classes, integer).unwrap());
        let hot = column(&ctx, "one_hot(x, 5)").await.unwrap();
        let expected =
            classes.iter().map(|class| class.map(|class| (0..5).map(|i| Some((i == class).into())).collect()));
        assert_eq!(shown(&hot), expected.collect::<Rows>(), "{integer}");
        let beyond = column(&ctx, "one_hot(x, 4)").await.unwrap_err();
        assert!(beyond.is_index() && beyond.row().is_some(), "{beyond}");
        assert!(beyond.to_string().starts_with("'x': one_hot got 4, n is 4 (row "), "{beyond}");
    }
    for value in ["-1", "18446744073709551615"] {
        let error = error(&ctx, &format!("SELECT one_hot(x, 3) FROM (VALUES ({value})) AS t(x)")).await;
        assert!(error.is_index() && error.to_string().contains(value), "{error}");
    }
    let frame = ctx.sql("SELECT one_hot(x, 3) AS y FROM (VALUES (2), (0)) AS t(x)").await.unwrap();
    let dict = frame.to_tensordict(&Options::default()).await.unwrap();
    assert_eq!(dict.tensor("y").unwrap().size(), [2, 3]);
}

#[tokio::test]
async fn tensor_shape_gives_dense_tensors() {
    let ctx = context(2);
    for query in [
        "SELECT tensor_shape(pad_list(x, 6), [2, 3]) AS y FROM (VALUES ([1, 2, 3]), ([4, 5, 6])) AS t(x)",
        // Constants keep their type, too, when they are computed beforehand, and filled.
        "SELECT fill_null(tensor_shape(pad_list([1, 2, NULL], 6), [2, 3]), 0) AS y FROM (VALUES (1), (2)) AS t(x)",
    ] {
        let frame = ctx.sql(query).await.unwrap();
        let options = Options::default().nulls(Nulls::Fill);
        let entry = frame.clone().tensordict_schema(&options).unwrap().entries()[0].shape().to_string();
        assert_eq!(entry, "[n, 2, 3]");
        assert_eq!(frame.to_tensordict(&options).await.unwrap().tensor("y").unwrap().size(), [2, 2, 3], "{query}");
    }
    // Null rows are those of the list.
    let query = "SELECT tensor_shape(pad_list(x, 4), [2, 2]) AS y FROM (VALUES ([1]), (NULL)) AS t(x)";
    let dict = ctx.sql(query).await.unwrap().to_tensordict(&Options::default().nulls(Nulls::Mask)).await.unwrap();
    assert_eq!(Vec::<bool>::try_from(dict.tensor(["_mask", "y"]).unwrap()).unwrap(), [true, false]);
    for (call, says) in [
        ("tensor_shape(x, [2])", "fixed-size lists"),
        ("tensor_shape(pad_list(x, 4), [2, 3])", "shape [2, 3]"),
        ("tensor_shape(pad_list(x, 4), [-2, -2])", "dims is [-2, -2]"),
        ("tensor_shape(pad_list(x, 4), [4294967296, 4294967296])", "shape [4294967296, 4294967296]"),
        ("tensor_shape(pad_list(x, 4), [1.5])", "no constant"),
        ("tensor_shape(pad_list(x, 4), x)", "no constant"),
        ("tensor_shape(pad_list(x, 4), 4)", "dims is 4"),
    ] {
        let error = error(&ctx, &format!("SELECT {call} FROM (VALUES ([1, 2])) AS t(x)")).await;
        assert!(error.to_string().contains(says), "{call}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shuffle_key_is_the_order_of_a_loader() {
    let ctx = context(4);
    let query = "SELECT value AS id, CAST(value % 7 AS VARCHAR) AS s FROM generate_series(0, 999)";
    let sorted = ctx.sql(&format!("SELECT id FROM ({query}) ORDER BY shuffle_key(7, id, s), id, s")).await.unwrap();
    let by_sql = sorted.to_tensordict(&Options::default()).await.unwrap();
    let by_sql = Vec::<i64>::try_from(by_sql.tensor("id").unwrap()).unwrap();
    let loader = ctx.sql(query).await.unwrap().tensordict_loader(&Options::default()).await.unwrap();
    let batches = loader.batch_size(1000).order(Order::shuffled(7, ["id", "s"])).epoch_blocking(0).unwrap();
    let by_loader = tokio::task::spawn_blocking(move || {
        batches.map(|batch| Vec::<i64>::try_from(batch.unwrap().tensor("id").unwrap()).unwrap()).collect::<Vec<_>>()
    });
    assert_eq!(by_loader.await.unwrap().concat(), by_sql);
    assert!(!by_sql.is_sorted());
    // Fixed for good, on every machine; nulls are values.
    let rows = "(VALUES (5, 'ab'), (NULL, NULL)) AS t(i, s)";
    let keys = ctx.sql(&format!("SELECT shuffle_key(7, i, s) AS k FROM {rows}")).await.unwrap();
    let keys = keys.collect().await.unwrap().remove(0);
    assert_eq!(keys.column(0).as_primitive::<arrow::datatypes::UInt64Type>().values(), &VECTORS);
    for (call, says) in [
        ("shuffle_key(7)", "write shuffle_key(seed"),
        ("shuffle_key(-1, i)", "seed is -1"),
        ("shuffle_key('a', i)", "seed is a"),
        ("shuffle_key(i, i)", "no constant"),
        ("shuffle_key(1, 0.5)", "Float64"),
    ] {
        let error = error(&ctx, &format!("SELECT {call} FROM {rows}")).await;
        assert!(error.to_string().contains(says), "{call}: {error}");
    }
}

/// XXH64 of the bytes that `Order::shuffled` documents, by another implementation.
const VECTORS: [u64; 2] = [0xfccb_9245_d9fd_052c, 0x0858_fbe4_d131_5e24];

#[tokio::test]
async fn constants_are_computed_beforehand() {
    let ctx = context(1);
    for (call, constant) in [
        ("pad_list([1, 2], 4, -1)", "[1, 2, -1, -1]"),
        ("truncate_list([1, 2, 3], 2, 'left')", "[2, 3]"),
        ("fill_null([1, NULL], 8)", "[1, 8]"),
        ("one_hot(1, 3)", "[0, 1, 0]"),
        ("tensor_shape(pad_list([7], 2), [2, 1])", "[7, 0]"),
        ("shuffle_key(1, 2)", "UInt64("),
    ] {
        let explain = format!("EXPLAIN FORMAT INDENT SELECT {call} AS y, value FROM generate_series(1, 2)");
        let batches = ctx.sql(&explain).await.unwrap().collect().await.unwrap();
        let plan = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
        let projection = plan.lines().find(|line| line.contains("Projection: ")).unwrap();
        assert!(projection.contains(constant), "{call}: {plan}");
        let name = call.split('(').next().unwrap();
        assert!(!plan.contains(name), "{call}: {plan}");
    }
}

#[tokio::test]
async fn the_engine_lists_them() {
    let ctx = context(1);
    for name in ["pad_list", "truncate_list", "fill_null", "tensor_shape", "one_hot", "shuffle_key"] {
        let listed = ctx.sql(&format!("SHOW FUNCTIONS LIKE '{name}'")).await.unwrap().collect().await.unwrap();
        let text = arrow::util::pretty::pretty_format_batches(&listed).unwrap().to_string();
        assert_eq!(listed.iter().map(RecordBatch::num_rows).sum::<usize>(), 1, "{text}");
        assert!(text.contains(&format!("{name}(")), "{text}");
        let sql = format!("SELECT is_deterministic FROM information_schema.routines WHERE routine_name = '{name}'");
        let routine = ctx.sql(&sql).await.unwrap().collect().await.unwrap();
        assert!(routine[0].column(0).as_boolean().value(0));
    }
}

#[tokio::test]
async fn wrong_arguments_are_named() {
    let ctx = context(1);
    for (call, says) in [
        ("pad_list(l)", "write pad_list(list, n [, value [, side]])"),
        ("pad_list(l, 0)", "n is 0; it takes a whole number from 1"),
        ("pad_list(l, -3)", "n is -3"),
        ("pad_list(l, 2147483648)", "n is 2147483648"),
        ("pad_list(l, 99999999999999999999)", "n is "),
        ("pad_list(l, 1.5)", "n is 1.5"),
        ("pad_list(l, NULL)", "n is NULL"),
        ("pad_list(l, i)", ", which is no constant; write its value"),
        ("pad_list(l, i + 1)", "no constant"),
        ("pad_list(l, 2147483647)", "n is 2147483647; it takes a whole number from 1 to 16777216"),
        ("pad_list(l, 1)", "pad_list got a list of 2 elements, n is 1 (row 1)"),
        ("pad_list(pad_list(l, 3), 2)", "a list of 3 elements, n is 2"),
        ("pad_list(l, 3, 'x')", "value is x, of type Utf8"),
        ("pad_list(l, 3, 1.5)", "value is 1.5"),
        ("pad_list(l, 3, true)", "value is true"),
        ("pad_list(l, 3, i)", ", which is no constant; write its value"),
        ("pad_list(arrow_cast(l, 'List(Int8)'), 3, 300)", "value is 300"),
        ("pad_list(arrow_cast(l, 'List(UInt8)'), 3, -1)", "value is -1"),
        ("pad_list(arrow_cast(l, 'List(Float32)'), 3, 1e300)", "value is"),
        ("pad_list(l, 3, 0, 'middle')", "side is middle; it takes 'left' or 'right'"),
        ("pad_list(l, 3, 0, 1)", "side is 1"),
        ("pad_list(i, 3)", "pad_list takes lists of numbers or booleans, this is Int64"),
        ("pad_list(['a'], 3)", "takes lists of numbers or booleans"),
        ("pad_list([l], 3)", "takes lists of numbers or booleans"),
        ("pad_list(NULL, 3)", "this is Null"),
        ("truncate_list(l, 0)", "n is 0"),
        ("truncate_list(l, i)", "no constant"),
        ("truncate_list(s, 1)", "this is Utf8"),
        ("fill_null(l, NULL)", "value is NULL"),
        ("fill_null(s, 1)", "fill_null takes numbers, booleans, or lists of them, this is Utf8"),
        ("fill_null(struct(i), 1)", "fill_null(s['f'], 0)"),
        ("one_hot(i, 0)", "n is 0"),
        ("one_hot(i, 16777217)", "n is 16777217"),
        ("one_hot(0.5, 2)", "this is Float64"),
    ] {
        let sql = format!("SELECT {call} AS y FROM (VALUES ([1], 0, 'a'), ([1, 2], 1, 'b')) AS t(l, i, s)");
        let error = error(&ctx, &sql).await;
        assert!(error.to_string().contains(says), "{call}: {error}");
    }
    // More than a record batch has room for, known before any is asked for.
    for call in ["pad_list([value], 16777216)", "one_hot(value, 16777216)"] {
        let error = error(&ctx, &format!("SELECT {call} AS y FROM generate_series(1, 129)")).await;
        assert!(error.to_string().contains("129 rows of 16777216 elements"), "{call}: {error}");
    }
}
