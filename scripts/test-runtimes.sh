#!/bin/sh
# Run the tests where one environment is not enough: every supported Python, the oldest dependencies that
# pyproject.toml admits, and every agent runtime that has a requirements/runtimes/NAME.in.
# What is missing is a failure in CI and a skip with its reason elsewhere.
set -u
cd "$(dirname "$0")/.."
failed=0

missing() {
    if [ "${CI:-}" = true ]; then
        echo "FAILED: $1"
        failed=1
    else
        echo "SKIPPED: $1"
    fi
}

# try FOLDER SET PYTHON PYTEST-ARGUMENT...
try() {
    folder=$1 set_name=$2 python=$3
    shift 3
    echo "== $folder: $set_name"
    if sh scripts/environment.sh "$folder" "$set_name" "$python"; then
        "$folder/bin/python" -m pytest -q "$@" || { echo "FAILED: $folder"; failed=1; }
    else
        missing "$folder could not be set up"
    fi
}

# The core on each Python. The agent runtimes have environments of their own below, and make test has both on one Python;
# that the suites can fail needs no second Python.
core="--ignore=tests/house --ignore=tests/adapters/ag2 --ignore=tests/adapters/classic --ignore=tests/adapters/resuming
    --ignore=tests/conformance/test_suite_can_fail.py --ignore=tests/conformance/test_machine_can_fail.py"

usual=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true)
for version in 3.10 3.11 3.12 3.13; do
    if [ "$version" = "$usual" ]; then
        echo "== Python $version: tested by make test"
    elif python=$(sh scripts/find-python.sh "$version" 2>/dev/null); then
        # shellcheck disable=SC2086  # a list of options
        try ".venvs/py$version" test "$python" $core
    else
        missing "Python $version was not found"
    fi
done

if python=$(sh scripts/find-python.sh 3.10 2>/dev/null); then
    # shellcheck disable=SC2086  # a list of options
    try .venvs/lowest lowest "$python" $core
else
    missing "Python 3.10, for the oldest dependencies, was not found"
fi

for inputs in requirements/runtimes/*.in; do
    [ -f "$inputs" ] || continue
    name=$(basename "$inputs" .in)
    tests=$(sed -n 's/^# tests: //p' "$inputs")
    python=$(sh scripts/find-python.sh "$(sed -n 's/^# python: //p' "$inputs")") || { missing "a Python for $name"; continue; }
    # shellcheck disable=SC2086  # a list of paths
    CHATSNAPSHOT_RUNTIME=$name try ".venvs/$name" "runtimes/$name" "$python" -m "not faults and not browser" $tests
done
exit $failed
