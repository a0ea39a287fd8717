"""Our own stores pass the whole suite that we give to others, those on servers with fewer rounds of races."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from chatsnapshot.testing.conformance import Bench, Check, checks

FILES = {"memory": "memory:", "sqlite": "runs.db", "jsonl": "runs.jsonl"}
SERVERS = ("postgresql", "mongodb", "nats", "http")
IMPATIENT = {
    "postgresql": "connect_timeout=3",
    "mongodb": "socketTimeoutMS=3000&serverSelectionTimeoutMS=3000",
    "nats": "timeout=4",
    "http": "timeout=3",
}
"""Options of URLs for the checks with a server in between, where a client waits for what does not come."""

THOROUGH = 0.2
"""Of the rounds of races, where each takes a server; `make status` runs all."""

OF_FILES = [(store, check) for store in FILES for check in checks() if "server" not in check.needs]
OF_SERVERS = [
    pytest.param(store, check, id=f"{check.name}-{store}") for store in SERVERS for check in checks()
]


def judge(bench: Bench, store: str, check: Check) -> None:
    result = check.run(bench)
    if result.status in ("not claimed", "skipped"):
        pytest.skip(f"{store}: {result.status} {result.detail}")
    assert result.status == "passed", result.detail


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Bench]]:
    made = {}
    for name, url in FILES.items():
        place = url if name == "memory" else str(tmp_path_factory.mktemp(name) / url)
        made[name] = Bench(place, seed=7).__enter__()
    yield made
    for bench in made.values():
        bench.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("store", "check"), OF_FILES, ids=[f"{check.name}-{store}" for store, check in OF_FILES]
)
def test_a_store_does_what_the_suite_asks(benches: dict[str, Bench], store: str, check: Check) -> None:
    judge(benches[store], store, check)


def with_options(url: str, options: str) -> str:
    """The URL with further options; one that it has already stays as it is."""
    have = url.partition("?")[2]
    more = [one for one in options.split("&") if f"{one.partition('=')[0]}=" not in have]
    return "&".join([url, *more]) if have else "?".join([url, "&".join(more)])


@pytest.fixture(scope="module")
def server_benches(servers: Callable[[str], Any]) -> Iterator[Callable[[str, bool], Bench | Exception]]:
    """``server_benches("nats", impatient)``: a bench on the server of this process, made when it is asked for."""
    made: dict[tuple[str, bool], Bench] = {}

    def bench(kind: str, impatient: bool) -> Bench | Exception:
        server = servers(kind)
        if isinstance(server, Exception):
            return server
        if (kind, impatient) not in made:
            url = with_options(server.url, IMPATIENT[kind]) if impatient else server.url
            made[kind, impatient] = Bench(url, seed=7, thorough=THOROUGH, server=server)
        return made[kind, impatient]

    yield bench
    for one in made.values():
        one.close()


@pytest.mark.parametrize(("store", "check"), OF_SERVERS)
def test_a_store_on_a_server_does_what_the_suite_asks(
    server_benches: Callable[[str, bool], Bench | Exception],
    require: Callable[[object, str], None],
    store: str,
    check: Check,
) -> None:
    bench = server_benches(store, "server" in check.needs)
    require(isinstance(bench, Bench), f"a {store} server ({bench})")
    assert isinstance(bench, Bench)
    judge(bench, store, check)
