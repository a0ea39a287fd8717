"""Which importers there are, and which other files are known by sight though nothing here imports them."""

from __future__ import annotations

import difflib

from chatsnapshot.errors import NotFound
from chatsnapshot.importers.ag2_logs import AG2Logs
from chatsnapshot.importers.base import SURE_ENOUGH, Importer
from chatsnapshot.importers.chatsnapshot_v1 import ChatSnapshotV1
from chatsnapshot.importers.chatsnapshot_v2 import ChatSnapshotV2
from chatsnapshot.importers.claude_code import ClaudeCode
from chatsnapshot.importers.cloudevents import CloudEventFiles
from chatsnapshot.importers.codex import Codex
from chatsnapshot.importers.inspect_ai import InspectLogs
from chatsnapshot.importers.jsontext import read_object
from chatsnapshot.importers.mini_swe_agent import MiniSweAgentTrajectories
from chatsnapshot.importers.openai_chat import OpenAIChats
from chatsnapshot.importers.otlp import OtlpFiles
from chatsnapshot.importers.swe_agent import SweAgentTrajectories

__all__ = ["IMPORTERS", "KINDS", "importer_of", "known_by_sight", "likeliest"]

IMPORTERS: tuple[Importer, ...] = (
    AG2Logs(),
    CloudEventFiles(),
    OtlpFiles(),
    ClaudeCode(),
    Codex(),
    SweAgentTrajectories(),
    MiniSweAgentTrajectories(),
    InspectLogs(),
    OpenAIChats(),
    ChatSnapshotV1(),
    ChatSnapshotV2(),
)
""":data:`KINDS` are theirs."""

KINDS = tuple(importer.kind for importer in IMPORTERS)
"""The kinds that can be imported."""

_SIGHTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("a JSONL ledger: open it with --ledger", ("chatsnapshot", "format", "check")),
    ("events, one a line, for 'chatsnapshot ingest'", ("event_type", "correlation_id")),
    ("events, one a line, for 'chatsnapshot ingest'", ("event_type", "payload")),
    ("OpenTelemetry metrics (OTLP JSON)", ("resourceMetrics",)),
)
"""What a file is, by keys of its first object."""


def importer_of(kind: str) -> Importer:
    """The importer of that kind; raises :class:`NotFound` with the nearest kinds."""
    for importer in IMPORTERS:
        if importer.kind == kind:
            return importer
    near = difflib.get_close_matches(kind, KINDS, n=1) or KINDS
    raise NotFound(f"nothing imports {kind!r}; the kinds are {', '.join(KINDS)} (did you mean {near[0]}?)")


def likeliest(head: bytes) -> Importer | None:
    """The importer that is surest of a file that begins so; ``None`` when none is sure enough."""
    best = max(IMPORTERS, key=lambda importer: importer.looks_like(head))
    return best if best.looks_like(head) >= SURE_ENOUGH else None


def known_by_sight(head: bytes) -> str | None:
    """What a file is, in words, where its beginning tells and no importer takes it."""
    if head.startswith(b"SQLite format 3\0"):
        return "a SQLite database: if it is a ledger, open it with --ledger"
    if head[:2] == b"PK":
        return "a ZIP archive: unpack it first"
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return "a file that Zstandard compressed: decompress it first (zstd -d), or give it a name ending in .zst"
    if head.startswith(b"\x1f\x8b"):
        return "a file that gzip compressed: give it a name ending in .gz"
    if not head.strip():
        return "an empty file"
    members = read_object(head).members.keys()
    for what, keys in _SIGHTS:
        if members >= set(keys):
            return what
    return None
