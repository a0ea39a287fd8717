"""``AdapterBench``: a runtime as the contract drives it, and ``Outcome``: what the caller of the runtime saw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from typing import Any, NamedTuple

__all__ = [
    "ANSWERS",
    "FURTHER_LACKS",
    "SCENARIOS",
    "AdapterBench",
    "Outcome",
    "in_tool",
    "version_of",
    "with_own_code",
]

SCENARIOS: dict[str, str] = {
    "plain": 'agent "alpha" is asked "Hello" and answers "Hi there"',
    "parallel_tools": 'asked "What is 2+3 and 4+5?", one answer calls add(2, 3) and add(4, 5); then "5 and 9"',
    "sub_agent": 'alpha calls ask_child; inside it "beta" runs and answers "child says hi"; alpha answers "done"',
    "handoff": 'alpha hands over to "beta", which answers "beta here"',
    "interruption": 'alpha waits for a person; the run pauses, is resumed with the answer and ends with "approved"',
    "tool_error": 'the tool fail() raises ValueError("no such city")',
    "model_error": 'the model raises RuntimeError("model is down")',
    "streaming": "parallel_tools through the streaming API of the runtime",
}
"""The stories of the contract; each is one real run (or one that is resumed) with the runtime's own test model."""

FURTHER_LACKS: dict[str, str] = {
    "resume": "the run pauses for a person, and is resumed",
    "two_recorders": "two recorders can be attached to one run",
    "model_calls": "the runtime tells of each call of a model",
    "own_code": "tools run in the process that is recorded, and may record by themselves",
    "at_once": "one recorder records two runs at once",
}
"""What a runtime may lack besides whole stories."""

ANSWERS: dict[str, int] = {"plain": 1, "parallel_tools": 2, "streaming": 2, "sub_agent": 3}
"""How many answers the model gives in a story, as far as every runtime asks it equally often."""


class Outcome(NamedTuple):
    """What the caller of the runtime saw: plain comparable values, without random ids.

    ``error`` is ``"ValueError: message"``, or ``None`` when nothing was raised.
    """

    result: Any = None
    error: str | None = None

    @classmethod
    def of(cls, call: Callable[[], Any]) -> Outcome:
        """What ``call`` gives or raises."""
        try:
            return cls(call(), None)
        except Exception as error:
            return cls(None, f"{type(error).__name__}: {error}")


class AdapterBench:
    """A runtime for the contract; subclass it.

    ``runtime`` is what the events have as ``source.runtime``; ``package`` the distribution that must be installed;
    ``title`` what readers call it.
    ``lacks`` gives the reason for each story (and each of :data:`FURTHER_LACKS`) that the runtime has nothing for.
    ``usage`` are the input and output tokens that the test model reports with every answer, where it does;
    ``answers`` how often the model answers in a story, where that is not as in :data:`ANSWERS`.
    """

    runtime: str = "custom"
    package: str | None = None
    title: str | None = None
    lacks: Mapping[str, str] = {}
    usage: tuple[int, int] | None = None
    answers: Mapping[str, int] = {}

    second: Any = None
    """The second recorder, when the contract wants two of them attached."""
    asked_for_recorders: bool = False
    """Whether :meth:`attached` was called since this was last set to false."""

    def recorder(self, ledger: Any) -> Any:
        """A new recorder of the adapter for this ledger: it has ``safe`` and ``flush(timeout)``."""
        raise NotImplementedError

    def play(self, scenario: str, recorder: Any | None) -> Outcome:
        """One real run of the story, recorded by :meth:`attached`, or by nobody for ``None``."""
        raise NotImplementedError

    def close(self) -> None:
        """End what the bench has started."""

    def attached(self, recorder: Any | None) -> list[Any]:
        """The recorders to attach, each in the way of the runtime: none, one, or two of them."""
        self.asked_for_recorders = True
        return [one for one in (recorder, self.second if recorder is not None else None) if one is not None]

    def version(self) -> str | None:
        """The version of the runtime; ``None`` when it is not installed or has none."""
        return version_of(self.package)

    def missing(self) -> str | None:
        """What must be installed first; ``None`` when the runtime is there."""
        return self.package if self.package is not None and self.version() is None else None


_own_code: list[Callable[[], object]] = []


def in_tool() -> None:
    """Call this in the tool ``add``: the contract does there what a user's own code in a tool may do."""
    for act in _own_code:
        act()


@contextmanager
def with_own_code(act: Callable[[], object]) -> Iterator[None]:
    """Let :func:`in_tool` call ``act``."""
    _own_code.append(act)
    try:
        yield
    finally:
        _own_code.remove(act)


def version_of(package: str | None) -> str | None:
    """The version of an installed distribution."""
    if package is None:
        return None
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
