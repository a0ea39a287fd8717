#!/bin/sh
# Run the tests where one environment is not enough: every supported Python, the oldest dependencies that
# pyproject.toml admits, and every agent runtime that has a requirements/runtimes/NAME.in.
# What is missing is a failure in CI and a skip with its reason elsewhere. JOBS environments at a time (4): while one is
# installed, which waits much, others are tested, each in one process, which imports its runtime once.
set -u
cd "$(dirname "$0")/.."
export PYTHONDONTWRITEBYTECODE= # thousands of processes are started: each would compile its modules anew
now() { date +%s; }

# On each other Python: what depends on it. Values and their representations, threads, asyncio, fork and exit, the command
# line as a process; at both ends (3.10 with the oldest dependencies, and the newest) files, locks and the promises of the
# stores in files too. What computes on entries that were read is the same on each, and make test has it on one.
# On 3.10 the oldest dependencies have the core; the newest are asked there whether values and processes are as elsewhere.
light="tests/values tests/events tests/core/test_exit.py tests/core/test_asyncio.py tests/cli/test_processes.py"
brief="tests/core tests/values tests/events tests/cli/test_processes.py"
core="$brief tests/integrity tests/kinds tests/stores/jsonl tests/cli/test_record.py tests/cli/test_terminal.py
    tests/conformance/test_stores.py
    --ignore=tests/integrity/test_stranger_verifier.py --ignore=tests/kinds/test_size.py
    --ignore=tests/stores/jsonl/test_torn_tails.py --ignore=tests/stores/jsonl/test_power_loss.py"

# `test-runtimes.sh one FOLDER SET PYTHON`: set up and test one environment; what it says comes at its end, at once.
one() {
    folder=$1 set_name=$2 python=$3 begun=$(now) outcome=FAILED
    if sh scripts/environment.sh "$folder" "$set_name" "$python"; then
        ready=$(now)
        case $set_name in
            core | lowest)
                export CHATSNAPSHOT_TEST_PROFILE=short
                case $folder in
                    */py3.10) tests=$light ;;
                    */py3.13 | */lowest) tests=$core ;;
                    *) tests=$brief ;;
                esac
                set -- -k "not on_a_server and not any_history"
                ;;
            *)
                name=${set_name#runtimes/}
                export CHATSNAPSHOT_RUNTIME="$name"
                tests=$(sed -n 's/^# tests: //p' "requirements/runtimes/$name.in")
                set -- -m "not faults and not browser" -k "not mongodb"
                ;;
        esac
        # shellcheck disable=SC2086  # a list of paths
        "$folder/bin/python" scripts/compiles.py && "$folder/bin/python" -m pytest -q "$@" $tests && outcome=passed
        echo "== $folder: $outcome, set up in $((ready - begun)) s, tested in $(($(now) - ready)) s"
    elif [ "${CI:-}" = true ]; then
        echo "== $folder: FAILED, it could not be set up"
    else
        outcome=skipped
        echo "== $folder: skipped, it could not be set up"
    fi
    [ "$outcome" != FAILED ]
}

if [ "${1:-}" = one ]; then
    shift
    said=$(mktemp)
    one "$@" >"$said" 2>&1
    status=$?
    cat "$said"
    rm -f "$said"
    exit "$status"
fi

failed=0
missing() {
    if [ "${CI:-}" = true ]; then
        echo "FAILED: $1 was not found"
        failed=1
    else
        echo "SKIPPED: $1 was not found"
    fi
}

# A line each, FOLDER SET PYTHON: those that take longest first.
environments=$(mktemp)
trap 'rm -f "$environments"' EXIT
add() { # FOLDER SET VERSION
    if python=$(sh scripts/find-python.sh "$3" 2>/dev/null); then
        echo "$1 $2 $python" >>"$environments"
    else
        missing "Python $3, for $1,"
    fi
}
usual=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true)
add .venvs/lowest lowest 3.10
for version in 3.13 3.12 3.11; do
    [ "$version" = "$usual" ] || add ".venvs/py$version" core "$version"
done
for inputs in requirements/runtimes/*.in; do
    [ -f "$inputs" ] || continue
    name=$(basename "$inputs" .in)
    add ".venvs/$name" "runtimes/$name" "$(sed -n 's/^# python: //p' "$inputs")"
done
[ "$usual" = 3.10 ] || add .venvs/py3.10 core 3.10
[ -z "$usual" ] || echo "== Python $usual: tested by make test"

begun=$(now)
xargs -P "${JOBS:-4}" -L 1 sh scripts/test-runtimes.sh one <"$environments" || failed=1
echo "== all in $(($(now) - begun)) s"
exit $failed
