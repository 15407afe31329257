#!/usr/bin/env bash
# Sets libtorch up if it isn't there, and runs all tests: unit, integration, documentation, examples.
# Arguments go to `cargo test`. All features are on, in one build; plain `cargo test` has the default ones.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash scripts/setup.sh
say() { printf '[test] %s\n' "$*" >&2; }
features=(--features "polars,polars/parquet")
say "building; the first time compiles some 580 crates, which takes a while on two cores ..."
cargo test "${features[@]}" --no-run
say "unit and integration tests, then the examples of the documentation ..."
cargo test "${features[@]}" "$@"
say "the conformance cases once more, to show how many there are ..."
cargo test "${features[@]}" --quiet --test integration cases_pass -- --nocapture
for example in examples/*.rs; do
    name=$(basename "$example" .rs)
    say "example $name ..."
    cargo run "${features[@]}" --quiet --example "$name"
done
say "all passed"
