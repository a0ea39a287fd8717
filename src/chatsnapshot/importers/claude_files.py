"""Which files belong to one session of Claude Code: its own, and those of its sub-agents beside it or in its folder."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from chatsnapshot.importers.base import SURE_ENOUGH
from chatsnapshot.importers.growing import HEAD_BYTES, head_of

__all__ = ["families"]

_SESSION = re.compile(rb'"sessionId"\s*:\s*"([^"\\]{1,256})"')
_AGENT = re.compile(rb'"agentId"\s*:\s*"[^"\\]{1,64}"')
_ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")

LooksLike = Callable[[bytes], float]


class _File(NamedTuple):
    path: str
    session: str
    agent: bool
    fits: bool


def families(paths: Iterable[str | Path], looks_like: LooksLike) -> list[tuple[str, ...]]:
    """The files of each session, its own first; in a folder only what looks like a session is taken."""
    found: dict[str, list[str]] = {}
    for path in [os.fspath(path) for path in paths]:
        for file in _files(path, looks_like):
            together = found.setdefault(file.session, [])
            together.append(file.path)
            if file.path == path:  # in a folder everything is found without looking beside it
                together += sorted(_beside(file, looks_like))
    return [
        tuple(sorted(_once(files), key=lambda path: _known(path, looks_like).agent))
        for files in found.values()
    ]


def _files(path: str, looks_like: LooksLike) -> Iterator[_File]:
    if not os.path.isdir(path):
        yield _known(path, looks_like)
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            if name.endswith(_ENDINGS) and not name.startswith("agent-acompact-"):
                file = _known(os.path.join(folder, name), looks_like)
                if file.fits:
                    yield file


def _known(path: str, looks_like: LooksLike) -> _File:
    """A file by its beginning, which is read again only while it grows."""
    try:
        found = os.stat(path)
    except OSError:
        return _File(path, path, False, False)
    if not stat.S_ISREG(found.st_mode):
        return _File(path, path, False, False)  # a pipe waits for its writer
    return _begun(path, looks_like, found.st_ino, min(found.st_size, HEAD_BYTES))


@lru_cache(maxsize=16384)
def _begun(path: str, looks_like: LooksLike, inode: int, size: int) -> _File:
    """One without a session is a session by its name."""
    del inode, size
    head = head_of(path)
    named, first = _SESSION.search(head), head.find(b"\n")
    session = named[1].decode("utf-8", "replace") if named else os.path.basename(path).partition(".")[0]
    agent = os.path.basename(path).startswith("agent-") or bool(
        _AGENT.search(head[: first if first > 0 else None])
    )
    return _File(path, session, agent, looks_like(head) >= SURE_ENOUGH)


def _beside(file: _File, looks_like: LooksLike) -> Iterator[str]:
    """The other files of a session, by where they lie."""
    folder, name = os.path.split(file.path)
    session = file.session
    if file.agent:
        above = os.path.dirname(folder) if os.path.basename(folder) == "subagents" else None
        for place in (folder, above and os.path.dirname(above)):
            own = os.path.join(place, f"{session}.jsonl") if place is not None else ""
            if own and os.path.isfile(own):
                yield own
                yield from _agents(place or ".", session, f"{session}.jsonl", looks_like)
    else:
        yield from _agents(folder or ".", session, name, looks_like)


def _agents(folder: str, session: str, name: str, looks_like: LooksLike) -> Iterator[str]:
    for stem in dict.fromkeys((name.partition(".")[0], session)):
        if os.sep in stem or stem in ("", ".", ".."):
            continue
        for inside, _, names in os.walk(os.path.join(folder, stem, "subagents")):
            yield from (os.path.join(inside, one) for one in names if _is_agent(one))
    for one in os.listdir(folder):
        path = os.path.join(folder, one)
        if _is_agent(one) and _known(path, looks_like).session == session:
            yield path


def _is_agent(name: str) -> bool:
    return name.startswith("agent-") and name.endswith(_ENDINGS) and not name.startswith("agent-acompact-")


def _once(paths: Iterable[str]) -> tuple[str, ...]:
    """Each file once, however it is named."""
    found: dict[str, str] = {}
    for path in paths:
        found.setdefault(os.path.realpath(path), path)
    return tuple(found.values())
