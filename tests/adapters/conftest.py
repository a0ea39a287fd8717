"""What the adapters' tests share: the scripted model server."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


fakellm = _load("fakellm")


@pytest.fixture
def models() -> Iterator[Callable[[Mapping[str, Sequence[Any]]], Any]]:
    """``models({"name": [...]})`` starts a server with these scripts; it is stopped after the test."""
    started = []

    def start(scripts: Mapping[str, Sequence[Any]]) -> Any:
        started.append(fakellm.FakeModels(scripts))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture
def say() -> Callable[..., dict[str, Any]]:
    """``say("tool", a=1)``: a tool call in a script."""
    return fakellm.call
