"""Each rule of the contract can fail: adapters and benches that break one of them are told so."""

from __future__ import annotations

import copy
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from chatsnapshot.adapters.observed import ObservedRun
from chatsnapshot.testing.adaptercontract import playing
from chatsnapshot.testing.adaptercontract.checking import RESUMING
from chatsnapshot.testing.adaptercontract.ledgers import LedgerAround
from chatsnapshot.testing.adapters import AdapterBench, CellResult, Outcome, Stage, cells
from chatsnapshot.testing.runtimes.custom import CustomBench, LoopRecorder

Event = dict[str, Any]
Events = list[Event]
Change = Callable[[Event], Events]


class ChangedLedger(LedgerAround):
    """Records what a function makes of each event: it stands for an adapter that makes it so."""

    def __init__(self, inner: Any, change: Change) -> None:
        super().__init__(inner)
        self.change = change

    def record_many(self, events: Any, /, **options: Any) -> Any:
        made = [one for event in events for one in self.change(copy.copy(event))]
        return super().record_many(made, **options) if made else []

    async def arecord_many(self, events: Any, /, **options: Any) -> Any:
        return self.record_many(events, **options)


def adapter_with(change: Callable[[], Change]) -> type[AdapterBench]:
    class Changed(CustomBench):
        def recorder(self, ledger: Any) -> LoopRecorder:
            return LoopRecorder(ChangedLedger(ledger, change()))

    return Changed


def of(event: Event, *kinds: str) -> bool:
    return event["event_type"].partition(".")[2] in kinds


def another(event: Event) -> Event:
    return {**event, "event_id": str(uuid.uuid4())}


def with_facts(event: Event, **facts: Any) -> Event:
    return {**event, "payload": {**event["payload"], **facts}}


def without(event: Event, *keys: str) -> Event:
    return {**event, "payload": {key: value for key, value in event["payload"].items() if key not in keys}}


def changing(*kinds: str, **facts: Any) -> Callable[[], Change]:
    return lambda: lambda event: [with_facts(event, **facts) if of(event, *kinds) else event]


def leaving_out(*kinds: str, keys: tuple[str, ...]) -> Callable[[], Change]:
    return lambda: lambda event: [without(event, *keys) if of(event, *kinds) else event]


def dropping(*kinds: str) -> Callable[[], Change]:
    return lambda: lambda event: [] if of(event, *kinds) else [event]


def doubling(*kinds: str) -> Callable[[], Change]:
    return lambda: lambda event: [event, another(event)] if of(event, *kinds) else [event]


def caused_by_the_start(*kinds: str) -> Callable[[], Change]:
    def make() -> Change:
        starts: list[str] = []

        def change(event: Event) -> Events:
            if of(event, "run_started"):
                starts.append(event["event_id"])
            return [{**event, "causation_id": starts[0]} if of(event, *kinds) and starts else event]

        return change

    return make


def after_its_end() -> Change:
    def change(event: Event) -> Events:
        late = {**another(event), "event_type": "execution.state_change"}
        return [event, with_facts(late, name="late")] if of(event, "run_completed") else [event]

    return change


def results_before_calls() -> Change:
    held: Events = []

    def change(event: Event) -> Events:
        if of(event, "tool_call"):
            held.append(event)
            return []
        if of(event, "tool_result"):
            calls, held[:] = list(held), []
            return [event, *calls]
        return [event]

    return change


def in_one_correlation() -> Change:
    return lambda event: [{**event, "correlation_id": "everything"}]


def in_another_correlation() -> Change:
    resumed: list[str] = []

    def change(event: Event) -> Events:
        if of(event, "run_resumed"):
            resumed.append(event["payload"]["run_id"])
        return [{**event, "correlation_id": "new"} if event["payload"]["run_id"] in resumed else event]

    return change


def new_ids() -> Change:
    return lambda event: [another(event)]


def no_ids() -> Change:
    return lambda event: [{key: value for key, value in event.items() if key != "event_id"}]


def caused_by_nothing_known() -> Change:
    return lambda event: [{**event, "causation_id": str(uuid.uuid4())} if of(event, "message") else event]


def failing_for_nothing() -> Change:
    def change(event: Event) -> Events:
        return [{**event, "event_type": "execution.run_failed"} if of(event, "run_completed") else event]

    return change


def completing_instead_of_pausing() -> Change:
    def change(event: Event) -> Events:
        return [{**event, "event_type": "execution.run_completed"} if of(event, "run_paused") else event]

    return change


def without_a_runtime() -> Change:
    return lambda event: [{**event, "source": {"origin": "agent", "runtime": "none"}}]


def of_no_parent() -> Change:
    return lambda event: [without(event, "parent_run_id") if of(event, "run_started") else event]


RUN = "every_event_says_its_run_its_agent_and_its_runtime"
CHILD = "a_child_run_is_caused_by_the_tool_call_of_its_parent"
HANDOFF = "a_handoff_names_who_gets_the_word_and_who_has_it_then"

CHANGES: list[tuple[str, Callable[[], Change], str, str]] = [
    # what the adapter does wrong, how, in which story, which rule says so
    ("says things twice", doubling("message"), "plain", "what_was_said_is_there_once_in_a_run"),
    ("says nothing", dropping("message"), "plain", "what_was_said_is_there_once_in_a_run"),
    (
        "has its own messages",
        leaving_out("message", keys=("parts",)),
        "plain",
        "every_message_has_a_role_and_parts",
    ),
    ("doubles model calls", doubling("model_call"), "parallel_tools", "every_call_of_the_model_is_told_once"),
    ("forgets model calls", dropping("model_call"), "plain", "every_call_of_the_model_is_told_once"),
    (
        "adds the tokens to each call",
        changing("model_call", usage={"input_tokens": 22, "output_tokens": 7}),
        "parallel_tools",
        "tokens_are_counted_once",
    ),
    ("forgets the end", dropping("run_completed"), "plain", "every_run_has_one_start_and_one_end"),
    ("ends twice", doubling("run_completed"), "plain", "every_run_has_one_start_and_one_end"),
    ("goes on after the end", after_its_end, "plain", "a_run_begins_with_its_start_and_ends_with_its_end"),
    ("invents causes", caused_by_nothing_known, "plain", "causes_are_in_the_ledger_before_their_effects"),
    (
        "records calls after results",
        results_before_calls,
        "parallel_tools",
        "a_message_comes_before_its_calls_and_a_call_before_its_result",
    ),
    ("fails for nothing", failing_for_nothing, "plain", "the_end_says_what_the_caller_saw"),
    (
        "forgets the answer",
        dropping("human_input_received"),
        "interruption",
        "a_person_is_asked_once_and_answers_once",
    ),
    (
        "asks twice",
        doubling("human_input_requested"),
        "interruption",
        "a_person_is_asked_once_and_answers_once",
    ),
    (
        "answers another question",
        changing("human_input_received", answers="another"),
        "interruption",
        "a_person_is_asked_once_and_answers_once",
    ),
    (
        "does not say how it ended",
        leaving_out("message", "run_completed", keys=("parts", "output")),
        "interruption",
        "a_run_ends_as_it_was_approved",
    ),
    ("completes what waits", completing_instead_of_pausing, "interruption", RESUMING),
    ("goes on for no reason", caused_by_the_start("run_resumed"), "interruption", RESUMING),
    ("begins a new conversation", in_another_correlation, "interruption", RESUMING),
    ("is no resumption", dropping("run_resumed"), "interruption", RESUMING),
    (
        "has two results of what was approved",
        doubling("tool_result"),
        "interruption",
        "a_call_that_waits_for_approval_has_its_result_after_it",
    ),
    (
        "has no run ids",
        leaving_out("message", keys=("run_id",)),
        "plain",
        RUN,
    ),
    ("has no agents", leaving_out("message", keys=("agent", "recipient")), "plain", RUN),
    ("has no runtime", without_a_runtime, "plain", RUN),
    (
        "starts children by the start",
        caused_by_the_start("run_started"),
        "sub_agent",
        CHILD,
    ),
    ("has children without parents", of_no_parent, "sub_agent", CHILD),
    ("has one correlation", in_one_correlation, "sub_agent", "a_child_run_has_a_correlation_of_its_own"),
    (
        "hands over to nobody",
        changing("handoff", to="gamma"),
        "handoff",
        HANDOFF,
    ),
    ("forgets handoffs", dropping("handoff"), "handoff", HANDOFF),
    (
        "lets alpha speak for beta",
        changing("message", agent="alpha", name="alpha"),
        "handoff",
        HANDOFF,
    ),
    (
        "fails for an unknown reason",
        changing("run_failed", error={"message": "oops"}),
        "model_error",
        "a_model_that_fails_fails_the_run",
    ),
    (
        "tells of a good call",
        leaving_out("model_call", keys=("error",)),
        "model_error",
        "a_model_call_that_fails_is_told_with_its_error",
    ),
    (
        "loses the call",
        caused_by_the_start("tool_result"),
        "parallel_tools",
        "every_result_is_caused_by_its_call",
    ),
    ("forgets results", dropping("tool_result"), "parallel_tools", "every_call_has_one_result"),
    (
        "loses the message",
        caused_by_the_start("tool_call"),
        "parallel_tools",
        "a_call_is_caused_by_the_message_that_asks_for_it",
    ),
    (
        "forgets arguments",
        changing("tool_call", arguments={}),
        "parallel_tools",
        "two_calls_of_one_answer_are_told_with_arguments_and_results",
    ),
    (
        "has keys of its own",
        leaving_out("tool_result", keys=("is_error",)),
        "parallel_tools",
        "calls_and_results_have_the_shared_keys",
    ),
    (
        "likes errors",
        changing("tool_result", is_error=False),
        "tool_error",
        "a_tool_that_fails_is_a_result_with_its_error",
    ),
    (
        "does not fit the schema",
        changing("model_call", usage={"input_tokens": "many"}),
        "plain",
        "everything_is_recorded_and_fits_the_schemas",
    ),
    ("has no ids", no_ids, "plain", "recording_the_same_capture_twice_adds_nothing"),
    ("tries again as another", new_ids, "plain", "what_a_lost_answer_makes_it_try_again_is_recorded_once"),
]


class Unguarded(LoopRecorder):
    """Records by itself, whatever that raises and however long it takes."""

    def told(self, what: str, run_id: str, **facts: Any) -> None:
        if what == "run began":
            self._begin(run_id, **facts)
        elif (run := self.run(run_id)) is not None:
            getattr(self, what.replace(" ", "_"))(run, **facts)

    def record(self, *events: Any) -> None:
        self.ledger.record_many([event for event in events if event is not None])


class Impatient(Unguarded):
    """Raises when the ledger takes its time."""

    def record(self, *events: Any) -> None:
        started = time.monotonic()
        super().record(*events)
        if time.monotonic() - started >= playing.SLOW_SECONDS:
            raise TimeoutError("the ledger is slow")


class Meddling(LoopRecorder):
    """Fails the run that it observes."""

    def told(self, what: str, run_id: str, **facts: Any) -> None:
        super().told(what, run_id, **facts)
        if what == "model said":
            raise RuntimeError("I would not say that")


class Forgetful(LoopRecorder):
    """Keeps nothing for a second try."""

    def __init__(self, ledger: Any, **options: Any) -> None:
        super().__init__(ledger, **options)
        self.safe.kept_events_max = 0


class Greedy(LoopRecorder):
    """Records what another recorder has begun to record."""

    def told(self, what: str, run_id: str, **facts: Any) -> None:
        super().told(what, f"{run_id}-{id(self)}", **facts)


class Placeless(LoopRecorder):
    """Does not say that a tool is running."""

    def tool_began(self, run: ObservedRun, call: Any) -> None:
        self.record(run.tool_call(call.id, call.tool, call.arguments))


class Confused(LoopRecorder):
    """Takes whatever it is told for something of the run that began last."""

    def run(self, key: object) -> ObservedRun | None:
        return super().run([key, *self._runs][-1])


RECORDERS: list[tuple[type[LoopRecorder], str, str]] = [
    (Meddling, "plain", "a_recorder_changes_nothing_for_the_caller"),
    (Unguarded, "plain", "a_ledger_that_raises_changes_nothing_for_the_caller"),
    (Unguarded, "plain", "a_ledger_that_hangs_changes_nothing_for_the_caller"),
    (Forgetful, "plain", "what_a_ledger_that_hung_missed_is_recorded_when_it_is_back"),
    (Impatient, "plain", "a_ledger_that_is_slow_changes_nothing_for_the_caller"),
    (Unguarded, "plain", "a_ledger_closed_before_the_run_changes_nothing_for_the_caller"),
    (Unguarded, "parallel_tools", "a_ledger_closed_in_the_middle_changes_nothing_for_the_caller"),
    (Greedy, "plain", "two_recorders_record_a_run_once"),
    (Placeless, "parallel_tools", "what_a_tool_records_by_itself_is_caused_by_its_call"),
    (Confused, "parallel_tools", "two_runs_at_once_keep_apart"),
]


class ChangedStory(CustomBench):
    """Plays another story."""

    def play(self, scenario: str, recorder: Any | None) -> Outcome:
        return super().play("model_error", recorder)


class OneRecorder(CustomBench):
    """Attaches only the first recorder."""

    def attached(self, recorder: Any | None) -> list[Any]:
        return [recorder] if recorder is not None else []


class Streaming(CustomBench):
    """Tells of each call of a model twice when it streams."""

    scenario = ""

    def recorder(self, ledger: Any) -> LoopRecorder:
        change = doubling("model_call") if self.scenario == "streaming" else doubling()
        return LoopRecorder(ChangedLedger(ledger, change()))


class Sticky(CustomBench):
    """Leaves its recorder attached."""

    last: Any = None

    def play(self, scenario: str, recorder: Any | None) -> Outcome:
        self.last = recorder or self.last
        return super().play(scenario, self.last)


class StreamingStage(Stage):
    def play(self, scenario: str, setting: str) -> Any:
        self.bench.scenario = scenario  # type: ignore[attr-defined]
        return super().play(scenario, setting)


BENCHES: list[tuple[type[AdapterBench], str, str]] = [
    (ChangedStory, "plain", "the_bench_plays_the_story_to_its_end"),
    (OneRecorder, "plain", "two_recorders_record_a_run_once"),
    (Sticky, "plain", "nothing_is_recorded_when_nobody_records"),
    (Streaming, "streaming", "a_stream_is_recorded_as_the_run_without_it"),
]


def judged(bench: AdapterBench, scenario: str, rule: str) -> CellResult:
    (cell,) = [one for one in cells() if (one.scenario, one.check.name) == (scenario, rule)]
    with StreamingStage(bench) as stage:
        return cell.run(stage)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failing takes less time than holding: the hanging ledger lets go soon."""
    monkeypatch.setattr(playing, "HANG_SECONDS_MAX", 0.5)


@pytest.mark.parametrize(
    ("change", "scenario", "rule"),
    [one[1:] for one in CHANGES],
    ids=[one[0].replace(" ", "_") for one in CHANGES],
)
def test_an_adapter_that_breaks_a_rule_is_told_so(
    change: Callable[[], Change], scenario: str, rule: str
) -> None:
    result = judged(adapter_with(change)(), scenario, rule)
    assert result.status == "failed"
    assert "Traceback" not in result.detail, result.detail


@pytest.mark.parametrize(
    ("recorder", "scenario", "rule"), RECORDERS, ids=[f"{one[0].__name__}-{one[2]}" for one in RECORDERS]
)
def test_a_recorder_that_harms_the_run_is_told_so(
    recorder: type[LoopRecorder], scenario: str, rule: str
) -> None:
    class Harmful(CustomBench):
        def recorder(self, ledger: Any) -> LoopRecorder:
            return recorder(ledger)

    result = judged(Harmful(), scenario, rule)
    assert result.status == "failed"
    assert "Traceback" not in result.detail, result.detail


@pytest.mark.parametrize(("bench", "scenario", "rule"), BENCHES, ids=[one[0].__name__ for one in BENCHES])
def test_a_bench_that_plays_something_else_is_told_so(
    bench: type[AdapterBench], scenario: str, rule: str
) -> None:
    result = judged(bench(), scenario, rule)
    assert result.status == "failed"
    assert "Traceback" not in result.detail, result.detail


def test_every_rule_is_broken_by_somebody() -> None:
    broken = {one[-1] for one in [*CHANGES, *RECORDERS, *BENCHES]}
    assert {cell.check.name for cell in cells()} == broken


def test_every_rule_holds_for_those_who_break_nothing() -> None:
    def nothing() -> Change:
        return lambda event: [event]

    bench = adapter_with(nothing)()
    for rule in {one[-1] for one in CHANGES}:
        (cell, *_) = [one for one in cells() if one.check.name == rule]
        assert judged(bench, cell.scenario, rule).status == "passed", rule
