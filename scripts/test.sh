#!/usr/bin/env bash
# Sets libtorch up if it isn't there, and runs all tests: unit, integration, documentation, examples.
# Arguments go to `cargo test`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash scripts/setup.sh
say() { printf '[test] %s\n' "$*" >&2; }
say "building; the first time compiles some 300 crates, which takes minutes on two cores ..."
cargo test --no-run
say "unit and integration tests, then the examples of the documentation ..."
cargo test "$@"
say "the conformance cases once more, to show how many there are ..."
cargo test --quiet --test integration cases_pass -- --nocapture
for example in examples/*.rs; do
    name=$(basename "$example" .rs)
    say "example $name ..."
    cargo run --quiet --example "$name"
done
say "all passed"
