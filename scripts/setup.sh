#!/usr/bin/env bash
# Puts libtorch 2.13.0 under ./libtorch, taken from PyPI's torch wheel (Python never imports it).
#
# Does nothing when it is there already, or when LIBTORCH or LIBTORCH_USE_PYTORCH is set.
# TENSORQUERY_LIBTORCH=cpu|cuda chooses; by default CUDA where an NVIDIA driver is loaded, else CPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly version=2.13.0

say() { printf '[setup] %s\n' "$*" >&2; }
die() {
    printf '[setup] error: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '        %s\n' "$line" >&2; done
    exit 1
}

need() { command -v "$1" >/dev/null 2>&1 || die "'$1' is missing." "$2"; }

need cargo "Install Rust 1.94 or newer: https://rustup.rs"
command -v c++ >/dev/null 2>&1 || command -v g++ >/dev/null 2>&1 || command -v clang++ >/dev/null 2>&1 ||
    die "a C++ compiler is missing." "Debian/Ubuntu: apt-get install g++    Fedora: dnf install gcc-c++"

if [ -n "${LIBTORCH_USE_PYTORCH:-}" ]; then
    say "LIBTORCH_USE_PYTORCH is set: the torch of your Python is used."
    exit 0
fi
if [ -n "${LIBTORCH:-}" ]; then
    [ -d "$LIBTORCH/lib" ] || die "LIBTORCH is set to '$LIBTORCH', which has no 'lib' folder." \
        "Point it at a libtorch $version, or unset it to have one set up here."
    say "LIBTORCH is set: '$LIBTORCH' is used."
    exit 0
fi

want=${TENSORQUERY_LIBTORCH:-}
if [ -z "$want" ]; then
    if [ -e /proc/driver/nvidia/version ]; then want=cuda; else want=cpu; fi
fi
case $want in cpu | cuda) ;; *) die "TENSORQUERY_LIBTORCH is '$want'; it takes 'cpu' or 'cuda'." ;; esac

# The mark is written last, inside a folder that is moved into place whole.
if [ "$(cat libtorch/.complete 2>/dev/null)" = "$version $want" ]; then
    exit 0
fi

[ "$(uname -s)" = Linux ] || die "only Linux is set up automatically." \
    "Install libtorch $version yourself and set LIBTORCH to its folder."
case $(uname -m) in
x86_64 | aarch64) machine=$(uname -m) ;;
*) die "there is no torch $version wheel for '$(uname -m)'." "Build libtorch yourself and set LIBTORCH." ;;
esac

python=$(command -v python3 || command -v python || true)
[ -n "$python" ] || die "Python 3 is missing (only its pip is used, to download and unpack)." \
    "Debian/Ubuntu: apt-get install python3 python3-pip"
"$python" -m pip --version >/dev/null 2>&1 || die "pip is missing for '$python'." \
    "Debian/Ubuntu: apt-get install python3-pip    or: $python -m ensurepip --user"

readonly room_mb=$([ "$want" = cuda ] && echo 12000 || echo 1600)
free_mb=$(df -Pm . | awk 'NR == 2 { print $4 }')
[ "$free_mb" -ge "$room_mb" ] || die "$free_mb MB are free here; setting up libtorch ($want) needs $room_mb MB."

work=$(mktemp -d ./.libtorch-XXXXXX)
trap 'rm -rf "$work"' EXIT

# The wheel's own Python version doesn't matter, since it is only unpacked: ask for one that exists.
platform=(--only-binary=:all: --python-version 3.11 --implementation cp --abi cp311 --abi abi3 --abi none
    --platform "manylinux2014_$machine" --platform any)
for glibc in $(seq 17 28); do platform+=(--platform "manylinux_2_${glibc}_$machine"); done
hint="Check the network, or a proxy or mirror in pip's configuration; then run this again."

if [ "$want" = cpu ]; then
    say "downloading libtorch $version for the CPU (about 540 MB, once) ..."
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps "${platform[@]}" --dest "$work/wheels" \
        "torch==$version" "nvidia-cuda-runtime==13.0.*" "nvidia-cuda-cupti==13.0.*" ||
        die "the download failed." "$hint"
    say "unpacking ..."
    mkdir -p "$work/libtorch/lib"
    # libtorch_cpu.so of PyPI's wheel is linked to two small CUDA libraries, so these come along.
    "$python" - "$work" <<'PYTHON' || die "unpacking failed."
import glob, os, shutil, sys, zipfile

work = sys.argv[1]
keep = {"libtorch_cpu.so", "libc10.so", "libgomp.so.1", "libcudart.so.13", "libcupti.so.13"}
found = set()
for wheel in glob.glob(os.path.join(work, "wheels", "*.whl")):
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            name = os.path.basename(info.filename)
            if info.filename.startswith("torch/include/") and name:
                target = os.path.join(work, "libtorch", info.filename[len("torch/"):])
            elif name in keep:
                target = os.path.join(work, "libtorch", "lib", name)
                found.add(name)
            else:
                continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with archive.open(info) as source, open(target, "wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
missing = {name for name in keep if "cuda" not in name and "cupti" not in name} - found
if missing:
    sys.exit(f"not in the wheels: {', '.join(sorted(missing))}")
PYTHON
    # The wheel's libtorch.so would pull in the CUDA library: a linker script stands in for it.
    echo 'INPUT(-ltorch_cpu)' >"$work/libtorch/lib/libtorch.so"
else
    say "downloading libtorch $version with CUDA (several GB, once) ..."
    "$python" -m pip install --quiet --disable-pip-version-check "${platform[@]}" --target "$work/site" \
        "torch==$version" || die "the download failed." "$hint"
    # Its libraries find NVIDIA's two folders up, so the layout stays as it is.
    mkdir "$work/libtorch"
    mv "$work/site" "$work/libtorch/site"
    ln -s site/torch/include "$work/libtorch/include"
    ln -s site/torch/lib "$work/libtorch/lib"
fi
echo "$version" >"$work/libtorch/build-version"

say "checking that it loads ..."
"$python" - "$work/libtorch/lib/libtorch_cpu.so" <<'PYTHON' || die "libtorch was unpacked but does not load." \
    "It needs glibc 2.28 or newer."
import ctypes, sys

library = ctypes.CDLL(sys.argv[1])
library.torch_from_blob
PYTHON

echo "$version $want" >"$work/libtorch/.complete"
rm -rf libtorch
mv "$work/libtorch" libtorch
say "libtorch $version ($want) is in ./libtorch."
