# Sourced by the other scripts: where the checkout is, its virtual environment, and installing what is missing.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf '\n== %s\n' "$*" >&2; }

# apt PACKAGE...: install what is not there yet, as root or through sudo; status 1 where that cannot be done.
apt_install() {
    local missing=() package
    for package in "$@"; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    command -v apt-get >/dev/null || return 1
    local become=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || return 1
        become=(sudo)
    fi
    say "installing ${missing[*]}"
    "${become[@]}" apt-get update -qq >&2 &&
        "${become[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
            "${missing[@]}" >&2
}

# The newest Python from 3.11 on that can make a virtual environment.
find_python() {
    local name
    for name in python3.14 python3.13 python3.12 python3.11 python3; do
        if "$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$name"
            return
        fi
    done
    return 1
}

# make_environment EXTRA...: .venv with lockbuild and what is named, reused where it is there.
make_environment() {
    local python
    if [ ! -x .venv/bin/python ]; then
        python=$(find_python) || { apt_install python3 python3-venv && python=$(find_python); } || {
            echo "error: Python 3.11 or newer with venv is needed" >&2
            exit 2
        }
        "$python" -m venv .venv
    fi
    say "installing lockbuild into .venv"
    .venv/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
    .venv/bin/python -m pip install --quiet --editable . "$@"
}

# Whether `lockbuild` finds a sandbox: an engine that answers, or bubblewrap that works.
has_sandbox() {
    .venv/bin/python - <<'PYTHON'
import os, pathlib, sys
from lockbuild.errors import SandboxError
from lockbuild.sandbox.select import choose
try:
    backend = choose("auto", os.environ, scratch=pathlib.Path("/nonexistent"))
except SandboxError as error:
    print(error, file=sys.stderr)
    sys.exit(1)
print(f"sandbox: {backend.name}", file=sys.stderr)
PYTHON
}
