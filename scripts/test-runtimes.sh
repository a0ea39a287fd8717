#!/bin/sh
# Run the tests where one environment is not enough: every supported Python, the oldest dependencies that
# pyproject.toml admits, and every agent runtime that has a requirements/runtimes/NAME.in.
# What is missing is a failure in CI and a skip with its reason elsewhere. JOBS tests at a time (2), and JOBS environments
# are set up at a time, all before the tests begin: pip waits much, and uses one processor.
set -u
cd "$(dirname "$0")/.."
failed=0
jobs=${JOBS:-2}

missing() {
    if [ "${CI:-}" = true ]; then
        echo "FAILED: $1"
        failed=1
    else
        echo "SKIPPED: $1"
    fi
}

now() { date +%s; }

# try FOLDER SET PYTHON PYTEST-ARGUMENT...
try() {
    folder=$1 set_name=$2 python=$3 begun=$(now)
    shift 3
    echo "== $folder: $set_name"
    if sh scripts/environment.sh "$folder" "$set_name" "$python"; then
        ready=$(now)
        "$folder/bin/python" scripts/compiles.py || { echo "FAILED: $folder"; failed=1; }
        "$folder/bin/python" -m pytest -q -n "$jobs" --dist loadgroup "$@" || { echo "FAILED: $folder"; failed=1; }
        echo "== $folder: set up in $((ready - begun)) s, tested in $(($(now) - ready)) s"
    else
        missing "$folder could not be set up"
    fi
}

# On each other Python: what depends on it. Values and their representations, threads, asyncio, fork and exit, the command
# line as a process; at both ends (3.10 with the oldest dependencies, and the newest) files, locks and the promises of the
# stores in files too. What computes on entries that were read is the same on each, and make test has it on one.
brief="tests/core tests/values tests/events tests/cli/test_processes.py"
core="$brief tests/integrity tests/kinds tests/stores/jsonl tests/cli/test_record.py tests/cli/test_terminal.py
    tests/conformance/test_stores.py
    --ignore=tests/integrity/test_stranger_verifier.py --ignore=tests/kinds/test_size.py
    --ignore=tests/stores/jsonl/test_torn_tails.py --ignore=tests/stores/jsonl/test_power_loss.py"

# The environments, a line each: FOLDER SET PYTHON.
environments=$(mktemp)
trap 'rm -f "$environments"' EXIT
usual=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true)
for version in 3.10 3.11 3.12 3.13; do
    [ "$version" = "$usual" ] && continue
    python=$(sh scripts/find-python.sh "$version" 2>/dev/null) && echo ".venvs/py$version core $python"
done >>"$environments"
python=$(sh scripts/find-python.sh 3.10 2>/dev/null) && echo ".venvs/lowest lowest $python" >>"$environments"
for inputs in requirements/runtimes/*.in; do
    [ -f "$inputs" ] || continue
    name=$(basename "$inputs" .in)
    python=$(sh scripts/find-python.sh "$(sed -n 's/^# python: //p' "$inputs")" 2>/dev/null) &&
        echo ".venvs/$name runtimes/$name $python"
done >>"$environments"
begun=$(now)
# One that fails is tried again when its turn has come, and then said.
xargs -P "$jobs" -L 1 sh scripts/environment.sh <"$environments" || true
echo "== environments set up in $(($(now) - begun)) s"

python_of() { sed -n "s|^$1 [^ ]* ||p" "$environments"; }

core() {
    CHATSNAPSHOT_TEST_PROFILE=short try "$@" -k "not on_a_server and not any_history"
}

for version in 3.10 3.11 3.12 3.13; do
    if [ "$version" = "$usual" ]; then
        echo "== Python $version: tested by make test"
    elif python=$(python_of ".venvs/py$version") && [ -n "$python" ]; then
        [ "$version" = 3.13 ] && tests=$core || tests=$brief
        # shellcheck disable=SC2086  # a list of paths
        core ".venvs/py$version" core "$python" $tests
    else
        missing "Python $version was not found"
    fi
done

python=$(python_of .venvs/lowest)
if [ -n "$python" ]; then
    # shellcheck disable=SC2086  # a list of paths
    core .venvs/lowest lowest "$python" $core
else
    missing "Python 3.10, for the oldest dependencies, was not found"
fi

for inputs in requirements/runtimes/*.in; do
    [ -f "$inputs" ] || continue
    name=$(basename "$inputs" .in)
    tests=$(sed -n 's/^# tests: //p' "$inputs")
    python=$(python_of ".venvs/$name")
    [ -n "$python" ] || { missing "a Python for $name"; continue; }
    # shellcheck disable=SC2086  # a list of paths
    CHATSNAPSHOT_RUNTIME=$name try ".venvs/$name" "runtimes/$name" "$python" -m "not faults and not browser" \
        -k "not mongodb" $tests
done
exit $failed
