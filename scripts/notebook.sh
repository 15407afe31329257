#!/usr/bin/env bash
# Runs the notebook under examples/notebooks in the Rust kernel, without a browser, and compares what its cells print
# with what is stored in it. Installs what that needs under the user's cache folder, the first time.
#
#   scripts/notebook.sh             run and compare
#   scripts/notebook.sh --install   install only
#   scripts/notebook.sh --update    run and store the outputs
#   scripts/notebook.sh --lab       open it in JupyterLab instead
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly version=0.22.0
readonly notebook=examples/notebooks/flights.ipynb
readonly cache=${XDG_CACHE_HOME:-$HOME/.cache}/tensorquery
readonly venv=$cache/jupyter

say() { printf '[notebook] %s\n' "$*" >&2; }
die() {
    printf '[notebook] error: %s\n' "$1" >&2
    exit 1
}

mode=${1:---run}
case $mode in --run | --install | --update | --lab) ;; *) die "'$mode' is none of --install, --update, --lab." ;; esac

bash scripts/setup.sh

kernel=$(command -v evcxr_jupyter || true)
[ -n "$kernel" ] || kernel=$cache/evcxr/bin/evcxr_jupyter
if [ ! -x "$kernel" ]; then
    say "building evcxr_jupyter $version, the Rust kernel, once; takes 10 to 20 minutes on two cores ..."
    # Without --locked it gets newer versions of its dependencies, with which it doesn't build.
    cargo install --quiet --locked --root "$cache/evcxr" "evcxr_jupyter@$version"
fi

python=$(command -v python3 || true)
[ -n "$python" ] || die "Python 3 is missing: Jupyter is written in it."
if [ ! -x "$venv/bin/python" ]; then
    "$python" -m venv "$venv" || die "no virtual environment. Debian/Ubuntu: apt-get install python3-venv"
fi
packages=(nbclient nbformat)
[ "$mode" = --lab ] && packages+=(jupyterlab)
for package in "${packages[@]}"; do
    "$venv/bin/python" -c "import $package" 2>/dev/null || {
        say "installing $package ..."
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$package"
    }
done
JUPYTER_PATH=$venv/share/jupyter "$kernel" --install >/dev/null
[ "$mode" = --install ] && exit 0

if [ "$mode" = --lab ]; then
    exec "$venv/bin/python" -m jupyterlab "$notebook"
fi
say "running $notebook; the first cell builds the engine, which takes minutes the first time ..."
exec "$venv/bin/python" scripts/notebook.py "$mode" "$notebook"
