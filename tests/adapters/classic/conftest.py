"""What the tests of the classic line share: a ledger, and quiet from AG2's own loggers."""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import chatsnapshot
from chatsnapshot import Ledger
from chatsnapshot.adapters.ag2 import AG2Recorder

# Test files import these helpers by this name; the folder is no package.
for _name in ("chats", "groups"):
    _spec = importlib.util.spec_from_file_location(
        f"classic_{_name}", Path(__file__).with_name(f"{_name}.py")
    )
    assert _spec and _spec.loader
    sys.modules[f"classic_{_name}"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[f"classic_{_name}"])


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with chatsnapshot.open("memory:") as opened:
        yield opened


@pytest.fixture
def recorder(ledger: Ledger) -> AG2Recorder:
    return AG2Recorder(ledger, correlation_id="run-1")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    # The line logs that a key is no key of the vendor's; the server here takes any.
    logging.getLogger("autogen").setLevel(logging.ERROR)
    yield
    logging.getLogger("autogen").setLevel(logging.NOTSET)
