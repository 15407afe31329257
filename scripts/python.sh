#!/usr/bin/env bash
# Checks both ways that Python's TensorDict opens what is saved here, and the other way round.
#
# TENSORQUERY_PYTHON names a Python that has tensordict 0.15.3, torch 2.13.0 and safetensors; without it they are
# installed under target/python, which takes 5 GB. Arguments go to `cargo test`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '[python] %s\n' "$*" >&2; }
python=${TENSORQUERY_PYTHON:-}
if [ -z "$python" ]; then
    python=target/python/bin/python
    if ! "$python" -c 'import tensordict, safetensors' 2>/dev/null; then
        say "installing torch 2.13.0 and tensordict 0.15.3 under target/python (5 GB, once) ..."
        python3 -m venv target/python
        target/python/bin/pip install --quiet --disable-pip-version-check torch==2.13.0 tensordict==0.15.3 safetensors
    fi
fi
bash scripts/setup.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TENSORQUERY_PYTHON_FOLDER=$folder
mkdir "$folder/rust" "$folder/python"
run() { cargo test "$@" --quiet --test integration -- --ignored --exact "$test"; }
say "Rust saves, Python opens ..."
test=store_python::saves_for_python run "$@"
"$python" tests/python/store.py read "$folder/rust"
say "Python saves, Rust opens ..."
"$python" tests/python/store.py write "$folder/python"
test=store_python::opens_what_python_saved run "$@"
say "all passed"
