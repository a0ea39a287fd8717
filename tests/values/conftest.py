"""What the tests of values share: a strict reader of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest


def _strict(data: bytes) -> Any:
    """Read JSON as the strictest reader would: UTF-8, no NaN, no key twice."""

    def refuse(constant: str) -> Any:
        raise AssertionError(f"not JSON: {constant}")

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        assert len(found) == len(pairs), f"a key stands twice in {[key for key, _ in pairs]}"
        return found

    return json.loads(data.decode("utf-8"), parse_constant=refuse, object_pairs_hook=distinct)


@pytest.fixture(scope="session")
def strict_json() -> Callable[[bytes], Any]:
    return _strict
