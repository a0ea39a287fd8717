"""A real service in a process of its own, on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest


class Served:
    """One ``chatsnapshot serve``; ``url`` is its address."""

    path: Path

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "chatsnapshot", "serve", "--port", "0", *arguments],
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()
        self.url = self.said.split(" ")[0]
        self.client = httpx.Client(base_url=self.url, timeout=30)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait(20)

    def end(self) -> int:
        """SIGTERM, and its exit code."""
        self.client.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(20)


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """``serve("--ledger", path)``: a service, ended after the test."""
    yield from _serving()


@pytest.fixture(scope="module")
def module_serve() -> Iterator[Callable[..., Served]]:
    """As ``serve``; ended after the tests of the module."""
    yield from _serving()


def _serving() -> Iterator[Callable[..., Served]]:
    running: list[Served] = []

    def start(*arguments: object) -> Served:
        running.append(Served(*map(str, arguments)))
        return running[-1]

    yield start
    for one in running:
        one.end()


@pytest.fixture
def served(serve: Callable[..., Served], tmp_path: Path) -> Served:
    """A service over a new ledger, ``runs.db`` in the test's folder."""
    return serve("--ledger", tmp_path / "runs.db")


@pytest.fixture(scope="module")
def module_served(module_serve: Callable[..., Served], tmp_path_factory: pytest.TempPathFactory) -> Served:
    """A service that the tests of a module share; its ledger, new, is at ``module_served.path``."""
    path = tmp_path_factory.mktemp("served") / "runs.db"
    found = module_serve("--ledger", path)
    found.path = path
    return found
