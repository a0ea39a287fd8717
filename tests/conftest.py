"""What every test may rely on: the hypothesis profile, one printed seed, the rule for what is missing."""

from __future__ import annotations

import gc
import importlib
import os
import random
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import hypothesis
import pytest

from chatsnapshot.errors import LedgerError

IN_CI = os.environ.get("CI") == "true"
SEED = int(os.environ.get("CHATSNAPSHOT_TEST_SEED") or random.SystemRandom().randrange(2**32))
os.environ["CHATSNAPSHOT_TEST_SEED"] = str(
    SEED
)  # the workers of pytest-xdist have that of the process that prints it

# In CI a property test draws the same examples each time: a failure belongs to the change it is shown on.
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True, database=None)
hypothesis.settings.register_profile("laptop", deadline=None, print_blob=True)
# For the further Pythons of make test-runtimes: the same examples have been tried more often on one of them.
hypothesis.settings.register_profile(
    "short", deadline=None, derandomize=True, print_blob=True, database=None, max_examples=20
)
PROFILE = os.environ.get("CHATSNAPSHOT_TEST_PROFILE") or ("ci" if IN_CI else "laptop")
hypothesis.settings.load_profile(PROFILE)


# Started in the background (`make test &`), a process ignores Ctrl-C, and so would every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


MEMORY = "/dev/shm"
MEMORY_BYTES_MIN = 4 * 2**30
"""Several times what the files of all tests take at a moment."""


def room_in_memory() -> bool:
    """Whether there is a file system in memory with that much room, from which programs may be run."""
    try:
        about = os.statvfs(MEMORY)
    except (OSError, AttributeError):
        return False
    room = about.f_bavail * about.f_frsize >= MEMORY_BYTES_MIN
    return room and not about.f_flag & os.ST_NOEXEC and os.access(MEMORY, os.W_OK | os.X_OK)


def pytest_configure(config: pytest.Config) -> None:
    """Keep files in memory where there is room, unless TMPDIR says where, or what a disk does is tested (faults).

    No other test depends on a disk: a kill takes nothing from a file system, and what lost power takes is played by our
    own layer below the files. Each of many thousand fsyncs would wait for one.
    """
    if "TMPDIR" not in os.environ and config.option.markexpr != "faults" and room_in_memory():
        os.environ["TMPDIR"] = tempfile.tempdir = MEMORY  # that of the workers and of every process too


FIRST = ("conformance", "stores", "server", "values")
"""The folders of tests that take longest: whoever is done early then has short ones left to take."""


def part_of(nodeid: str) -> str:
    """What stays on one worker of pytest-xdist: a file, so that what its tests share is made once.

    In the conformance of our stores it is a store, whose server is started once; of what is killed, each test.
    """
    file, _, name = nodeid.partition("::")
    if file.endswith("conformance/test_stores.py"):
        return name.rpartition("-")[2]
    if file.endswith("/test_cluster.py"):
        return "a cluster of NATS"  # one at a time
    return nodeid if "/faults/" in file else file


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first; without pytest-xdist this is an order like any other."""
    folders = [Path(__file__).parent / name for name in FIRST]

    def rank(item: pytest.Item) -> int:
        return next(
            (number for number, folder in enumerate(folders) if folder in item.path.parents), len(FIRST)
        )

    items.sort(key=rank)


def pytest_collection_finish() -> None:
    """What was imported stays: else each look for garbage, of which tests ask for many, looks through all of it."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give tests to workers by :func:`part_of`, in the order above."""
    from xdist.scheduler import LoadScopeScheduling

    class ByPart(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return part_of(nodeid)

    config.option.loadscopereorder = False
    return ByPart(config, log)


def pytest_report_header() -> str:
    """Print what is needed to repeat this run."""
    return (
        f"chatsnapshot: CHATSNAPSHOT_TEST_SEED={SEED}, hypothesis profile {PROFILE}, files in {gettempdir()}"
    )


@pytest.fixture(autouse=True)
def no_ledger_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test never opens the ledger that the person who runs it has set as a default."""
    for name in ("CHATSNAPSHOT_LEDGER", "CHATSNAPSHOT_KEYS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def no_terminal_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor has the terminal a say in what a command prints; pytest-xdist tells its workers one of 80 columns."""
    for name in ("COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def seeded(request: pytest.FixtureRequest) -> random.Random:
    """Chance that the printed seed repeats, independent of which other tests run."""
    return random.Random(f"{SEED} {request.node.nodeid}")


@pytest.fixture
def require() -> Callable[[object, str], None]:
    """``require(found, "a PostgreSQL server (start one with ...)")``: go on where `found` is true.

    Otherwise the test fails in CI, where nothing may be missing, and is skipped with the reason elsewhere.
    """

    def check(found: object, what: str) -> None:
        if found:
            return
        if IN_CI:
            pytest.fail(f"missing in CI: {what}")
        pytest.skip(f"missing here: {what}")

    return check


SERVERS = {
    "postgresql": "PostgresqlServer",
    "mongodb": "MongodbServer",
    "nats": "NatsServer",
    "http": "HttpServer",
}


@pytest.fixture(scope="session")
def servers() -> Iterator[Callable[[str], Any]]:
    """``servers("nats")``: a real server of that kind, started when it is first asked for, one a test process.

    It may be killed and started again by any test, so nothing is kept open on it from test to test. Gives an exception
    instead of a server when something is missing, for ``require``.
    """
    with ExitStack() as stack:
        known: dict[str, Any] = {}

        def server(kind: str) -> Any:
            if kind not in known:
                module = importlib.import_module(f"chatsnapshot.testing.servers.{kind}")
                try:
                    importlib.import_module(f"chatsnapshot.stores.{kind}.store")
                    known[kind] = stack.enter_context(getattr(module, SERVERS[kind])())
                except (ImportError, LedgerError) as error:
                    known[kind] = error
            return known[kind]

        yield server


@pytest.fixture
def shared_data() -> Path:
    """The folder of real input files beside the project; what needs it is skipped where it is absent."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no real input files beside the project (../shared/data)")
    return folder
