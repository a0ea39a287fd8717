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
_spec = importlib.util.spec_from_file_location("classic_chats", Path(__file__).with_name("chats.py"))
assert _spec and _spec.loader
sys.modules["classic_chats"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules["classic_chats"])


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
