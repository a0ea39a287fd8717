"""What a worker process runs: ``python -m chatsnapshot.testing.worker FD`` takes jobs from a socket till it closes."""

from __future__ import annotations

import pickle
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

__all__ = ["main"]


def main(descriptor: int) -> None:
    """Do the jobs that come through the socket."""
    line = Connection(descriptor)

    def say(value: Any) -> None:
        line.send(("said", value))

    while True:
        try:
            job, arguments, last = pickle.loads(line.recv_bytes())
        except (EOFError, OSError):
            return
        if last:
            line.send(("done", job(say, *arguments)))
            return
        try:
            answer = job(say, *arguments)
        except Exception:
            line.send(("failed", traceback.format_exc()))
        else:
            line.send(("done", answer))


if __name__ == "__main__":
    main(int(sys.argv[1]))
