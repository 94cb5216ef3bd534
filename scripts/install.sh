#!/usr/bin/env bash
# Makes a virtual environment and installs minimizer into it, with the pins of constraints.txt.
#
#   scripts/install.sh VENV [EXTRA]
#
# PYTHON      the Python to build on (default: python3, else the first of python3.13, 3.12, 3.11 that is there)
# TORCH_SPEC  a torch to install, say torch==2.12.0; without it a torch 2.11 to 2.15 that PYTHON has is reused,
#             else the pinned one is installed
# All settings of pip (PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, ...) apply.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=$1
extra=${2:-}

die() {
    printf '\nCannot go on: %s\n' "$1" >&2
    exit 1
}

is_recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if is_recent "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    die "Python 3.11 or later is needed and was not found.
Install it (Debian, Ubuntu: apt-get install python3 python3-venv python3-dev), or name one: make PYTHON=/path/to/python3.12"
}

# Where that Python's own torch lies, if it is one we can use; nothing otherwise.
usable_torch() {
    "$1" - 2>/dev/null <<'PY' || true
import pathlib, re, torch
major, minor = map(int, re.match(r"(\d+)\.(\d+)", torch.__version__).groups())
if (2, 11) <= (major, minor) < (2, 16):
    print(pathlib.Path(torch.__file__).parents[1])
PY
}

python=$(find_python)

command -v "${CXX:-g++}" >/dev/null || die "no C++ compiler: torch.compile needs one for CPU code.
Install it (Debian, Ubuntu: apt-get install g++), or set CXX to yours."

"$python" -c 'import pathlib, sys, sysconfig; sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' ||
    die "the header Python.h of $python is missing: torch.compile needs it for CPU code.
Install it (Debian, Ubuntu: apt-get install python3-dev)."

if ! "$venv/bin/python" -c '' 2>/dev/null; then
    echo "Making $venv with $python"
    "$python" -m venv --clear "$venv" >/dev/null || die "$python cannot make virtual environments.
Install that part of it (Debian, Ubuntu: apt-get install python3-venv)."
fi

pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }

site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
if ! "$venv/bin/python" -c 'import torch' 2>/dev/null || [ -n "${TORCH_SPEC:-}" ]; then
    reused=
    [ -n "${TORCH_SPEC:-}" ] || reused=$(usable_torch "$python")
    if [ -n "$reused" ]; then
        echo "Using the torch that is installed in $reused"
        echo "$reused" >"$site/reused-torch.pth"
    else
        spec=${TORCH_SPEC:-$(grep '^torch==' constraints.txt)}
        echo "Installing $spec (a large download; README.md says how to choose a smaller build)"
        rm -f "$site/reused-torch.pth"
        pip install --quiet "$spec" || die "pip could not install $spec; its own message is above."
    fi
fi

# The pins, except that torch stays the one that is there.
version=$("$venv/bin/python" -c 'import importlib.metadata as m; print(m.version("torch").split("+")[0])')
sed "s/^torch==.*/torch==$version/" constraints.txt >"$venv/constraints.txt"

echo "Installing minimizer${extra:+ [$extra]} and what it needs"
pip install --quiet --constraint "$venv/constraints.txt" --editable ".${extra:+[$extra]}" ||
    die "pip could not install minimizer; its own message is above."
