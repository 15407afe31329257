#!/usr/bin/env bash
# Sets libtorch up if it isn't there, builds, and runs the main job: a query over Parquet files
# whose result is printed as a tensordict of libtorch tensors.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bash scripts/setup.sh
printf '[demo] building; the first time compiles some 300 crates, which takes minutes on two cores ...\n' >&2
cargo build --bin tensorquery
printf '[demo] tensorquery -f sql/train.sql\n\n' >&2
exec cargo run --quiet --bin tensorquery -- -f sql/train.sql
