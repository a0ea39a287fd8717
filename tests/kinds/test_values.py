"""Values that break a record, come back changed, or make the output unreadable: on every store, alone and with others."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import pathlib
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.cli.main import cli


class Phase(enum.Enum):
    QUERY = "query"


@dataclasses.dataclass
class Step:
    phase: Phase
    at: datetime.datetime


class Client: ...


def cycle() -> dict[str, Any]:
    found: dict[str, Any] = {"usage": {"tokens": 3}}
    found["me"] = found
    return found


NOON = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.timezone.utc)

# Those with an exact form come back as they were.
EXACT: dict[str, Any] = {
    "time": NOON,
    "uuid": uuid.UUID(int=7),
    "set": {1, 2},
    "huge int": 10**40,
    "fraction": fractions.Fraction(1, 3),
    "complex": 1 - 2j,
    "range": range(3),
    "path": pathlib.PurePosixPath("/tmp/a"),
    "decimal": decimal.Decimal("1.10"),
    "infinity": float("inf"),
    "lone surrogate": "a\ud800b",
    "low surrogate": "\udcb2",
    "NUL": "a\x00b",
    "bytes": b"\x00\xff",
    "tuple": (1, (2,)),
    "other keys": {1: "a", "1": "b", None: "c"},
    "separators": "a\u2028b\u2029c\x85d\r\ne",
    "own tag": {"$type": "decimal", "value": "x"},
}
# Those without one become data.
OTHERS: dict[str, tuple[Callable[[], Any], Any]] = {
    "dataclass": (lambda: Step(Phase.QUERY, NOON), {"phase": "query", "at": NOON}),
    "class": (lambda: Client, {"$type": "class", "value": f"{__name__}.Client"}),
    "client": (Client, None),
    "cycle": (cycle, None),
    "generator": (lambda: (n for n in [1]), None),
}


def stored(ledger: Ledger, payload: dict[str, Any]) -> bytes:
    """The bytes that the ledger holds after recording, which must be strict JSON with the rest of the payload kept."""
    entry = ledger.record("a.b", payload, correlation_id="c")

    def refuse(constant: str) -> Any:
        raise AssertionError(f"not JSON: {constant}")

    found = json.loads(entry.event.to_json().decode("utf-8"), parse_constant=refuse)
    assert found["payload"]["before"] == {"tokens": 3}
    assert found["payload"]["after"] == "kept"
    (again,) = ledger.read(after=entry.position - 1)
    assert again.event.to_json() == entry.event.to_json()
    return again.event.to_json()


@pytest.mark.parametrize("name", [*EXACT, *OTHERS])
def test_a_value_harms_neither_its_event_nor_the_values_beside_it(ledger: Ledger, name: str) -> None:
    exact = name in EXACT
    value = EXACT[name] if exact else OTHERS[name][0]()
    expected = value if exact else OTHERS[name][1]
    for wrap in (lambda v: v, lambda v: [{"deep": (v, v)}]):
        payload = {"before": {"tokens": 3}, "value": wrap(value), "after": "kept"}
        stored(ledger, payload)
        (entry,) = ledger.read(after=ledger.head - 1)
        if expected is not None:
            assert entry.value()["value"] == wrap(expected)
    assert ledger.head == 2
    assert ledger.verify().ok


def test_every_store_holds_the_same_bytes_and_goes_on(tmp_path: pathlib.Path) -> None:
    event: dict[str, Any] = {
        "event_type": "a.b",
        "correlation_id": "c",
        "event_id": uuid.UUID(int=1),
        "timestamp": NOON,
    }
    payload = {**EXACT, **{name: make() for name, (make, _) in OTHERS.items()}}
    found = set()
    for url in ("memory:", tmp_path / "runs.db", tmp_path / "runs.jsonl"):
        with chatsnapshot.open(url) as ledger:
            ledger.record(**event, payload=payload)
            assert ledger.record("a.b", {"n": 2}, correlation_id="c").position == 2
            found.add(next(ledger.read()).event.to_json())
        if url != "memory:":
            with chatsnapshot.open(url, create=False) as ledger:
                found.add(next(ledger.read()).event.to_json())
                assert ledger.verify().ok
    assert len(found) == 1


@pytest.mark.parametrize("padding", [0, 2_000_000, 20_000_000], ids=["small", "inline", "moved out"])
def test_not_a_number_is_the_same_at_every_size(ledger: Ledger, padding: int) -> None:
    rows = ["x" * 1_000] * (padding // 1_000)
    entry = ledger.record("a.b", {"v": float("nan"), "w": [float("-inf")], "rows": rows}, correlation_id="c")
    value = entry.value()
    assert value["v"] != value["v"]
    assert value["w"] == [float("-inf")]
    assert value["rows"] == rows
    if "$blob" in entry.payload:
        rest = ledger.blob(entry.payload)
        assert rest.startswith(b'{"v":{"$type":"float","value":"NaN"},')
    else:
        assert b'{"v":{"$type":"float","value":"NaN"},' in entry.event.to_json()


def test_the_command_line_writes_strict_json_whatever_was_recorded(path: str) -> None:
    with chatsnapshot.open(path) as ledger:
        payload = {**EXACT, **{name: make() for name, (make, _) in OTHERS.items()}, "nan": float("nan")}
        for event_type in ("execution.run_started", "execution.message", "execution.tool_call", "a.b"):
            ledger.record(event_type, {"name": "a\ud800\x00", **payload}, correlation_id="c")
            ledger.record(event_type, {"content": payload, "arguments": payload}, correlation_id="c")

    def refuse(constant: str) -> Any:
        raise AssertionError(f"not JSON: {constant}")

    for arguments in (
        ("replay", "c", "--json"), ("runs", "--json"), ("timeline", "c", "--json"), ("transcript", "c", "--json"),
        ("show", "c", "--json"), ("stats", "--json"), ("verify", "--json"),
    ):  # fmt: skip
        done = CliRunner().invoke(cli, [*arguments, "--ledger", path])
        assert done.exit_code == 0, done.output
        for line in done.stdout_bytes.decode("utf-8").split("\n")[:-1]:
            json.loads(line, parse_constant=refuse)
