"""Writes numbers in the text format of Prometheus (version 0.0.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from chatsnapshot.server.counting import BOUNDS_SECONDS, Durations

__all__ = ["CONTENT_TYPE", "Family", "histogram", "text_of"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[tuple[str, str], ...]


class Family(NamedTuple):
    """One metric: its samples are the suffix of the name, the labels and the value."""

    name: str
    kind: str
    help: str
    samples: Sequence[tuple[str, Labels, float]]


def histogram(name: str, help: str, label: str, durations: Mapping[str, Durations]) -> Family:
    """A histogram of seconds, one for each value of a label."""
    samples: list[tuple[str, Labels, float]] = []
    for value, found in sorted(durations.items()):
        total = 0
        for bound, count in zip((*map(str, BOUNDS_SECONDS), "+Inf"), found.counts, strict=True):
            total += count
            samples.append(("_bucket", ((label, value), ("le", bound)), total))
        samples.append(("_sum", ((label, value),), found.sum))
        samples.append(("_count", ((label, value),), total))
    return Family(name, "histogram", help, samples)


def text_of(families: Iterable[Family]) -> str:
    """The text; a metric without samples is left out."""
    lines: list[str] = []
    for family in families:
        if not family.samples:
            continue
        lines.append(f"# HELP {family.name} {family.help}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for suffix, labels, value in family.samples:
            inside = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
            lines.append(f"{family.name}{suffix}{'{' + inside + '}' if inside else ''} {_number(value)}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
