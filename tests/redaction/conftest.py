"""Labelled texts, and a redactor applied to one payload."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from chatsnapshot.limits import DEFAULTS
from chatsnapshot.redaction import Redacted, Redactor

SOURCE = '{"origin":"agent","runtime":"none"}'
HERE = Path(__file__).parent


class Row(NamedTuple):
    """One line: a value, and the secrets in it (none for a look-alike)."""

    kind: str
    value: Any
    secrets: list[str]


def texts(value: Any) -> Iterator[str]:
    """All texts in a JSON value, keys too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, member in value.items():
            yield key
            yield from texts(member)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def rewritten(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): rewritten(member, change) for key, member in value.items()}
    if isinstance(value, list):
        return [rewritten(item, change) for item in value]
    return value


def rows(name: str) -> list[Row]:
    """Secrets stand in brackets and are broken by ¦, so that nobody's scanner takes these files for a leak."""
    found = []
    for line in (HERE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        marked = rewritten(row["value"], lambda text: text.replace("¦", ""))
        secrets = [one for text in texts(marked) for one in re.findall("⟦(.*?)⟧", text, re.DOTALL)]
        value = rewritten(marked, lambda text: text.replace("⟦", "").replace("⟧", ""))
        found.append(Row(row["kind"], value, secrets))
    return found


Redact = Callable[..., Any]


def parts(redactor: Redactor, payload: Any, attributes: str | None = None, source: str = SOURCE) -> Redacted:
    data = payload if isinstance(payload, bytes) else msgspec.json.encode(payload)
    return redactor.apply("execution.message", "run-1", data, (), attributes, source, DEFAULTS)


@pytest.fixture(scope="session")
def labelled() -> Callable[[str], list[Row]]:
    return rows


@pytest.fixture(scope="session")
def secrets() -> Redactor:
    """The built-in patterns; a failure is a failed test."""
    return Redactor(errors="raise")


@pytest.fixture(scope="session")
def redact(secrets: Redactor) -> Redact:
    """``redact(payload)`` or ``redact(payload, redactor)``: the payload as it would be stored."""

    def apply(payload: Any, redactor: Redactor | None = None) -> Any:
        return msgspec.json.decode(parts(redactor or secrets, payload).payload_json)

    return apply


@pytest.fixture(scope="session")
def all_texts() -> Callable[[Any], str]:
    return lambda value: "\0".join(texts(value))
