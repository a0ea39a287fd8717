"""What the server computes is what every other store computes; what is sent is what arrives."""

from __future__ import annotations

import hashlib
import itertools
import random
from typing import Any

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.integrity import Tree
from chatsnapshot.stores.postgresql.arrays import (
    BytesArray,
    IntArray,
    LongArray,
    TextArray,
    UuidArray,
    register,
)
from chatsnapshot.testing.bench import Bench


def test_the_tree_of_the_server_is_the_tree_of_the_others_also_when_tiles_of_tiles_are_full(
    ledger: Ledger, database: str, tools: Any
) -> None:
    tree, frontier, size = Tree(), b"", 0
    leaves = [hashlib.sha256(str(number).encode()).digest() for number in range(256)]
    with tools.connect(database) as connection:
        connection.execute("SET chatsnapshot.writing = 'on'")
        tiles = []
        for _ in range(258):
            frontier = connection.execute(
                "SELECT chatsnapshot.grow(1, %s, %b, %b)", (size, frontier, b"".join(leaves)), binary=True
            ).fetchone()[0]
            tiles += tree.extend(leaves)
            size += 256
            assert (size, frontier) == tree.head()
        stored = connection.execute(
            "SELECT level, number, hashes FROM chatsnapshot.tile ORDER BY level, number", binary=True
        ).fetchall()
        edges = connection.execute(
            "SELECT level, length(hashes) FROM chatsnapshot.edge ORDER BY level"
        ).fetchall()
    assert [(level, number, bytes(data)) for level, number, data in stored] == sorted(
        tuple(tile) for tile in tiles
    )
    assert edges == [(1, 2 * 32), (2, 1 * 32)]


def test_batches_of_every_size_grow_the_tree_as_in_memory(database: str, seeded: random.Random) -> None:
    ticks = itertools.count(1_800_000_000_000_000_000, 1_000_000)
    made = []
    sizes = [1, 1, 2, 3, 255, 1, 1, 250, 7, 1, 512, *(seeded.randint(1, 40) for _ in range(25))]
    for url in (database, "memory:"):
        ticks = itertools.count(1_800_000_000_000_000_000, 1_000_000)
        noise = random.Random(7)
        bench = Bench(url)
        number = 0
        with bench.open(url, clock=lambda ticks=ticks: next(ticks), entropy=noise.randbytes) as ledger:
            for size in sizes:
                batch = [
                    {
                        "event_type": "execution.message",
                        "correlation_id": f"run-{(number + one) % 3}",
                        "payload": {"role": "user", "content": str(number + one)},
                        "timestamp": "2026-01-01T00:00:00Z",
                        "event_id": f"00000000-0000-4000-8000-{number + one:012d}",
                    }
                    for one in range(size)
                ]
                ledger.record_many(batch) if size > 1 else ledger.record(**batch[0])
                number += size
            report = ledger.verify()
            assert report.ok, report.problems
            made.append((report.root, [entry._identity() for entry in ledger.read()]))
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("kind", "of", "values"),
    [
        (BytesArray, "bytea", [b"", b"\x00\xff" * 100, None, b"x"]),
        (TextArray, "text", ["", "läuft '\"\\%{}, NULL", None, "\U0010ffff"]),
        (IntArray, "integer", [0, 1, -1, 2**31 - 1, -(2**31)]),
        (LongArray, "bigint", [0, None, 2**63 - 1, -(2**63)]),
        (BytesArray, "bytea", []),
        (IntArray, "integer", []),
        (TextArray, "text", [None, None]),
    ],
    ids=["bytes", "text", "int", "long", "no bytes", "no ints", "nulls"],
)
def test_arrays_arrive_as_they_were_sent(
    database: str, tools: Any, kind: Any, of: str, values: list[Any]
) -> None:
    with tools.connect(database) as connection:
        register(connection)
        found = connection.execute(f"SELECT %s::{of}[]", (kind(values),), binary=True).fetchone()[0]
        assert found == values


def test_uuids_arrive_as_their_16_bytes(database: str, tools: Any) -> None:
    values = [bytes(range(16)), None, b"\xff" * 16]
    with tools.connect(database) as connection:
        register(connection)
        found = connection.execute("SELECT %s", (UuidArray(values),)).fetchone()[0]
    assert [one and one.bytes for one in found] == values


HOSTILE = [
    'a"b', "a\\", "\\", '","key":"other', '[{,]"', "a.b", "(x|y)", "\u0000 nul", "é\U0001f600", "%_", "]", "}", "x" * 500,
]  # fmt: skip


def test_filters_find_what_they_find_in_memory_whatever_the_texts(ledger: Ledger) -> None:
    given = []
    for number, text in enumerate(HOSTILE):
        given.append({"attributes": {"key": text, "other": "plain"}})
        given.append({"attributes": {"key": ["first", text, "last"], "number": number}})
        given.append({"attributes": {"other": text, "flag": bool(number % 2)}})
    given += [{"attributes": {"key": "1"}}, {"attributes": {"number": 11}}, {}]
    names = ["plain", 'quo"ted', "back\\slash", "agent\\"]
    with chatsnapshot.open("memory:") as memory:
        for one in (ledger, memory):
            for at, more in enumerate(given):
                source = {"origin": "agent", "runtime": "ag2", "name": names[at % len(names)]}
                one.record(
                    "execution.message",
                    {"role": "user", "content": "x"},
                    correlation_id="r",
                    source=source,
                    **more,
                )
        queries: list[dict[str, Any]] = [
            {"attributes": {"key": text}} for text in [*HOSTILE, "first", "1", "plai", "key"]
        ]
        queries += [{"attributes": {"other": text}} for text in HOSTILE]
        queries += [{"attributes": {"number": number}} for number in (0, 1, 11)]
        queries += [{"attributes": {"flag": flag}} for flag in (True, False)]
        queries += [{"attributes": {"key": "last", "number": 3}}, {"attributes": {"num": 1}}]
        queries += [{"name": name} for name in [*names, "agent", "slash"]]
        queries += [{"origin": "agent"}, {"origin": "ui"}, {"runtime": "ag2"}, {"runtime": "ag"}]
        for query in queries:
            wanted = [entry.position for entry in memory.read(**query)]
            assert [entry.position for entry in ledger.read(**query)] == wanted, query
        assert len(list(memory.read(attributes={"key": HOSTILE[0]}))) == 2
