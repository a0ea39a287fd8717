"""What fails withholds: nothing of the event is stored, raised or logged."""

from __future__ import annotations

import logging
import pickle
import traceback

import pytest

import chatsnapshot
from chatsnapshot.errors import InvalidEvent, MissingExtra
from chatsnapshot.limits import Limits
from chatsnapshot.redaction import Pattern, Redactor

SECRET = "the-value-that-must-not-show"


def record(redact, **options):
    with chatsnapshot.open("memory:", redact=redact, **options) as ledger:
        entry = ledger.record(
            "a.b",
            {"x": SECRET},
            correlation_id="c",
            attributes={"actor": SECRET, "n": 3, "ok": True, "trace_id": "0" * 32, "span_id": SECRET},
            source={"origin": "agent", "runtime": "r", "name": SECRET},
        )
        return entry, ledger.redactor


def wrong_type(event):
    return 7


def unknown_key(event):
    return {"event_id": "x"}


def no_payload(event):
    return {"payload": [SECRET]}


def bad_attribute(event):
    event["attributes"]["Bad Key"] = SECRET


def nested_attribute(event):
    event["attributes"]["x"] = {"y": SECRET}


def bad_name(event):
    event["source_name"] = SECRET + "\n"


def bad_value(event):
    event["payload"]["x"] = object()


def surrogate(event):
    event["payload"]["x"] = "\ud800"


def taken_away(event):
    event.clear()


def too_deep(event):
    value: dict = {}
    for _ in range(5_000):
        value = {"d": value}
    event["payload"] = value


def too_large(event):
    event["payload"]["x"] = "x" * 9_000_000


def raising(event):
    raise ValueError(event["payload"]["x"])


def recursing(event):
    return recursing(event)


HOOKS = [
    wrong_type, unknown_key, no_payload, bad_attribute, nested_attribute, bad_name, bad_value, surrogate, taken_away,
    too_deep, too_large, raising, recursing,
]  # fmt: skip


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
def test_a_hook_that_fails_or_leaves_nonsense_withholds_the_event(hook, caplog):
    with caplog.at_level(logging.WARNING, "chatsnapshot.redaction"):
        entry, redactor = record(hook)
    assert entry.payload == {"$withheld": "redaction failed"}
    assert entry.attributes == {"n": 3, "ok": True, "trace_id": "0" * 32}
    assert (entry.source.name, entry.source.runtime) == (None, "r")
    assert redactor.withheld == 1
    assert SECRET not in caplog.text and "redaction failed with" in caplog.text


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
def test_errors_raise_tells_no_value_anywhere(hook):
    with pytest.raises(InvalidEvent) as caught:
        record(hook, redact_errors="raise")
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert SECRET not in "".join(traceback.format_exception(caught.value)).replace(repr({"x": SECRET}), "")
    assert SECRET not in str(caught.value)


def test_it_is_logged_once_and_counted_each_time(caplog):
    with (
        caplog.at_level(logging.WARNING, "chatsnapshot.redaction"),
        chatsnapshot.open("memory:", redact=raising) as ledger,
    ):
        for n in range(3):
            ledger.record("a.b", {"x": n}, correlation_id="c")
        assert ledger.redactor.withheld == 3
    assert len([one for one in caplog.records if one.name == "chatsnapshot.redaction"]) == 1


def test_each_ledger_counts_its_own_failures():
    with (
        chatsnapshot.open("memory:", redact="secrets") as one,
        chatsnapshot.open("memory:", redact="secrets") as two,
    ):
        assert one.redactor is not two.redactor


def test_an_interrupt_passes_through():
    def interrupted(event):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        record(interrupted)


def test_a_pattern_that_backtracks_is_stopped_and_withholds():
    redactor = Redactor([Pattern("slow", r"(a+)+$")], names=False)
    with chatsnapshot.open("memory:", redact=redactor, limits=Limits(redaction_ms_max=20)) as ledger:
        entry = ledger.record("a.b", {"x": "a" * 5_000 + "!"}, correlation_id="c")
        assert entry.payload == {"$withheld": "redaction failed"}
        assert ledger.record("a.b", {"x": "fine"}, correlation_id="c").payload == {"x": "fine"}
        assert redactor.withheld == 1


def test_a_pattern_of_ones_own_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "regex", None)
    with pytest.raises(MissingExtra, match=r"chatsnapshot\[redaction\]"):
        Redactor([Pattern("mine", "a-pattern-not-made-before")])


def test_what_a_hook_keeps_and_changes_later_changes_nothing():
    kept = []

    def keeping(event):
        kept.append(event)

    with chatsnapshot.open("memory:", redact=keeping) as ledger:
        entry = ledger.record("a.b", {"x": [1]}, correlation_id="c")
        kept[0]["payload"]["x"].append(2)
        assert ledger.get(entry.event_id).payload == {"x": [1]}


def test_a_hook_changes_in_place_or_gives_back_and_patterns_come_after():
    def in_place(event):
        event["payload"]["x"] = "password=hunter2"
        event["attributes"]["seen"] = True

    def given_back(event):
        return {"source_name": "someone"}

    with chatsnapshot.open("memory:", redact=[in_place, given_back, "secrets"]) as ledger:
        entry = ledger.record("a.b", {"x": 1}, correlation_id="c")
    assert entry.payload == {"x": "password=[redacted:password]"}
    assert entry.attributes == {"seen": True} and entry.source.name == "someone"


def test_a_hook_leaves_tags_of_values_as_they_are():
    def looking(event):
        event["payload"]["new"] = 1

    with chatsnapshot.open("memory:", redact=looking) as ledger:
        entry = ledger.record("a.b", {"t": (1, 2), "$own": 1, "b": b"x" * 50_000}, correlation_id="c")
        assert entry.value() == {"t": (1, 2), "$own": 1, "b": b"x" * 50_000, "new": 1}
        assert ledger.verify().ok


@pytest.mark.parametrize("redact", ["secret", 7, {"a": 1}, [7], Redactor])
def test_what_is_no_redactor_is_refused_without_showing_it(redact):
    with pytest.raises(InvalidEvent, match="redact is None"):
        chatsnapshot.open("memory:", redact=redact)


def test_redact_errors_is_checked_when_the_ledger_is_opened():
    with pytest.raises(InvalidEvent, match="redact_errors is one of withhold, raise"):
        chatsnapshot.open("memory:", redact_errors="ignore")


def test_a_redactor_pickles_with_its_rules_key_and_hooks():
    redactor = Redactor(rules={"payload.x": "hash"}, hooks=[wrong_type], errors="raise", hash_key=b"k" * 16)
    again = pickle.loads(pickle.dumps(redactor))
    assert again.rules.given == redactor.rules.given and again.hooks == redactor.hooks
    assert (again.errors, again._hash_key, again.patterns) == ("raise", b"k" * 16, redactor.patterns)
