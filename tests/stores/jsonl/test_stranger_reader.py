"""A verifier written from the format page alone takes real JSONL ledgers, and finds what is done to them."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot import EventEnvelope, Ledger, Source
from chatsnapshot.limits import Limits

Open = Callable[..., Ledger]
Event = Callable[..., dict[str, Any]]


def read(path: Path) -> list[str]:
    """Size and root, or ``["wrong:", …]``."""
    script = Path(__file__).with_name("stranger_reader.py")
    done = subprocess.run([sys.executable, script, path], capture_output=True, text=True, timeout=60)
    assert done.returncode == (3 if done.stdout.startswith("wrong") else 0), done.stderr
    return done.stdout.split()


@pytest.fixture
def filled(path: Path, opened: Open, event: Event) -> Ledger:
    """Entries of every kind in several segments."""
    ledger = opened(limits=Limits(segment_bytes_max=6_000))
    first = ledger.record(**event(1, attributes={"actor": 'Zoë "Z"', "links": ["a"]}, schema_version=2))
    ledger.record_many([event(number, f"run {number % 3} \\ 🦜") for number in range(2, 22)])
    ledger.record("execution.output", {"data": b"x" * 50_000}, correlation_id="run-1", causation_id=first)
    ledger.record(
        EventEnvelope(
            event_id="0199c4d2-7f3a-7b21-8c55-1f0e2d3c4b5a",
            event_type="execution.message",
            timestamp="2026-11-30T02:26:03.123456Z",
            source=Source("ui", name="Zoë"),
            correlation_id="run-1",
            payload_json=b'{\r\n "a": [1.50,\n 2]\n}',
        )
    )
    ledger.erase([3, 22, 23], reason="asked")
    return ledger


def test_it_finds_the_size_and_root_that_verify_finds(path: Path, filled: Ledger) -> None:
    assert Path(f"{path}.000002").exists()
    assert read(path) == [str(filled.head), filled.verify().root]


def test_it_leaves_a_torn_tail_out(path: Path, opened: Open, event: Event) -> None:
    ledger = opened()
    ledger.record(**event(1))
    known = [str(ledger.head), ledger.verify().root]
    ledger.record_many([event(2), event(3)])
    data = path.read_bytes()
    for cut in range(len(data) - 600, len(data), 37):
        path.write_bytes(data[:cut])
        assert read(path) == known


def test_it_finds_changed_bytes(path: Path, filled: Ledger, seeded: random.Random) -> None:
    data = path.read_bytes()
    known = read(path)
    missed = 0
    for _ in range(40):
        changed = bytearray(data)
        changed[seeded.randrange(len(data))] ^= 1 << seeded.randrange(7)
        path.write_bytes(changed)
        found = read(path)
        missed += found == known
        assert found == known or found[0] == "wrong:"
    assert missed <= 2, "only spare bits of base64 say nothing"
