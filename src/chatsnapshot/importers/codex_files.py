"""Which rollouts of Codex belong together: threads that began each other, and forks of one another."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from chatsnapshot.importers.base import SURE_ENOUGH
from chatsnapshot.importers.codex_meta import Meta
from chatsnapshot.importers.growing import head_of
from chatsnapshot.limits import KIB, MIB

__all__ = ["families"]

FIRST_LINE_BYTES_MAX = 4 * MIB
"""The first line holds the instructions."""

_ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")

LooksLike = Callable[[bytes], float]


class _Rollout(NamedTuple):
    path: str
    thread: str
    above: str | None
    review: str | None
    """The folder in which a review without a parent works."""

    fits: bool


def families(paths: Sequence[str], looks_like: LooksLike) -> list[tuple[str, ...]]:
    """The files of each family, those before whose threads began the others; in a folder only rollouts are taken."""
    found: dict[str, _Rollout] = {}
    for path in paths:
        for file in _files(os.fspath(path), looks_like):
            found.setdefault(os.path.realpath(file), _known(file, looks_like))
    given = set(found)
    for folder in sorted({os.path.dirname(path) for path in paths if _is_named_by_codex(path)}):
        for beside in _beside(folder):
            found.setdefault(os.path.realpath(beside), _known(beside, looks_like))
    threads = {rollout.thread: rollout for rollout in found.values()}
    together: dict[str, list[str]] = {}
    for key, rollout in found.items():
        together.setdefault(_line_of(rollout, threads)[-1], []).append(key)
    groups = [keys for keys in together.values() if not given.isdisjoint(keys)]
    for keys in groups:
        keys.sort(key=lambda key: (len(_line_of(found[key], threads)), found[key].path))
    return _hosted([tuple(found[key].path for key in keys) for keys in groups], found)


def _hosted(groups: list[tuple[str, ...]], found: dict[str, _Rollout]) -> list[tuple[str, ...]]:
    """Reviews that name no parent go with the other rollouts of their folder: which one began them is told by times."""
    known = {rollout.path: rollout for rollout in found.values()}
    reviews = [group for group in groups if len(group) == 1 and known[group[0]].review is not None]
    out = [group for group in groups if group not in reviews]
    for review in reviews:
        folder = os.path.dirname(review[0])
        hosts = [group for group in out if os.path.dirname(group[0]) == folder and _holds_review(group[0])]
        if len(hosts) == 1:
            out[out.index(hosts[0])] = hosts[0] + review
        else:
            out.append(review)
    return out


@lru_cache(maxsize=1024)
def _mentions(path: str, size: int) -> bool:
    del size
    with open(path, "rb") as stream:
        return any(b'"entered_review_mode"' in line for line in stream)


def _holds_review(path: str) -> bool:
    try:
        return path.endswith(".jsonl") and _mentions(path, os.path.getsize(path))
    except OSError:
        return False


def _line_of(rollout: _Rollout, threads: dict[str, _Rollout]) -> list[str]:
    """A thread and those above it."""
    line = [rollout.thread]
    while rollout.above in threads and rollout.above not in line:
        rollout = threads[rollout.above]
        line.append(rollout.thread)
    return line


def _files(path: str, looks_like: LooksLike) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            inside = os.path.join(folder, name)
            if name.endswith(_ENDINGS) and _known(inside, looks_like).fits:
                yield inside


def _is_named_by_codex(path: str) -> bool:
    name = os.path.basename(path)
    return name.startswith("rollout-") and name.endswith(_ENDINGS)


def _beside(folder: str) -> Iterator[str]:
    """The rollouts in a folder, under the names that Codex gives them."""
    for name in sorted(os.listdir(folder or ".")):
        if _is_named_by_codex(name):
            yield os.path.join(folder, name)


def _known(path: str, looks_like: LooksLike) -> _Rollout:
    try:
        found = os.stat(path)
    except OSError:
        return _Rollout(path, path, None, None, False)
    if not stat.S_ISREG(found.st_mode):
        return _Rollout(path, path, None, None, False)  # a pipe waits for its writer
    return _first_line(path, looks_like, found.st_ino, min(found.st_size, FIRST_LINE_BYTES_MAX))


@lru_cache(maxsize=8192)
def _first_line(path: str, looks_like: LooksLike, inode: int, size: int) -> _Rollout:
    del inode
    head = head_of(path, 64 * KIB)
    if b"\n" not in head and size > len(head):
        head = head_of(path, FIRST_LINE_BYTES_MAX)
    try:
        facts = json.loads(head.partition(b"\n")[0])
    except (ValueError, RecursionError):
        facts = None
    payload = facts.get("payload", facts) if isinstance(facts, dict) else None
    meta = Meta(payload if isinstance(payload, dict) else {})
    review = str(meta.cwd) if meta.review and meta.parent is None else None
    fits = looks_like(head[: 64 * KIB]) >= SURE_ENOUGH
    return _Rollout(path, meta.thread or path, meta.parent or meta.forked_from, review, fits)
