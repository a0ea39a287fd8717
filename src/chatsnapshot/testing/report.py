"""The report of a run of the suite: claims of the store, results by promise, as text for people and JSON for machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from chatsnapshot.stores.base import Traits
from chatsnapshot.testing.checking import CLAIMS, TOPICS, Result

__all__ = ["ConformanceReport"]

_MARKS = {"passed": "ok  ", "failed": "FAIL", "skipped": "skip", "not claimed": "-   "}


class ConformanceReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the suite found about one store.

    ``traits`` is what the store claims; ``results`` are in the order of the promises; ``seed`` repeats random choices.
    """

    url: str
    traits: Traits
    seed: int
    thorough: float
    seconds: float
    results: tuple[Result, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return not self.failures

    @property
    def failures(self) -> list[Result]:
        """The checks that failed."""
        return [result for result in self.results if result.status == "failed"]

    def topics(self) -> Iterator[tuple[int | str, str, Sequence[Result]]]:
        """Each promise and duty that has results: number or name, title, results."""
        for topic, title in TOPICS.items():
            found = [result for result in self.results if result.topic == topic]
            if found:
                yield topic, title, found

    def keeps(self, topic: int | str) -> bool | None:
        """Whether a promise is kept; ``None`` when nothing of it is claimed or could be run."""
        found = [result.status for result in self.results if result.topic == topic]
        if "failed" in found:
            return False
        return True if "passed" in found else None

    def to_json(self) -> bytes:
        """The report as one JSON object."""
        topics = [
            {"topic": topic, "title": title, "kept": self.keeps(topic)} for topic, title, _ in self.topics()
        ]
        whole = {
            "ok": self.ok,
            "store": self.traits.name,
            "url": self.url,
            "claims": {claim: getattr(self.traits, claim) for claim in CLAIMS},
            "group_events_max": self.traits.group_events_max,
            "seed": self.seed,
            "thorough": self.thorough,
            "seconds": round(self.seconds, 3),
            "topics": topics,
            "results": self.results,
        }
        return msgspec.json.format(msgspec.json.encode(whole))

    def text(self, verbose: bool = False) -> str:
        """The report for people; ``verbose`` lists every check, otherwise only what did not pass."""
        lines = [f"store {self.traits.name} at {self.url}", "", "claims"]
        for claim, meaning in CLAIMS.items():
            lines.append(f"  {'yes' if getattr(self.traits, claim) else 'no ':3}  {claim}: {meaning}")
        uncontrolled = sum(_wants_server(result) for result in self.results)
        if uncontrolled and "://" in self.url:
            lines += [
                "",
                f"{uncontrolled} checks kill the server or stand in front of it, and were not given one to do so",
            ]
            lines.append("(run(url, server=...), docs/conformance.md)")
        lines += ["", "results"]
        for topic, title, results in self.topics():
            name = f"promise {topic}" if isinstance(topic, int) else str(topic)
            passed = sum(result.status == "passed" for result in results)
            failed = sum(result.status == "failed" for result in results)
            left = len(results) - passed - failed
            mark = _MARKS["failed" if failed else "passed" if passed else "not claimed"]
            rest = (f", {failed} failed" if failed else "") + (f", {left} not run" if left else "")
            lines.append(f"  {mark} {name:12} {title}: {passed} passed{rest}")
            for result in results:
                if verbose or result.status in ("failed", "skipped"):
                    lines += _lines(result)
        amount = {
            status: sum(result.status == status for result in self.results)
            for status in ("passed", "failed", "skipped", "not claimed")
        }
        counted = ", ".join(f"{number} {status}" for status, number in amount.items() if number)
        lines += ["", f"{'conforms' if self.ok else 'DOES NOT CONFORM'}: {counted} in {self.seconds:.1f} s"]
        if not self.ok:
            lines.append(f"repeat with --seed {self.seed}")
        return "\n".join(lines)


def _wants_server(result: Result) -> bool:
    return result.status == "not claimed" and "server" in result.detail.split(", ")


def _lines(result: Result) -> list[str]:
    name = result.name.replace("_", " ")
    first = f"         {_MARKS[result.status]} {name} ({result.seconds:.2f} s)"
    if not result.detail:
        return [first]
    return [first, *[f"              {line}" for line in result.detail.strip().splitlines()]]
