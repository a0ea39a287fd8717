#!/bin/sh
# Make or bring up to date a virtual environment: environment.sh FOLDER SET [PYTHON]
# SET names a lock: requirements/pyXY/SET.txt for this Python, else requirements/SET.txt. Where neither exists
# (a Python newer than the locks), the ranges of pyproject.toml are used. Nothing is done when nothing changed.
set -eu
folder=$1
set_name=$2
python=${3:-}
cd "$(dirname "$0")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

if ! "$folder/bin/python" -c 'import sys, pip; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; then
    [ -n "$python" ] || python=$(sh scripts/find-python.sh)
    echo "Making $folder with $("$python" -V)"
    "$python" -m venv --clear "$folder"
fi

tag=$("$folder/bin/python" -c 'import sys; print("py%d%d" % sys.version_info[:2])')
lock=requirements/$tag/$set_name.txt
[ -f "$lock" ] || lock=requirements/$set_name.txt
[ -f "$lock" ] || lock=
stamp=$folder/.installed-$(echo "$set_name" | tr / -)
key=$(cat pyproject.toml scripts/environment.sh ${lock:+"$lock"} | cksum)
[ "$(cat "$stamp" 2>/dev/null)" != "$key" ] || exit 0

if [ -n "$lock" ]; then
    echo "Installing $lock into $folder"
    "$folder/bin/python" -m pip install -qq --no-compile --require-hashes -r "$lock"
    case $set_name in
        docs | lock | peers/*) ;; # these only read the tree, or know nothing of it
        *) "$folder/bin/python" -m pip install -qq --no-compile --no-deps --no-build-isolation -e . ;;
    esac
else
    case $set_name in
        demo) extras=ag2 ;;
        test | core) extras=ag2,test ;;
        bench | docs | lock) extras=$set_name ;;
        *) echo "There is no requirements/$set_name.txt." >&2; exit 1 ;;
    esac
    echo "No lock for $tag: installing the ranges of pyproject.toml [$extras] into $folder"
    "$folder/bin/python" -m pip install -qq --no-compile -e ".[$extras]"
fi
# What pip would do, on two processors and without the tests that packages bring: half of it, for some.
"$folder/bin/python" -m compileall -q -j 2 -x '/tests?/' "$folder/lib" >/dev/null 2>&1 || true
echo "$key" >"$stamp"
