"""Random histories for any store: a rule-based state machine of hypothesis that drives a ledger and the model."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from chatsnapshot.testing.bench import Bench
from chatsnapshot.testing.expecting import Failed, Skipped
from chatsnapshot.testing.history import History
from chatsnapshot.testing.model import Large, Model, Said

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["Repeat", "resolve", "run_histories"]

RUN_HISTORIES = 8
"""Histories of one run of hypothesis: in longer runs most are small changes of one another."""

IDS = [f"00000000-0000-4000-8000-{number:012x}" for number in range(60)]
"""So many that most are new: what is known already comes from repeats. The first four are causes."""

TYPES = ["execution.message", "execution.tool_call", "execution_log.line", "ui.input_received", "custom.a.b"]
CORRELATIONS = ["run-1", "run-2", "läuft 3 %_'\""]
TIMES = [f"2001-0{month}-01T00:00:00.00000{month}Z" for month in range(1, 5)]
SOURCES = [
    {"origin": "agent", "runtime": "none"},
    {"origin": "agent", "runtime": "ag2", "name": "Ann"},
    {"origin": "ui", "runtime": "none", "name": 'naïve ☃ "'},
    {"origin": "system", "runtime": "none"},
]
SCOPES: list[dict[str, Any]] = [{"source": SOURCES[1]}, {"source": SOURCES[2], "causation_id": IDS[3]}]
ATTRIBUTES: list[dict[str, Any]] = [
    {"outcome": "ok"},
    {"outcome": "failed", "tries": 1},
    {"done": True, "tries": 0, "subjects": ["ann", "bob"]},
]
PAYLOADS: list[dict[str, Any]] = [
    {},
    {"n": 1, "text": "naïve ☃ \u2028"},
    {"n": True, "text": "x" * 300},
    {"a": [1, {"c": None}], "b": 1.5},
    {"data": Large(b"\x01" * 40_000)},
    {"data": Large(b"\x02" * 40_000), "n": 1},
]
FILTERS: dict[str, list[Any]] = {
    "correlation_id": [*CORRELATIONS, "ledger", "never"],
    "event_type": [["execution.*"], ["execution.message"], ["custom.*", "ui.input_received"], ["ledger.*"]],
    "origin": ["agent", "ui", "system"],
    "runtime": ["none", "ag2"],
    "name": ["Ann", 'naïve ☃ "'],
    "attributes": [
        {"outcome": "ok"},
        {"tries": 1},
        {"done": True},
        {"subjects": "bob"},
        {"tries": 0, "done": True},
    ],
    "causation_id": IDS[:4],
    "start": [TIMES[1], "2026-01-01T00:00:00.000000Z"],
    "end": [TIMES[2], "2026-01-01T00:00:00.000000Z"],
}
CHANGES: dict[str, list[Any]] = {
    "event_type": TYPES,
    "correlation_id": CORRELATIONS,
    "payload": PAYLOADS,
    "timestamp": TIMES,
    "source": SOURCES,
    "causation_id": IDS[:4],
    "attributes": ATTRIBUTES,
    "schema_version": [1, 2],
}
"""What of an event can be another one, and what it can be."""


class Repeat(msgspec.Struct, frozen=True):
    """An event that is known already, said again: the ``index``-th of those that may be.

    ``left_out`` of timestamp, source and cause are not said this time; ``changes`` are said otherwise.
    """

    index: int
    left_out: frozenset[str]
    changes: tuple[tuple[str, Any], ...] = ()


def resolve(batch: Sequence[Said | Repeat], model: Model, erased: bool = False) -> list[Said]:
    """The events of a batch; a repeat is of an entry of the model or of an earlier event of the batch."""
    made: list[Said] = []
    for one in batch:
        if isinstance(one, Said):
            made.append(one)
            continue
        known = [
            msgspec.structs.replace(entry.said, event_id=entry.event_id)
            for entry in model.entries
            if not entry.said.event_type.startswith("ledger.") and (entry.erased or not erased)
        ]
        known += [said for said in made if said.event_id is not None]
        if known:
            said = known[one.index % len(known)]
            other: dict[str, Any] = {"payload": dict(reversed(list(said.payload.items())))}
            other.update(dict.fromkeys(one.left_out), **dict(one.changes))
            made.append(msgspec.structs.replace(said, **other))
    return made


def _strategies() -> tuple[SearchStrategy[Said], SearchStrategy[Repeat], SearchStrategy[dict[str, Any]]]:
    """Events that collide often, repeats, and filters of a read."""
    from hypothesis import strategies as st

    says = st.builds(
        Said,
        event_id=st.sampled_from([None, None, *IDS[:4], *IDS]),
        event_type=st.sampled_from(TYPES),
        correlation_id=st.sampled_from(CORRELATIONS),
        payload=st.sampled_from(PAYLOADS),
        timestamp=st.sampled_from([None, *TIMES]),
        source=st.sampled_from([None, *SOURCES]),
        causation_id=st.sampled_from([None, *IDS[:4]]),
        attributes=st.sampled_from([None, *ATTRIBUTES]),
        schema_version=st.sampled_from([None, 1, 2]),
    )
    change = st.sampled_from([(field, value) for field, values in CHANGES.items() for value in values])
    repeats = st.builds(
        Repeat,
        st.integers(0, 40),
        st.frozensets(st.sampled_from(["timestamp", "source", "causation_id"])),
        st.one_of(st.just(()), st.just(()), st.just(()), st.tuples(change)),
    )
    filters = st.lists(st.sampled_from(sorted(FILTERS)), max_size=2, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: st.sampled_from(FILTERS[name]) for name in names})
    )
    return says, repeats, filters


class _Stage:
    """What the runs of one machine share: the bench, the time, and the shortest history that failed."""

    def __init__(self, bench: Bench, seconds_max: float, shrink_seconds_max: float) -> None:
        self.bench = bench
        self._shrink_seconds_max = shrink_seconds_max
        self._ends = time.monotonic() + seconds_max
        self.failed: tuple[list[str], Exception] | None = None

    @property
    def over(self) -> bool:
        """Whether the time is up: what is still to be run does nothing."""
        return time.monotonic() > self._ends

    def fail(self, story: list[str], error: Exception) -> None:
        if self.failed is None:
            self._ends = min(self._ends, time.monotonic() + self._shrink_seconds_max)
        if self.failed is None or len(story) <= len(self.failed[0]):
            self.failed = list(story), error


def run_histories(
    bench: Bench,
    *,
    histories: int,
    steps: int = 25,
    seconds_max: float = 40.0,
    shrink_seconds_max: float = 15.0,
) -> None:
    """Compare so many random histories of so many steps with the model, in at most ``seconds_max``.

    After one has failed, a shorter one that fails too is looked for, for ``shrink_seconds_max``.
    Raises :class:`Failed` with the shortest failing history found, :class:`Skipped` without hypothesis.
    """
    try:
        from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
        from hypothesis.stateful import run_state_machine_as_test
    except ImportError:
        raise Skipped("random histories need hypothesis: pip install hypothesis") from None
    stage = _Stage(bench, seconds_max, shrink_seconds_max)
    rules = settings(
        max_examples=min(histories, RUN_HISTORIES),
        stateful_step_count=steps,
        deadline=None,
        database=None,
        derandomize=False,
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    try:
        for run in range(0, histories, RUN_HISTORIES):
            run_state_machine_as_test(seed(f"{bench.seed} {run}")(_machine(stage)), settings=rules)
    except Exception:
        if stage.failed is None:
            raise
    if stage.failed is not None:
        story, error = stage.failed
        what = error if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
        raise Failed("\n".join([f"{what}; after these steps", *story])) from error


def _machine(stage: _Stage) -> Any:
    """The class of the state machine."""
    from hypothesis import strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

    says, repeats, filters = _strategies()
    batches = st.lists(st.one_of(says, says, repeats), min_size=1, max_size=5)
    index = st.integers(0, 40)
    bounds = st.fixed_dictionaries(
        {},
        optional={
            "after": st.integers(0, 30),
            "until": st.one_of(st.integers(0, 40), index.map(lambda number: f"entry {number}")),
            "limit": st.integers(0, 9),
            "reverse": st.booleans(),
        },
    )

    beginnings = st.lists(says, min_size=5, max_size=9, unique_by=lambda said: said.event_id or id(said))

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.history = None if stage.over else History(stage.bench)

        def do(self, step: Callable[[History], None]) -> None:
            """A step, and what must hold after it."""
            if self.history is None or stage.over:
                return
            try:
                step(self.history)
                self.history.look()
            except Exception as error:
                stage.fail(self.history.story, error)
                raise

        def teardown(self) -> None:
            if self.history is not None:
                try:
                    if not stage.over and stage.failed is None:
                        self.do(lambda history: history.verify())
                finally:
                    self.history.close()

        @initialize(batch=beginnings)
        def begin(self, batch: list[Said]) -> None:
            self.do(lambda history: history.record(batch, None, "many"))

        @rule(one=says)
        def append(self, one: Said) -> None:
            self.do(lambda history: history.record([one], None, "one"))

        @rule(
            batch=batches,
            way=st.sampled_from(["many", "many", "one", "accepted"]),
            scope=st.sampled_from([None, *SCOPES]),
        )
        def record_several(self, batch: list[Said | Repeat], way: str, scope: dict[str, Any] | None) -> None:
            self.do(lambda history: history.record(resolve(batch, history.model), None, way, scope))

        @rule(repeat=repeats, again=repeats, way=st.sampled_from(["one", "many", "accepted"]))
        def repeat(self, repeat: Repeat, again: Repeat, way: str) -> None:
            self.do(lambda history: history.record(resolve([repeat, again], history.model), None, way))

        @rule(batch=batches, off=st.sampled_from([0, 0, 0, 1, -1]), way=st.sampled_from(["one", "many"]))
        def expect_a_sequence(self, batch: list[Said | Repeat], off: int, way: str) -> None:
            def step(history: History) -> None:
                said = resolve(batch, history.model)
                if way == "many":
                    said = [one for one in said if one.correlation_id == said[0].correlation_id or off]
                for part in [said] if way == "many" else [[one] for one in said]:
                    if part:
                        last = history.model.sequence(part[0].correlation_id)
                        history.record(part, max(last + off, 0), way)

            self.do(step)

        @rule(places=st.lists(st.integers(-1, 40), max_size=4))
        def erase(self, places: list[int]) -> None:
            def step(history: History) -> None:
                size = len(history.model.entries) + 1
                history.erase([place if place < 1 else 1 + place % size for place in places])

            self.do(step)

        @rule(repeat=repeats, way=st.sampled_from(["one", "many"]))
        def repeat_what_was_erased(self, repeat: Repeat, way: str) -> None:
            self.do(lambda history: history.record(resolve([repeat], history.model, erased=True), None, way))

        @rule(place=index, many=st.booleans())
        def record_an_envelope_again(self, place: int, many: bool) -> None:
            def step(history: History) -> None:
                known = [
                    one for one in history.model.entries if not one.said.event_type.startswith("ledger.")
                ]
                if known:
                    history.again(known[place % len(known)].position, many)

            self.do(step)

        @rule(size=st.sampled_from([1, 3, 1000]), stay=st.booleans())
        def copy(self, size: int, stay: bool) -> None:
            self.do(lambda history: history.copy(size, stay))

        @rule(kind=st.sampled_from(["known", "gap", "changed", "twice"]))
        def import_wrongly(self, kind: str) -> None:
            self.do(lambda history: history.import_wrongly(kind))

        @rule(kind=st.sampled_from(["crash", "reopen", "change_handle"]))
        def leave(self, kind: str) -> None:
            self.do(lambda history: getattr(history, kind)())

        @rule(seconds=st.sampled_from([-3, -1, 0, 3600]))
        def pass_time(self, seconds: int) -> None:
            self.do(lambda history: history.pass_time(seconds))

        @rule(filters=filters, bounds=bounds)
        def read(self, filters: dict[str, Any], bounds: dict[str, Any]) -> None:
            def step(history: History) -> None:
                until, entries = bounds.get("until"), history.model.entries
                if isinstance(until, str):  # the moment at which that entry was recorded
                    row = entries[int(until.split()[1]) % len(entries)].row if entries else None
                    history.read(filters, {**bounds, "until": row[2] if row else 0})
                else:
                    history.read(filters, bounds)

            self.do(step)

        @rule(after=st.integers(0, 30), filters=filters)
        def follow(self, after: int, filters: dict[str, Any]) -> None:
            self.do(lambda history: history.follow(min(after, len(history.model.entries)), filters))

        @rule()
        def catch_up(self) -> None:
            self.do(lambda history: history.catch_up())

        @rule()
        def verify(self) -> None:
            self.do(lambda history: history.verify())

    return Machine
