//! Tensordicts as HTML for notebooks. Each test reads what a browser would show, row by row.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Float32Array, Int64Array, LargeListArray, ListArray, NullArray, RecordBatch, StringArray,
    StructArray, TimestampSecondArray,
};
use arrow::datatypes::{DataType, Field, Float32Type, Int32Type, Schema};
use tch::{Device, Kind, Tensor};
use tensorquery::{
    JaggedTensor, LazyStackBuilder, MultiNestedTensor, NonTensorStack, Nulls, Options, TensorDict, TensorDictSchema,
    from_arrow,
};

/// What a page shows: its title, its rows and its notes, a picture as `#`. Fails unless its tags are known ones, each
/// closed, and nothing is loaded or run.
fn shown(html: &str) -> Vec<String> {
    let known = ["div", "style", "span", "b", "small", "bdi", "details", "summary", "svg", "title", "path"];
    let mut open: Vec<&str> = Vec::new();
    let mut text = String::new();
    let mut rest = html;
    while let Some((before, after)) = rest.split_once('<') {
        if !open.iter().any(|tag| ["style", "svg"].contains(tag)) {
            text.push_str(before);
        }
        let (tag, after) = after.split_once('>').unwrap();
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        assert!(known.contains(&name), "<{tag}>");
        for forbidden in ["href", "src", "onload", "onclick", "onerror"] {
            assert!(!tag.contains(forbidden), "<{tag}>");
        }
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed by <{tag}>");
            if name == "svg" {
                text.push('#');
            }
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        rest = after;
    }
    assert_eq!((open.len(), rest), (0, ""));
    assert!(!html.contains("url(") && !html.contains("@import") && !html.contains("//"), "{html}");
    assert!(html.chars().all(|c| c == '\n' || !c.is_control()), "{html:?}");
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect()
}

/// The rows alone, without title, heads and notes.
fn rows(dict: &TensorDict) -> Vec<String> {
    shown(&dict.to_html()).into_iter().skip(2).filter(|line| !line.contains("evenly")).collect()
}

fn dict<const N: usize>(batch_size: &[i64], entries: [(&str, Tensor); N]) -> TensorDict {
    let mut dict = TensorDict::new(batch_size);
    entries.into_iter().for_each(|(name, tensor)| dict.set(name, tensor).unwrap());
    dict
}

fn longs(values: &[i64]) -> Tensor {
    Tensor::from_slice(values)
}

fn arange(count: i64) -> Tensor {
    Tensor::arange(count, (Kind::Int64, Device::Cpu))
}

#[test]
fn a_tensordict_of_every_kind() {
    let mut td = dict(&[3], [("x", longs(&[1, 2, 9])), ("ok", Tensor::from_slice(&[true, false, false]))]);
    let lists = [longs(&[1, 2]), longs(&[]), longs(&[3])].map(|row| row.to_kind(Kind::Float));
    td.set("lists", JaggedTensor::from_rows(&lists).unwrap()).unwrap();
    td.set("words", NonTensorStack::new(Arc::new(StringArray::from(vec![Some("a"), None, Some("c")])))).unwrap();
    td.set(["deep", "y"], Tensor::from_slice(&[0.5f64; 3])).unwrap();
    assert_eq!(
        shown(&td.to_html()),
        [
            "TensorDict batch_size=[3] device=none 114 B",
            "key kind dtype shape device bytes nulls values",
            "x tensor int64 [3] cpu 24 B # 1 … 9",
            "ok tensor bool [3] cpu 3 B # 33.3% true",
            "lists jagged float32 [3, *] cpu 44 B # lengths 0 … 2",
            "words non_tensor Utf8 [3] 19 B 33.3% &quot;a&quot;, null, &quot;c&quot;",
            "deep dict [3] 24 B",
            "y tensor float64 [3] cpu 24 B all 0.5",
        ]
    );
    let html = td.to_html();
    assert!(html.contains("[3, <b title=\"ragged\">*</b>]"), "ragged dims are marked");
    assert!(html.contains("<details open><summary class=\"tq-row\"><span class=\"tq-key\" style=\"--tq-depth:0\">"));
    assert!(html.contains("style=\"--tq-depth:1\"><bdi>y</bdi>"), "nested keys are indented");
    assert!(html.contains("aria-label=\"histogram of 3 numbers from 1 to 9\""));
}

#[test]
fn leaves_and_schemas_alone() {
    let jagged = JaggedTensor::from_rows(&[longs(&[1, 2]), longs(&[3])]).unwrap();
    assert_eq!(
        shown(&jagged.to_html()),
        [
            "JaggedTensor shape=[2, *] dtype=int64 device=cpu",
            "key kind dtype shape device bytes nulls values",
            "rows jagged int64 [2, *] cpu 48 B # lengths 1 … 2",
            "values tensor int64 [3] cpu 24 B # 1 … 3",
        ]
    );
    assert_eq!(format!("{jagged:#}"), "JaggedTensor  int64  [2, *]  cpu  [[1, 2], [3]]");
    let mnt = MultiNestedTensor::from_tensor_mat(&[[longs(&[1]), longs(&[2, 3])]]).unwrap();
    assert_eq!(
        shown(&mnt.to_html())[2..],
        ["cells jagged int64 [2, *] cpu 48 B # lengths 1 … 2", "values tensor int64 [3] cpu 24 B # 1 … 3"]
    );
    let words = NonTensorStack::new(Arc::new(StringArray::from(vec!["a"])));
    assert_eq!(
        shown(&words.to_html()),
        [
            "NonTensorStack batch_size=[1]",
            "key kind dtype shape device bytes nulls values",
            "values non_tensor Utf8 [1] 9 B &quot;a&quot;"
        ]
    );
    assert_eq!(format!("{words:#}"), "NonTensorStack  Utf8  [1]  [\"a\"]");
    let inner = Field::new("<y>", DataType::Utf8, true);
    let fields = vec![
        Field::new("x", DataType::new_list(DataType::Int32, false), true),
        Field::new("s", DataType::Struct(vec![inner].into()), false),
    ];
    let schema = TensorDictSchema::resolve(&Schema::new(fields), &Options::default().nulls(Nulls::Mask)).unwrap();
    assert_eq!(
        shown(&schema.to_html()),
        [
            "TensorDict batch_size=[n]",
            "key kind dtype shape nulls",
            "x jagged int32 [n, *] mask in (&#39;_mask&#39;, &#39;x&#39;)",
            "s dict [n]",
            "&lt;y&gt; non_tensor Utf8 [n] mask in (&#39;_mask&#39;, &#39;s&#39;, &#39;&lt;y&gt;&#39;)",
        ]
    );
    let wide: Vec<_> = (0..230).map(|at| Field::new(format!("f{at}"), DataType::Int8, false)).collect();
    let schema = TensorDictSchema::resolve(&Schema::new(wide), &Options::default()).unwrap();
    assert_eq!(shown(&schema.to_html()).split_off(201), ["f199 tensor int8 [n]", "… 30 more"]);
}

#[test]
fn masks_say_what_is_null_and_leave_it_out_of_the_picture() {
    let floats = Float32Array::from(vec![Some(1.0), None, Some(3.0), None]);
    let list = ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)]), None, None, None]);
    let lat = Arc::new(Float32Array::from(vec![None, Some(5.0), Some(6.0), Some(7.0)]));
    let fields = StructArray::from(vec![(Arc::new(Field::new("lat", DataType::Float32, true)), lat as ArrayRef)]);
    let batch = RecordBatch::try_from_iter([
        ("x", Arc::new(floats) as ArrayRef),
        ("l", Arc::new(list)),
        ("s", Arc::new(fields)),
    ]);
    let mut td = from_arrow(batch.unwrap(), &Options::default().nulls(Nulls::Mask)).unwrap();
    assert_eq!(
        rows(&td),
        [
            "x tensor float32 [4] cpu 16 B 50% # 1 … 3",
            "l jagged int32 [4, *] cpu 44 B 75% lengths all 1",
            "s dict [4] 16 B",
            "lat tensor float32 [4] cpu 16 B 25% # 5 … 7",
            "_mask dict [4] 12 B",
            "x tensor bool [4] cpu 4 B # 50% true",
            "l tensor bool [4] cpu 4 B # 25% true",
            "s dict [4] 4 B",
            "lat tensor bool [4] cpu 4 B # 75% true",
        ]
    );
    assert!(
        td.to_html()
            .contains("<details><summary class=\"tq-row\"><span class=\"tq-key\" style=\"--tq-depth:0\"><bdi>_mask")
    );
    // Of elements, of a dict's rows, and what is no mask of its entry.
    let elements = JaggedTensor::try_new(Tensor::from_slice(&[false]), td.jagged("l").unwrap().offsets().copy());
    td.set(["_mask", "l"], elements.unwrap()).unwrap();
    td.set(["_mask", "s"], Tensor::from_slice(&[true, true, true, false])).unwrap();
    td.set(["_mask", "x"], Tensor::ones([4, 2], (Kind::Bool, Device::Cpu))).unwrap();
    assert_eq!(
        rows(&td)[..4],
        [
            "x tensor float32 [4] cpu 16 B # 1 … 3 2 NaN".to_owned(),
            "l jagged int32 [4, *] cpu 44 B 100% # lengths 0 … 1".to_owned(),
            "s dict [4] 16 B 25%".to_owned(),
            "lat tensor float32 [4] cpu 16 B # 5 … 7 1 NaN".to_owned(),
        ]
    );
    // One of rows, of a tensor with more dims.
    let mask = Tensor::from_slice(&[true, false]);
    let mut td = dict(&[2], [("x", longs(&[1, 2, 3, 100, 100, 100]).reshape([2, 3]))]);
    td.set(["_mask", "x"], mask).unwrap();
    assert_eq!(rows(&td)[0], "x tensor int64 [2, 3] cpu 48 B 50% # 1 … 3");
}

#[test]
fn numbers_that_have_no_place_are_counted_apart() {
    let x = Tensor::from_slice(&[f64::NAN, 1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -2.0]);
    assert_eq!(rows(&dict(&[], [("x", x)])), ["x tensor float64 [6] cpu 48 B # -2 … 1.5 2 NaN 1 inf 1 -inf"]);
    let nan = Tensor::from_slice(&[f32::NAN; 5000]);
    assert_eq!(rows(&dict(&[], [("x", nan)])), ["x tensor float32 [5000] cpu 19.5 KiB ≈ 100% NaN"]);
    let exact = longs(&[i64::MIN, i64::MAX, 9007199254740993]);
    let row = "x tensor int64 [3] cpu 24 B # -9223372036854775808 … 9223372036854775807";
    assert_eq!(rows(&dict(&[], [("x", exact)])), [row]);
    assert_eq!(
        rows(&dict(&[], [("x", longs(&[9007199254740993]))])),
        ["x tensor int64 [1] cpu 8 B all 9007199254740993"]
    );
}

#[test]
fn every_dtype_and_layout_is_shown() {
    let x = || Tensor::from_slice(&[1.0f32, 2.0]);
    let real = [
        (Kind::Uint8, "uint8", 2),
        (Kind::Int8, "int8", 2),
        (Kind::Int16, "int16", 4),
        (Kind::Int, "int32", 8),
        (Kind::Int64, "int64", 16),
        (Kind::Half, "float16", 4),
        (Kind::BFloat16, "bfloat16", 4),
        (Kind::Float, "float32", 8),
        (Kind::Double, "float64", 16),
    ];
    for (kind, name, bytes) in real {
        let row = format!("x tensor {name} [2] cpu {bytes} B # 1 … 2");
        assert_eq!(rows(&dict(&[2], [("x", x().to_kind(kind))])), [row]);
    }
    let without_picture = [
        (x().to_kind(Kind::ComplexHalf), "ComplexHalf [2] cpu 8 B"),
        (x().to_kind(Kind::ComplexFloat), "ComplexFloat [2] cpu 16 B"),
        (x().to_kind(Kind::ComplexDouble), "ComplexDouble [2] cpu 32 B"),
        (x().to_kind(Kind::Float8e4m3fn), "Float8e4m3fn [2] cpu 2 B"),
        (x().quantize_per_tensor(0.1, 0, Kind::QInt8), "QInt8 [2] cpu 2 B"),
        (x().quantize_per_tensor(0.1, 0, Kind::QUInt8), "QUInt8 [2] cpu 2 B"),
        (x().to_sparse(None, None::<i64>, None::<i64>), "float32 [2] cpu"),
        (x().reshape([1, 2]).to_sparse_csr(None), "float32 [1, 2] cpu"),
        (x().to_mkldnn(), "float32 [2] cpu"),
    ];
    for (tensor, row) in without_picture {
        let found = rows(&dict(&[], [("x", tensor)]));
        assert_eq!(found, [format!("x tensor {row}")]);
    }
    let sparse = x().to_sparse(None, None::<i64>, None::<i64>);
    let shown = shown(&dict(&[2], [("dense", x()), ("sparse", sparse)]).to_html());
    assert_eq!(shown[0], "TensorDict batch_size=[2] device=none &gt; 8 B", "what is known");
    let graph = x().set_requires_grad(true);
    assert_eq!(rows(&dict(&[2], [("x", &graph * 3.0), ("leaf", graph)]))[0], "x tensor float32 [2] cpu 8 B # 3 … 6");
}

#[test]
fn large_tensors_are_sampled_and_say_so() {
    let html = dict(&[4096], [("x", arange(4096))]).to_html();
    assert!(!html.contains('≈'), "all were looked at");
    let mut td = dict(&[8192], [("x", arange(8192)), ("small", arange(8192).narrow(0, 0, 8192).gt(9000))]);
    td.set(["_mask", "x"], arange(8192).remainder(4).not_equal(0)).unwrap();
    let shown = shown(&td.to_html());
    assert_eq!(shown[2], "x tensor int64 [8192] cpu 64.0 KiB ≈ 50% # ≈ 2 … 8190");
    assert_eq!(shown[3], "small tensor bool [8192] cpu 8.0 KiB # ≈ 0% true");
    assert_eq!(shown.last().unwrap(), "≈ by a sample: of each entry at most 4096 values, evenly strided");
    // A column of a matrix, and one number for more places than memory has, are not copied.
    let column = arange(30_000).reshape([10_000, 3]).select(1, 2);
    assert_eq!(rows(&dict(&[], [("x", column)])), ["x tensor int64 [10000] cpu 78.1 KiB # ≈ 2 … 29999"]);
    let expanded = longs(&[7]).expand([1 << 20, 1 << 20], false);
    assert_eq!(rows(&dict(&[], [("x", expanded)])), ["x tensor int64 [1048576, 1048576] cpu 8.0 TiB ≈ all 7"]);
    let lengths = JaggedTensor::try_new(arange(0), Tensor::zeros([9000], (Kind::Int64, Device::Cpu))).unwrap();
    assert!(lengths.to_html().contains("≈ lengths all 0"));
}

#[test]
fn rows_and_levels_have_an_end() {
    let many = |count: usize| TensorDict::from_entries((0..count).map(|at| (format!("k{at}"), longs(&[1])))).unwrap();
    let found = rows(&many(200));
    assert_eq!((found.len(), found[199].as_str()), (200, "k199 tensor int64 [1] cpu 8 B all 1"));
    let html = many(1230).to_html();
    let found = shown(&html);
    assert_eq!(found[0], "TensorDict batch_size=[] device=none 9.6 KiB", "all bytes are counted");
    assert_eq!(found[201..], ["k199 tensor int64 [1] cpu 8 B all 1", "… 1,030 more"]);
    let mut nested = TensorDict::new([]);
    nested.set("a", many(300)).unwrap();
    nested.set("b", many(300)).unwrap();
    let found = rows(&nested);
    assert_eq!(found[199..], ["k198 tensor int64 [1] cpu 8 B all 1", "… 101 more", "… 1 more"]);
    let deep = |levels: usize| {
        let mut deep = TensorDict::new([1]);
        deep.set((0..levels).map(|_| "d".to_owned()).collect::<Vec<_>>(), longs(&[1])).unwrap();
        rows(&deep)
    };
    assert_eq!(deep(50)[48..], ["d dict [1] 8 B", "d tensor int64 [1] cpu 8 B all 1"]);
    assert_eq!(deep(66)[63..], ["d dict [1] 8 B", "… 1 more"]);
}

#[test]
fn lazy_stacks_are_shown_without_being_stacked() {
    let member = |x: &[i64]| dict(&[], [("x", longs(x)), ("y", longs(&[1]))]);
    let mut members = [member(&[1, 2]), member(&[3]), member(&[])];
    members[1].set("only", Tensor::from_slice(&[1.5f32])).unwrap();
    members[2].set("y", Tensor::from_slice(&[2.5f32, 0.5])).unwrap();
    members[1].set(["deep", "z"], longs(&[7])).unwrap();
    members[0].set(["deep", "z"], longs(&[8])).unwrap();
    members[0].set(["_mask", "x"], Tensor::from_slice(&[true, false])).unwrap();
    let stack = TensorDict::lazy_stack(members, 0).unwrap();
    assert_eq!(
        shown(&stack.to_html()),
        [
            "LazyStackedTensorDict batch_size=[3] device=none stack_dim=0 3 members 70 B",
            "key kind dtype shape device bytes nulls values",
            "x tensor int64 [3, *] cpu 24 B 50% # 1 … 3",
            "y tensor int64 | float32 [3, *] cpu 24 B # 0.5 … 2.5",
            "deep in 2 of 3 members dict [] 16 B",
            "z tensor int64 [1] cpu 16 B # 7 … 8",
            "_mask in 1 of 3 members dict [] 2 B",
            "x tensor bool [2] cpu 2 B # 50% true",
            "only in 1 of 3 members tensor float32 [1] cpu 4 B all 1.5",
        ]
    );
    // The text says what the tensors would be stacked to.
    let of = |x: Tensor| dict(&[], [("x", x)]);
    let promoted = TensorDict::lazy_stack([of(longs(&[1])), of(Tensor::from_slice(&[1.5f32]))], 0).unwrap();
    assert!(promoted.to_string().ends_with("\n  x  tensor  float32  [2, 1]  cpu"), "{promoted}");
    // Of different kinds, in a dense tensordict, along another dim, in each other.
    let of = |x: Tensor| dict(&[2], [("x", x)]);
    let lazy = TensorDict::lazy_stack([of(longs(&[1, 2])), of(longs(&[3, 4]))], 1).unwrap();
    let mut other = TensorDict::new([2]);
    other.set("x", NonTensorStack::new(Arc::new(StringArray::from(vec!["a", "b"])))).unwrap();
    let mixed = TensorDict::lazy_stack([of(longs(&[1, 2])), other], 0).unwrap();
    let outer = TensorDict::lazy_stack([lazy.shallow_clone(), lazy.shallow_clone()], 0).unwrap();
    let mut root = TensorDict::new([2]);
    root.set("lazy", lazy).unwrap();
    root.set("mixed", mixed).unwrap();
    root.set("outer", outer).unwrap();
    assert_eq!(
        rows(&root),
        [
            "lazy dict [2, 2] 32 B",
            "x tensor int64 [2, 2] cpu 32 B # 1 … 4",
            "mixed dict [2, 2] 30 B",
            "x tensor | non_tensor int64 | Utf8 [2, 2] cpu 30 B",
            "outer dict [2, 2, 2] 64 B",
            "x tensor int64 [2, 2, 2] cpu 64 B # 1 … 4",
        ]
    );
}

#[test]
fn of_many_members_some_are_looked_at() {
    let members = |count: i64| (0..count).map(|at| dict(&[], [("x", longs(&[at]))]));
    let found = shown(&TensorDict::lazy_stack(members(300), 0).unwrap().to_html());
    assert_eq!(found[2], "x tensor int64 [300, 1] cpu 2.3 KiB # ≈ 0 … 298");
    let found = shown(&TensorDict::lazy_stack(members(20_002), 0).unwrap().to_html());
    let title = "LazyStackedTensorDict batch_size=[20002] device=none stack_dim=0 20,002 members ≈ 156 KiB";
    assert_eq!(found[0], title);
    // Every eleventh of them, of which every eighth.
    assert_eq!(found[2], "x tensor int64 [20002, 1] cpu ≈ 156 KiB # ≈ 0 … 19976");
    assert_eq!(found[4], "by at most 2000 members of lazy stacks, evenly chosen");
}

#[test]
fn text_of_others_stays_text() {
    let hostile = "<script>alert('1')</script>&\"\u{7}\n\r\t\u{0}\u{202e}\u{2066}\u{200b}\u{1b}[31m שלום";
    let escaped = "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;&quot;\\u{7}\\n\\r\\t\\u{0}\\u{202e}\\u{2066}\\u{200b}\\u{1b}[31m שלום";
    let mut td = dict(&[2], [(hostile, longs(&[1, 1]))]);
    td.set([hostile, hostile].map(|name| format!("{name}2")), longs(&[1, 1])).unwrap();
    td.set("text", NonTensorStack::new(Arc::new(StringArray::from(vec!["</bdi><img src=x onerror=y>", "\u{202e}"]))))
        .unwrap();
    let named = Field::new("</span>", DataType::Int64, true);
    let fields = StructArray::from(vec![(Arc::new(named), Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)]);
    td.set("struct", NonTensorStack::new(Arc::new(fields))).unwrap();
    td.set("", longs(&[1, 1])).unwrap();
    td.set("k".repeat(300), longs(&[1, 1])).unwrap();
    let found = rows(&td);
    assert_eq!(found[0], format!("{escaped} tensor int64 [2] cpu 16 B all 1"));
    assert!(
        found[3].ends_with("&quot;&lt;/bdi&gt;&lt;img src=x onerror=y&gt;&quot;, &quot;\\u{202e}&quot;"),
        "{}",
        found[3]
    );
    assert!(found[4].starts_with("struct non_tensor Struct(") && found[4].contains("&lt;/span&gt;"), "{}", found[4]);
    assert_eq!(found[5], "&quot;&quot; tensor int64 [2] cpu 16 B all 1");
    assert_eq!(found[6], format!("{}… tensor int64 [2] cpu 16 B all 1", "k".repeat(80)));
    assert!(td.to_html().contains(&format!("<bdi>{escaped}</bdi>")), "names turn no text around them");
}

#[test]
fn values_that_are_no_numbers_are_cut() {
    let value = |array: ArrayRef| {
        let mut td = TensorDict::new([array.len() as i64]);
        td.set("x", NonTensorStack::new(array)).unwrap();
        let row = rows(&td).remove(0);
        row.rsplit_once(" B ").map_or(row.clone(), |(_, value)| value.to_owned())
    };
    let long = "ä".repeat(1 << 20);
    assert!(
        value(Arc::new(StringArray::from(vec![long.as_str(), "b"]))).ends_with(&format!("&quot;{}…", "ä".repeat(59)))
    );
    let list = LargeListArray::from_iter_primitive::<Float32Type, _, _>([Some(vec![Some(0.5); 1 << 20])]);
    let list = value(Arc::new(list));
    assert!(list.ends_with('…') && list.contains("[0.5, 0.5, "), "{list}");
    assert_eq!(
        value(Arc::new(TimestampSecondArray::from(vec![0]).with_timezone("+02:00"))),
        "1970-01-01T02:00:00+02:00"
    );
    assert_eq!(value(Arc::new(TimestampSecondArray::from(vec![i64::MAX]))).matches('#').count(), 0);
    assert_eq!(value(Arc::new(TimestampSecondArray::from(vec![0]).with_timezone("no <zone>"))).matches('<').count(), 0);
    assert_eq!(value(Arc::new(NullArray::new(2))), "100% null, null");
    assert_eq!(value(Arc::new(StringArray::from(vec!["null"]))), "&quot;null&quot;");
}

#[test]
fn what_is_empty_is_shown() {
    assert_eq!(shown(&TensorDict::new([0]).to_html()), ["TensorDict batch_size=[0] device=none"]);
    let mut td = dict(&[0], [("x", longs(&[])), ("wide", longs(&[]).reshape([0, 3]))]);
    td.set("b", Tensor::zeros([0], (Kind::Bool, Device::Cpu))).unwrap();
    td.set("f", Tensor::zeros([0], (Kind::Float, Device::Cpu))).unwrap();
    td.set("l", JaggedTensor::try_new(longs(&[]), longs(&[0])).unwrap()).unwrap();
    td.set("s", NonTensorStack::new(Arc::new(StringArray::from(Vec::<&str>::new())))).unwrap();
    td.set("d", TensorDict::new([0])).unwrap();
    td.set(["_mask", "x"], Tensor::zeros([0], (Kind::Bool, Device::Cpu))).unwrap();
    assert_eq!(
        rows(&td),
        [
            "x tensor int64 [0] cpu 0 B",
            "wide tensor int64 [0, 3] cpu 0 B",
            "b tensor bool [0] cpu 0 B",
            "f tensor float32 [0] cpu 0 B",
            "l jagged int64 [0, *] cpu 8 B",
            "s non_tensor Utf8 [0] 4 B",
            "d dict [0] 0 B",
            "_mask dict [0] 0 B",
            "x tensor bool [0] cpu 0 B",
        ]
    );
    let scalar = dict(&[], [("x", Tensor::from(2.5f64)), ("b", Tensor::from(true))]);
    assert_eq!(rows(&scalar), ["x tensor float64 [] cpu 8 B all 2.5", "b tensor bool [] cpu 1 B # 100% true"]);
    let none = LazyStackBuilder::new(Vec::<TensorDict>::new()).build().unwrap();
    assert_eq!(shown(&none.to_html()).len(), 1);
    let mnt = MultiNestedTensor::from_tensor_mat(&Vec::<Vec<Tensor>>::new()).unwrap();
    assert_eq!(
        shown(&mnt.to_html())[2..],
        ["cells jagged float32 [0, *] cpu 8 B", "values tensor float32 [0] cpu 0 B"]
    );
}

/// Offsets that another handle wrote to, or resized.
#[test]
fn what_was_changed_behind_our_back_is_shown() {
    let offsets = longs(&[0, 2, 3]);
    let jagged = JaggedTensor::try_new(longs(&[1, 2, 3]), offsets.shallow_clone()).unwrap();
    offsets.shallow_clone().copy_(&longs(&[i64::MAX, i64::MIN, 0]));
    assert!(shown(&jagged.to_html())[2].contains("lengths -9223372036854775808 … "));
    let _ = offsets.shallow_clone().resize_([0]);
    assert_eq!(shown(&jagged.to_html())[2], "rows jagged int64 [0, *] cpu 24 B");
}

/// The kernel reads the standard output of the process that it runs cells in; here this test is that process.
#[test]
fn a_cell_shows_its_last_value() {
    const CELL: &str = "TENSORQUERY_TEST_CELL";
    let td = dict(&[1], [("EVCXR_END_CONTENT", longs(&[1])), ("a\nEVCXR_END_CONTENT\nb", longs(&[1]))]);
    if std::env::var_os(CELL).is_some() {
        td.evcxr_display();
        return;
    }
    let mut cell = std::process::Command::new(std::env::current_exe().unwrap());
    cell.args(["--exact", "html::a_cell_shows_its_last_value", "--nocapture", "--test-threads=1"]).env(CELL, "1");
    let output = String::from_utf8(cell.output().unwrap().stdout).unwrap();
    // As the kernel reads it: line by line, from the word that begins a type of content to the one that ends it.
    let mut lines = output.lines();
    let mut parts = Vec::new();
    while let Some(line) = lines.next() {
        if let Some((_, kind)) = line.split_once("EVCXR_BEGIN_CONTENT ") {
            let content: Vec<_> = lines.by_ref().take_while(|line| *line != "EVCXR_END_CONTENT").collect();
            parts.push((kind.to_owned(), content.join("\n")));
        }
    }
    assert_eq!(parts, [("text/html".to_owned(), td.to_html()), ("text/plain".to_owned(), td.to_string())]);
}
