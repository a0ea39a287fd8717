"""Sessions of Claude Code, with the files of their sub-agents: what a line is part of, and the files of one session.

No format of these files is published; ``docs/importing.md`` has the table of what becomes what.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from chatsnapshot.importers.base import Piece, Problem, name_text
from chatsnapshot.importers.claude_blocks import blocks_of, kind_of, text_in
from chatsnapshot.importers.claude_files import families
from chatsnapshot.importers.claude_run import ClaudeRun
from chatsnapshot.importers.claude_spawns import Spawn, Spawns
from chatsnapshot.importers.claude_tree import is_uuid
from chatsnapshot.importers.transcripts import Found, Line, Transcripts, lines_of, read_alone

__all__ = ["ClaudeCode"]

SPOKEN = ("user", "assistant")
_BARE = frozenset(
    {"summary", "file-history-snapshot", "queue-operation", "custom-title", "ai-title", "last-prompt"}
)
"""Types of lines that may stand without a session."""


class ClaudeCode:
    """Reads a session into a run, and each of its sub-agents into a child run."""

    kind = "claude-code"
    what = "a Claude Code session"

    def looks_like(self, head: bytes) -> float:
        """By the keys that each line has; a torn or strange line among them is no matter."""
        fitting = seen = 0
        for _, line, whole in lines_of(head.removeprefix(b"\xef\xbb\xbf")):
            if not line.strip():
                continue
            if not whole and seen:
                break
            seen += 1
            if b'"type"' not in line:
                continue
            if (b'"sessionId"' in line and (b'"uuid"' in line or not whole)) or (
                not whole and b'"parentUuid"' in line
            ):
                fitting += 2
            elif any(f'"{name}"'.encode() in line for name in _BARE):
                fitting += 1
        return min(1.0, fitting / seen) if seen else 0.0

    def read(self, data: bytes) -> Iterator[Piece | Problem]:
        """The events of one file."""
        return read_alone(self.session(), data)

    def families(self, paths: Iterable[str | Path]) -> list[tuple[str, ...]]:
        """Sessions among files and folders; a session brings the files of its sub-agents, and one of them its session."""
        return families(paths, self.looks_like)

    def session(self) -> Transcripts:
        """A reader for the files of one session."""
        return Transcripts(_Session())


class _Session:
    """Which run a line belongs to. A file may hold lines of several sessions, and of sub-agents of older versions."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str], ClaudeRun] = {}
        self._homes: dict[str, str] = {}
        self._early: dict[str, list[Line]] = {}
        self._spawns: dict[str, Spawns] = {}
        self._sidechains: dict[str, str] = {}
        self._passed = ""

    def time(self, facts: dict[str, Any]) -> object:
        """The time of a line; of a snapshot of files, when the snapshot was begun."""
        snapshot = facts.get("snapshot")
        if "timestamp" in facts or not isinstance(snapshot, Mapping) or facts.get("isSnapshotUpdate"):
            return facts.get("timestamp")
        return snapshot.get("timestamp")

    def waits(self, line: Line, heads: Iterable[Line]) -> bool:
        """A sub-agent waits for the call that began it, until its session has gone on and no call is undecided."""
        session, agent = self._place(line)
        if session is None or not agent or "agentId" not in line.facts or (session, agent) in self._runs:
            return False
        main = self._runs.get((session, ""))
        if main is None or not main.told.started:
            return any(
                other.file != line.file
                and not other.facts.get("agentId")
                and self._place(other)[0] in (session, None)
                for other in heads
            )
        spawns = self._spawns[session]
        if spawns.of(agent, _prompt(line)) is not None:
            return False
        return spawns.undecided or self._passed <= line.order

    def read(self, line: Line) -> Found:
        """What a line tells."""
        self._passed = max(self._passed, "" if line.facts.get("agentId") else line.order)
        session, agent = self._place(line)
        if session is None:
            self._early.setdefault(line.file, []).append(line)
            return
        for early in self._early.pop(line.file, ()):
            yield from self._run(early, session, "").take(early)
        self._homes[line.file] = session
        yield from self._run(line, session, agent).take(line)

    def end(self) -> Found:
        """What runs hold back: starts without anything said, the last call of a model, the end of a turn that is over."""
        early, self._early = self._early, {}
        for file, lines in early.items():
            stem = os.path.basename(file).partition(".")[0]
            if not is_uuid(stem):
                yield Problem(lines[0].offset, "no line of the file names its session")
                continue
            for line in lines:  # the file is named by it
                yield from self._run(line, stem, "").take(line)
        for run in self._runs.values():
            yield from run.settle()

    def _place(self, line: Line) -> tuple[str | None, str]:
        """The session and sub-agent of a line; an empty text stands for the session's own run."""
        facts = line.facts
        session = name_text(facts.get("sessionId")) or self._homes.get(line.file)
        agent = name_text(facts.get("agentId"), 64)
        if session is None or agent is not None or facts.get("isSidechain") is not True:
            return session, f"agent-{agent}" if agent is not None else ""
        # Older versions write sub-agents between the lines of their session: what hangs together is one of them.
        uuid, parent = str(facts.get("uuid")), facts.get("parentUuid")
        root = self._sidechains.get(parent, uuid) if isinstance(parent, str) else uuid
        self._sidechains[uuid] = root
        return session, f"sidechain-{name_text(root, 64)}"

    def _run(self, line: Line, session: str, agent: str) -> ClaudeRun:
        found = self._runs.get((session, agent))
        if found is not None:
            return found
        spawns = self._spawns.setdefault(session, Spawns())
        if not agent:
            run = ClaudeRun(session, session, spawns)
        else:
            run = self._child(line, session, agent, spawns)
        run.spawned = lambda name: self._runs.get((session, f"agent-{name}"))
        self._runs[session, agent] = run
        return run

    def _child(self, line: Line, session: str, agent: str, spawns: Spawns) -> ClaudeRun:
        main = self._runs.get((session, ""))
        spawn: Spawn | None = spawns.of(agent, _prompt(line), last_chance=True)
        cause = parent = None
        if spawn is not None:
            cause, parent = spawn.event_id, spawn.correlation
        elif main is not None:
            cause, parent = main.start_id, session
        return ClaudeRun(
            session, f"{session}.{agent}", spawns, spawn=spawn, cause=cause, parent=parent, child=True
        )


def _prompt(line: Line) -> str:
    """What a sub-agent was asked, where its first line says so."""
    blocks = blocks_of(line.facts.get("message"))
    text = text_in(blocks)
    return text if kind_of({}, text) == "prompt" else re.sub(r"\s+\Z", "", text)
