"""Which rollouts of Codex belong together: threads that began each other, and forks of one another."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from chatsnapshot.importers.base import Importer
from chatsnapshot.importers.codex_meta import Meta
from chatsnapshot.importers.growing import head_of
from chatsnapshot.limits import KIB, MIB

__all__ = ["families"]

FIRST_LINE_BYTES_MAX = 4 * MIB
"""The first line holds the instructions."""

_ENDINGS = (".jsonl", ".jsonl.gz")
_NEAR = 2.0


class _Rollout(NamedTuple):
    path: str
    thread: str
    above: str | None
    review: str | None
    """The folder in which a review without a parent works."""


def families(paths: Sequence[str], importer: Importer) -> list[tuple[str, ...]]:
    """The files of each family, those before whose threads began the others; in a folder only rollouts are taken."""
    found: dict[str, _Rollout] = {}
    for path in paths:
        for file in _files(os.fspath(path), importer):
            found.setdefault(os.path.realpath(file), _known(file))
    for rollout in list(found.values()):
        for beside in _beside(rollout.path, importer):
            found.setdefault(os.path.realpath(beside), _known(beside))
    named = {os.path.realpath(path) for path in paths}
    given = {key for key in found if key in named or not all(os.path.isfile(path) for path in paths)}
    threads = {rollout.thread: rollout for rollout in found.values()}
    together: dict[str, list[str]] = {}
    for key, rollout in found.items():
        together.setdefault(_root(rollout, threads), []).append(key)
    out: list[tuple[str, ...]] = []
    for root, keys in together.items():
        if not given.isdisjoint(keys):
            keys.sort(key=lambda key: (_depth(found[key], threads), found[key].path))
            out.append(tuple(found[key].path for key in keys))
        del root
    return _hosted(out, found)


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
        return not path.endswith(".gz") and _mentions(path, os.path.getsize(path))
    except OSError:
        return False


def _root(rollout: _Rollout, threads: dict[str, _Rollout]) -> str:
    seen = {rollout.thread}
    while rollout.above in threads and rollout.above not in seen:
        rollout = threads[rollout.above]
        seen.add(rollout.thread)
    return rollout.thread


def _depth(rollout: _Rollout, threads: dict[str, _Rollout]) -> int:
    seen = {rollout.thread}
    while rollout.above in threads and rollout.above not in seen:
        rollout = threads[rollout.above]
        seen.add(rollout.thread)
    return len(seen)


def _files(path: str, importer: Importer) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            inside = os.path.join(folder, name)
            if name.endswith(_ENDINGS) and importer.looks_like(head_of(inside)) >= 0.5:
                yield inside


def _beside(path: str, importer: Importer) -> Iterator[str]:
    """Rollouts in the folder of one, under the names that Codex gives them."""
    folder, name = os.path.split(path)
    if not name.startswith("rollout-"):
        return
    for other in sorted(os.listdir(folder or ".")):
        if other.startswith("rollout-") and other.endswith(_ENDINGS) and other != name:
            yield os.path.join(folder, other)


def _known(path: str) -> _Rollout:
    try:
        found = os.stat(path)
    except OSError:
        return _Rollout(path, path, None, None)
    return _first_line(path, found.st_ino, min(found.st_size, FIRST_LINE_BYTES_MAX))


@lru_cache(maxsize=8192)
def _first_line(path: str, inode: int, size: int) -> _Rollout:
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
    return _Rollout(path, meta.thread or path, meta.parent or meta.forked_from, review)
