"""Reads the payloads of what concerns access to a ledger over its service: keys, wrong ones, reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from chatsnapshot.events.fields import ident, strings, text_of, whole

__all__ = ["KeyFact", "ReadingFact", "RefusalFact", "read_key", "read_reading", "read_refusal"]


class KeyFact(msgspec.Struct, frozen=True):
    """A key that was made or revoked."""

    key_id: str | None
    name: str | None
    scopes: tuple[str, ...]
    expires_at: str | None
    by: str | None

    @property
    def text(self) -> str:
        """``k3x81hq2 (nightly import), may ingest, until 2027-02-28…, by user ledger``."""
        named = f"{self.key_id or ''} ({self.name})" if self.name else self.key_id
        may = f"may {' and '.join(self.scopes)}" if self.scopes else None
        until = f"until {self.expires_at}" if self.expires_at else None
        return ", ".join(filter(None, (named, may, until, f"by {self.by}" if self.by else None)))


class RefusalFact(msgspec.Struct, frozen=True):
    """Wrong keys that came again and again."""

    tries: int | None
    network: str | None

    @property
    def text(self) -> str:
        """``5 wrong keys, the last from 192.0.2.0/24``."""
        tries = "" if self.tries is None else f"{self.tries:,} wrong keys"
        return ", ".join(filter(None, (tries, f"the last from {self.network}" if self.network else None)))


class ReadingFact(msgspec.Struct, frozen=True):
    """What a key read."""

    key_id: str | None
    path: str | None

    @property
    def text(self) -> str:
        """``/runs/run-7 with the key k3x81hq2``."""
        return " ".join(filter(None, (self.path, f"with the key {self.key_id}" if self.key_id else None)))


def read_key(payload: Mapping[str, Any]) -> KeyFact:
    """Which key, for what, by whom."""
    return KeyFact(
        ident(payload.get("key_id")),
        _text(payload.get("name")),
        strings(payload.get("scopes")),
        _text(payload.get("expires_at")),
        _text(payload.get("by")),
    )


def read_refusal(payload: Mapping[str, Any]) -> RefusalFact:
    """How many wrong keys, and from where."""
    return RefusalFact(whole(payload.get("tries")), _text(payload.get("network")))


def read_reading(payload: Mapping[str, Any]) -> ReadingFact:
    """Which key read what."""
    return ReadingFact(ident(payload.get("key_id")), _text(payload.get("path")))


def _text(value: Any) -> str | None:
    return text_of(value) or None
