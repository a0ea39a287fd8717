#!/bin/sh
# Print the path of a Python that can make a virtual environment: the newest found, or the version named ("3.12").
# A name on PATH proves nothing (a shim may stand for a version that is not there), so each candidate is run.
set -u

usable() {
    "$1" -c 'import sys, ssl, venv, ensurepip; ensurepip.version(); sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

if [ $# -gt 0 ]; then
    candidates="python$1 $(ls -d "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python3 2>/dev/null)"
else
    candidates="python3.13 python3.12 python3.11 python3.10 python3"
fi
for candidate in $candidates; do
    if usable "$candidate"; then
        "$candidate" -c 'import sys; print(sys.executable)'
        exit 0
    fi
done
if [ $# -gt 0 ]; then
    echo "Python $1 was not found." >&2
else
    echo "No Python 3.10 or newer that can make a virtual environment was found: install the package python3-venv" \
        "(Debian, Ubuntu) or python3 (Fedora, Homebrew), then run make again." >&2
fi
exit 1
