"""Has drafts of OTLP made in a second process, while this one stores those before: two cores for one stream of spans."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections import deque
from contextlib import suppress

import msgspec

from chatsnapshot.clock import time_text
from chatsnapshot.ingest.otlp.apart import HEAD_BYTES, Answer, Request
from chatsnapshot.ingest.otlp.memory import Memory
from chatsnapshot.ledger import Ledger
from chatsnapshot.limits import DEFAULTS

__all__ = ["Helper", "Telling"]

LEAST_BYTES = 16 * 1024
"""A smaller body alone starts no second process."""
_AGAIN_SECONDS = 60.0
_END_SECONDS = 5.0
_PROGRAM = (
    f"import sys; sys.path[:] = sys.argv[1].split({os.pathsep!r}); "
    "from chatsnapshot.ingest.otlp.apart import run; run(sys.stdin.buffer, sys.stdout.buffer)"
)
"""It imports what the service imports, wherever that was started."""
_BUFFER_BYTES = 1024 * 1024
_WAITING_MAX = 64
_TOLD_MAX = 10_000


class Telling(Memory):
    """The memory of one ledger in the service; what it is told goes to the second process with the next request."""

    def __init__(self) -> None:
        super().__init__()
        self.fresh: list[bytes] = []
        self.helped_by: object = None
        """The process that knows what was remembered before."""

    def tell(self, key: bytes) -> None:
        """Remember a message that was told, here and in the second process."""
        super().tell(key)
        if self.helped_by is not None and len(self.fresh) < _TOLD_MAX:
            self.fresh.append(key)


class Helper:
    """The second process of a service: started with the first large body, ended with the service. On the event loop."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted and _cores() > 1
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._waiting: deque[asyncio.Future[Answer]] = deque()
        self._starting = asyncio.Lock()
        self._not_before = 0.0

    def helps(self, ledger: Ledger, redact: object, size: int) -> bool:
        """Whether a body of this size is for it: redaction, schemas and limits of the ledger are those that it knows."""
        return (
            self._wanted
            and (self._process is not None or size >= LEAST_BYTES)
            and len(self._waiting) < _WAITING_MAX
            and redact in (None, "secrets")
            and ledger._intake._redactor is None
            and ledger._opening.schemas is None
            and ledger.limits == DEFAULTS
        )

    async def make(
        self,
        name: str,
        ledger: Ledger,
        memory: Telling,
        body: bytes,
        *,
        json: bool,
        logs: bool,
        redact: str | None,
    ) -> Answer:
        """What it made of a body; an answer without anything where it is not there, or has come to its end."""
        process = await self._started()
        if process is None or process.stdin is None:
            return Answer(None)
        told, memory.fresh = memory.fresh, []
        asked = None
        if memory.helped_by is not process:
            told, asked = memory.all_told(), memory.all_asked()
            memory.helped_by = process
        now = time_text(ledger._intake.clock())
        message = msgspec.msgpack.encode(Request(name, body, json, logs, redact, now, told, asked))
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            process.stdin.write(len(message).to_bytes(HEAD_BYTES, "little") + message)
            await process.stdin.drain()
        except OSError:
            pass  # its end resolves the future
        return await future

    async def _started(self) -> asyncio.subprocess.Process | None:
        if self._process is not None:
            return self._process
        loop = asyncio.get_running_loop()
        async with self._starting:
            if self._process is not None or loop.time() < self._not_before or not self._wanted:
                return self._process
            self._not_before = loop.time() + _AGAIN_SECONDS
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-c",
                    _PROGRAM,
                    os.pathsep.join(sys.path),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    limit=_BUFFER_BYTES,
                    start_new_session=True,  # Ctrl-C is for the service, which ends this
                )
            except (OSError, NotImplementedError):
                self._wanted = False
                return None
            self._process = process
            self._reader = asyncio.ensure_future(self._read(process))
            return process

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Give the answers to those who wait, in their order."""
        decoder = msgspec.msgpack.Decoder(Answer)
        assert process.stdout is not None
        try:
            while True:
                head = await process.stdout.readexactly(HEAD_BYTES)
                answer = decoder.decode(await process.stdout.readexactly(int.from_bytes(head, "little")))
                future = self._waiting.popleft()
                if not future.done():
                    future.set_result(answer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        except msgspec.DecodeError:
            logging.getLogger("chatsnapshot.otlp").exception("the second process gave what cannot be read")
        finally:
            self._process = None
            waiting, self._waiting = self._waiting, deque()
            for future in waiting:
                if not future.done():
                    future.set_result(Answer(None))
            with suppress(ProcessLookupError):
                process.kill()

    async def end(self) -> None:
        """End the process."""
        self._wanted = False
        process, reader = self._process, self._reader
        if process is None or process.stdin is None or reader is None:
            return
        process.stdin.close()
        done, _ = await asyncio.wait([reader], timeout=_END_SECONDS)
        if not done:
            with suppress(ProcessLookupError):
                process.kill()
        await process.wait()


def _cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
