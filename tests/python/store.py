"""The Python side of scripts/python.sh: opens what the Rust tests saved, and saves what they open.

    store.py read FOLDER     compares what tests/integration/store_python.rs wrote with what it should be
    store.py write FOLDER    writes what tests/integration/store_python.rs then compares
"""

import sys
from pathlib import Path

import torch
from tensordict import LazyStackedTensorDict, NonTensorStack, TensorDict, from_safetensors, to_safetensors

DTYPES = {
    "bool": torch.bool, "uint8": torch.uint8, "int8": torch.int8, "int16": torch.int16, "int32": torch.int32,
    "int64": torch.int64, "float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32,
    "float64": torch.float64, "complex64": torch.complex64,
}
KEYS = ["a/b", "../x", "..", ".", "", " ", "größe", "a.b", "%2F", "nl\n"]


def same(found, due, what):
    if isinstance(due, torch.Tensor):
        found = torch.as_tensor(found)
        ok = found.dtype == due.dtype and found.shape == due.shape and torch.equal(found, due)
    else:
        ok = found == due
    if not ok:
        sys.exit(f"{what}: found {found!r}, not {due!r}")


def check_dense(td, form):
    same(tuple(td.batch_size), (3,), f"{form} batch size")
    same(td.names, ["time"], f"{form} names")
    for name, dtype in DTYPES.items():
        same(td["dtypes", name], torch.tensor([0, 1, 1]).to(dtype), f"{form} {name}")
    same(td["nested", "y"], torch.arange(6).reshape(3, 2), f"{form} nested")
    same(tuple(td["nested"].batch_size), (3,), f"{form} nested batch size")
    same(td["_mask", "x"], torch.tensor([True, False, True]), f"{form} mask")
    same(td["none"], torch.zeros(3, 0), f"{form} no elements")


def read(folder):
    td = TensorDict.load_memmap(folder / "all")
    check_dense(td, "memmap")
    for key in KEYS:
        same(td["keys", key], torch.tensor([1, 2, 3]), f"memmap key {key!r}")
    rows = [row.tolist() for row in torch.Tensor.unbind(td["tokens"], 0)]
    same(rows, [[1, 2], [], [3]], "memmap jagged")
    rows = [row.tolist() for row in torch.Tensor.unbind(td["wide"], 0)]
    same(rows, [[], [[[0.0, 1.0], [2.0, 3.0]], [[4.0, 5.0], [6.0, 7.0]]], []], "memmap jagged of more dims")
    rows = [row.tolist() for row in torch.Tensor.unbind(td["hollow"], 0)]
    same(rows, [[], [], []], "memmap jagged without values")
    same(td.get("text").tolist(), ['a "b"\n', None, "größe"], "memmap strings")
    same(tuple(td.get("pairs").batch_size), (3,), "memmap lists of one length")
    same(td.get("pairs").tolist(), [[1, 2], [3, 4], [5, 6]], "memmap lists of one length")
    same(td.get("ragged").tolist(), [[1], [], [2, 3]], "memmap lists")
    same(td.get("time").tolist(), ["1970-01-01T00:00:00.000001", None, "1970-01-01T00:00:01"], "memmap times")
    same(td.get("price").tolist(), ["1.00", "-0.05", "0.00"], "memmap decimals")
    same(td.get("bytes").tolist(), ["00ff", None, ""], "memmap bytes")
    same(td.get("struct").tolist(), [{"a": 1}, {"a": None}, {"a": 3}], "memmap structs")

    grid = TensorDict.load_memmap(folder / "grid")
    same(tuple(grid.batch_size), (2, 2), "grid")
    same(grid.get("s").tolist(), [["a", "b"], ["c", "d"]], "grid of strings")
    same(tuple(grid.get("l").batch_size), (2, 2), "grid of lists")
    same(grid.get("l").tolist(), [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], "grid of lists")

    single = TensorDict.load_memmap(folder / "single")
    same(single["s"], "value", "single string")
    same(single["n"], 7, "single number")
    same(single["x"], torch.tensor(1.5), "single tensor")

    lazy = TensorDict.load_memmap(folder / "lazy")
    same(type(lazy), LazyStackedTensorDict, "lazy")
    same((lazy.stack_dim, lazy.names), (0, ["episode", None]), "lazy dims")
    same(sorted(lazy[1].keys()), ["a", "b"], "lazy keys")
    same([m["a"].tolist() for m in lazy.tensordicts], [[0, 1], [0, 1, 2]], "lazy members")

    streamed = TensorDict.load_memmap(folder / "streamed")
    same(streamed["x"], torch.arange(6), "streamed")
    same([r.tolist() for r in torch.Tensor.unbind(streamed["j"], 0)], [[0], [0, 1]] * 3, "streamed jagged")
    same(streamed.get("s").tolist(), ["a", "b"] * 3, "streamed strings")
    same(tuple(TensorDict.load_memmap(folder / "empty").batch_size), (0,), "no rows")

    td = from_safetensors(folder / "all.safetensors")
    check_dense(td, "safetensors")
    same(td["tokens", "values"], torch.tensor([1, 2, 3]), "safetensors jagged values")
    same(td["tokens", "offsets"], torch.tensor([0, 2, 2, 3]), "safetensors jagged offsets")
    same(bytes(td["text", "arrow"].tolist()[:6]), b"ARROW1", "safetensors strings")
    lazy = from_safetensors(folder / "lazy.safetensors")
    same((type(lazy), lazy.stack_dim), (LazyStackedTensorDict, 1), "safetensors lazy")
    same([m["a"].tolist() for m in lazy.tensordicts], [[0, 1], [0, 1]], "safetensors lazy members")
    print("Python reads what Rust saved: all as it should be")


def write(folder):
    td = TensorDict(
        dtypes={name: torch.tensor([0, 1, 1]).to(dtype) for name, dtype in DTYPES.items()},
        nested={"y": torch.arange(6).reshape(3, 2)},
        none=torch.zeros(3, 0),
        keys={key: torch.tensor([1, 2, 3]) for key in KEYS},
        text=NonTensorStack('a "b"\n', None, "größe"),
        one="value",
        pairs=NonTensorStack(*[{"a": i} for i in range(3)]),
        batch_size=[3],
        names=["time"],
    )
    td.memmap(folder / "all")
    wide = TensorDict(
        u16=torch.tensor([65535, 1], dtype=torch.uint16), u32=torch.tensor([2**32 - 1, 1], dtype=torch.uint32),
        u64=torch.tensor([5, 1], dtype=torch.uint64), c32=torch.ones(2, dtype=torch.complex32),
        batch_size=[2],
    )
    wide.memmap(folder / "wide")
    nested = TensorDict(x=torch.nested.nested_tensor([torch.tensor([0]), torch.tensor([1, 2])]), batch_size=[])
    nested.batch_size = [2]
    nested.memmap(folder / "nested")
    members = [TensorDict(a=torch.arange(n), batch_size=[n]) for n in (2, 3)]
    members[1]["b"] = torch.ones(3)
    LazyStackedTensorDict(*members, stack_dim=0, stack_dim_name="episode").memmap(folder / "lazy")
    grid = TensorDict(s=NonTensorStack(NonTensorStack("a", "b"), NonTensorStack("c", "d")), batch_size=[2, 2])
    grid.memmap(folder / "grid")
    plain = td.exclude("text", "pairs")
    to_safetensors(plain, folder / "all.safetensors")
    even = LazyStackedTensorDict(*[TensorDict(a=torch.arange(2), batch_size=[2]) for _ in range(2)], stack_dim=1)
    to_safetensors(even, folder / "lazy.safetensors")
    from safetensors.torch import save_file

    save_file({"0.weight": torch.ones(4, 3), "0.bias": torch.zeros(4)}, folder / "model.safetensors")
    # Python saves over what Rust saved: the values are Python's from then on.
    over = TensorDict(text=NonTensorStack("p", "q", "r"), one="new", batch_size=[3])
    over.memmap(folder / "over")


if __name__ == "__main__":
    command, folder = sys.argv[1], Path(sys.argv[2])
    {"read": read, "write": write}[command](folder)
