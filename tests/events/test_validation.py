"""Validation: off, warn and strict; what fits, what is said of what does not, and what it costs the recorder."""

from __future__ import annotations

import datetime
import decimal
import logging
import sys
import threading
import uuid
from typing import Any

import msgspec
import pytest

import chatsnapshot
from chatsnapshot.errors import InvalidEvent
from chatsnapshot.events.registry import Schemas
from chatsnapshot.events.validation import Validator

MISFIT: dict[str, Any] = {"role": "user"}


class Order(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    total: float
    count: int = 1
    due: datetime.datetime | None = None
    tags: list[str] = []


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, "chatsnapshot.schemas")
    return caplog


def open_orders(mode: str = "strict") -> chatsnapshot.Ledger:
    return chatsnapshot.open("memory:", validation=mode, schemas={"order.placed": Order})


def test_warn_records_unchanged_logs_once_a_type_and_counts(warned: pytest.LogCaptureFixture) -> None:
    with open_orders("warn") as snapshot:
        for n in range(5):
            entry = snapshot.record("order.placed", {"name": "SECRET", "n": n}, correlation_id="a")
            assert entry.payload == {"name": "SECRET", "n": n}
        snapshot.record("execution.tool_call", {}, correlation_id="a")
        assert snapshot.validator.invalid == {"order.placed": 5, "execution.tool_call": 1}
    assert [record.args[0] for record in warned.records] == [  # type: ignore[index]
        "the payload of order.placed does not fit version 1 of its schema",
        "the payload of execution.tool_call does not fit version 1 of its schema",
    ]
    assert "SECRET" not in warned.text


def test_strict_stores_nothing_and_names_the_path() -> None:
    with open_orders() as snapshot:
        with pytest.raises(InvalidEvent, match=r"order\.placed does not fit version 1") as caught:
            snapshot.record("order.placed", {"name": "x", "total": 1, "tags": ["a", 7]}, correlation_id="a")
        assert caught.value.path == "$.tags[1]"
        assert snapshot.head == 0


def test_strict_refuses_a_whole_batch_and_names_the_event_by_its_index() -> None:
    good = {"event_type": "order.placed", "payload": {"name": "x", "total": 1}, "correlation_id": "a"}
    with open_orders() as snapshot:
        with pytest.raises(InvalidEvent, match=r"^event 1 of the batch: .* at \$.total: expected `float`"):
            snapshot.record_many([good, {**good, "payload": {"name": "x", "total": "SECRET"}}, good])
        assert snapshot.head == 0
        assert len(snapshot.record_many([good, good])) == 2


def test_strict_looks_at_complete_envelopes_too() -> None:
    with open_orders("off") as source:
        event = source.record("order.placed", {"name": 1}, correlation_id="a").event
    with open_orders() as snapshot, pytest.raises(InvalidEvent):
        snapshot.record(event)


def test_off_looks_at_nothing() -> None:
    with open_orders("off") as snapshot:
        snapshot.record("order.placed", {}, correlation_id="a")
        assert snapshot.validator.invalid == {}


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(InvalidEvent, match="validation is one of off, warn, strict, not 'loud'"):
        chatsnapshot.open("memory:", validation="loud")


def test_a_type_without_a_schema_passes() -> None:
    with open_orders() as snapshot:
        snapshot.record("order.lost", {"any": "thing"}, correlation_id="a", schema_version=9)


@pytest.mark.parametrize("version", [2, 7])
def test_a_version_without_a_schema_does_not_fit(version: int) -> None:
    with (
        open_orders() as snapshot,
        pytest.raises(InvalidEvent, match=rf"unknown version {version} of order.placed \(known: 1\)"),
    ):
        snapshot.record("order.placed", {"name": "x", "total": 1}, correlation_id="a", schema_version=version)
    validator = Validator("warn", {"order.placed": Order})
    validator.check("order.placed", version, b"{}")
    assert validator.invalid == {"order.placed": 1}


def test_each_version_is_held_against_its_own_schema() -> None:
    class Second(msgspec.Struct):
        currency: str

    validator = Validator("strict", [{"order.placed": Order}, {"order.placed:2": Second}])
    validator.check("order.placed", None, b'{"name":"x","total":1}')
    validator.check("order.placed", 1, b'{"name":"x","total":1}')
    validator.check("order.placed", 2, b'{"currency":"EUR"}')
    with pytest.raises(InvalidEvent, match="version 2"):
        validator.check("order.placed", 2, b'{"name":"x","total":1}')


def test_a_version_that_an_upcaster_starts_from_is_known() -> None:
    schemas = Schemas({"order.placed:2": Order})
    schemas.upcaster("order.placed", 1)(lambda payload: payload)
    Validator("strict", schemas).check("order.placed", 1, b'{"anything":1}')


@pytest.mark.parametrize(
    "payload",
    [
        {"name": "x", "total": decimal.Decimal("1.10")},
        {"name": "x", "total": 1, "due": datetime.datetime(2026, 11, 30, tzinfo=datetime.timezone.utc)},
        {"name": uuid.UUID(int=1), "total": 1},
        {"name": "x", "total": 1, "tags": ("a", "b")},
        {"name": "x" * 300_000, "total": 1},
        {"name": "x", "total": 1, "tags": ["x" * 300_000, "b"]},
        {"name": "x", "total": 1, "count": 3.0},
        Order("x", 1.5),
    ],
    ids=["decimal", "datetime", "uuid", "tuple", "blob", "blob in a list", "whole float", "the class"],
)
def test_values_with_tags_fit_as_what_they_stand_for(payload: Any) -> None:
    with open_orders() as snapshot:
        snapshot.record("order.placed", payload, correlation_id="a")


@pytest.mark.parametrize(
    "payload",
    [
        {"name": decimal.Decimal(1), "total": "x"},
        {"name": "x" * 300_000, "total": "x"},
        {"name": "x", "total": 1, "tags": {1, 2}},
        {"name": "x", "total": 1, "count": 3.5},
        {"name": "x", "total": datetime.date(2026, 1, 1)},
    ],
)
def test_tags_do_not_excuse_what_else_does_not_fit(payload: Any) -> None:
    with open_orders() as snapshot, pytest.raises(InvalidEvent):
        snapshot.record("order.placed", payload, correlation_id="a")


@pytest.mark.parametrize("mark", ["$blob", "$json", "$withheld", "$erased"])
def test_a_payload_that_is_wholly_elsewhere_passes(mark: str) -> None:
    validator = Validator("strict", {"order.placed": Order})
    validator.check("order.placed", None, msgspec.json.encode({mark: "x"}))
    validator.check("order.placed", 9, msgspec.json.encode({mark: "x"}))
    with pytest.raises(InvalidEvent):
        validator.check("order.placed", None, msgspec.json.encode({f"${mark}": "x"}))  # the caller's own key


def test_a_payload_above_the_limit_passes_as_a_blob() -> None:
    limits = chatsnapshot.Limits(payload_bytes_max=1_000)
    with chatsnapshot.open(
        "memory:", validation="strict", limits=limits, schemas={"order.placed": Order}
    ) as snapshot:
        entry = snapshot.record(
            "order.placed", {"name": "x", "total": 1, "tags": ["y"] * 1_000}, correlation_id="a"
        )
        assert "$blob" in entry.payload


def test_a_class_that_raises_says_so_and_not_with_what() -> None:
    class Picky(msgspec.Struct):
        name: str

        def __post_init__(self) -> None:
            raise ValueError(f"not {self.name}")

    with pytest.raises(InvalidEvent, match=r"the class raised ValueError$"):
        Validator("strict", {"order.placed": Picky}).check("order.placed", None, b'{"name":"SECRET"}')


@pytest.mark.parametrize("payload", [b"{", b"[]", b"\xff", b'{"a":' * 5_000 + b"1" + b"}" * 5_000])
def test_bytes_that_are_no_payload_do_not_fit_and_nothing_else_is_raised(payload: bytes) -> None:
    validator = Validator("warn", {"order.placed": Order})
    validator.check("order.placed", None, payload)
    assert validator.invalid == {"order.placed": 1}


def test_counting_is_exact_with_many_threads(warned: pytest.LogCaptureFixture) -> None:
    validator = Validator("warn")

    def record() -> None:
        for _ in range(200):
            validator.check("execution.tool_call", None, b"{}")

    threads = [threading.Thread(target=record) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert validator.invalid == {"execution.tool_call": 1_600}
    assert len(warned.records) == 1


def test_two_ledgers_do_not_share_what_is_registered() -> None:
    with chatsnapshot.open("memory:") as first, chatsnapshot.open("memory:") as second:
        first.validator.schemas.register("order.placed", Order)
        assert second.validator.schemas.get("order.placed") is None


def test_what_is_registered_while_open_counts_from_then_on() -> None:
    with chatsnapshot.open("memory:", validation="strict") as snapshot:
        snapshot.record("order.placed", {}, correlation_id="a")
        snapshot.validator.schemas.register("order.placed", Order)
        with pytest.raises(InvalidEvent):
            snapshot.record("order.placed", {}, correlation_id="a")


def test_the_usual_check_of_a_message_decodes_it_once_and_little_more() -> None:
    """Counted in calls, not in time: one decode, no slow way, no lock."""
    validator = Validator()
    payload = b'{"role":"user","content":"Hello"}'
    for _ in range(2):  # the first loads the schemas, the second makes the decoder
        validator.check("execution.message", None, payload)
    calls: list[str] = []

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            calls.append(frame.f_code.co_name if event == "call" else argument.__name__)

    sys.setprofile(profile)
    try:
        validator.check("execution.message", None, payload)
    finally:
        sys.setprofile(None)
    assert [name for name in calls if name != "setprofile"] == ["check", "get", "accept", "decode"]


def test_verify_lists_what_does_not_fit_and_stays_ok() -> None:
    with open_orders("off") as snapshot:
        snapshot.record("order.placed", {"name": "x", "total": 1}, correlation_id="a")
        snapshot.record("order.placed", {"name": 7}, correlation_id="a")
        erased = snapshot.record("order.placed", {"name": 7}, correlation_id="a")
        snapshot.erase(erased.position, reason="asked")
        report = snapshot.verify(schemas=True)
        assert report.ok
        assert report.misfits is not None
        (found,) = report.misfits.listed
        assert (found.position, found.event_type, found.version, found.path) == (
            2,
            "order.placed",
            1,
            "$.name",
        )
        assert (report.misfits.count, report.misfits.erased) == (1, 1)
        assert snapshot.verify().misfits is None
        other = snapshot.verify(schemas={"order.placed": {"type": "object"}}).misfits
        assert other is not None
        assert other.count == 0


def test_the_list_of_misfits_is_bounded_and_the_count_is_not() -> None:
    with open_orders("off") as snapshot:
        snapshot.record_many([{"event_type": "order.placed", "correlation_id": "a"}] * 1_500)
        misfits = snapshot.verify(schemas=True).misfits
        assert misfits is not None
        assert (misfits.count, len(misfits.listed)) == (1_500, 1_000)
