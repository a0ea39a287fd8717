"""How ADK sessions stand in a ledger: the entries of one session, and the folds that give sessions and state back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import Corrupt, FormatTooNew

__all__ = [
    "APPENDED",
    "CREATED",
    "DELETED",
    "FORMAT",
    "SHARED",
    "Key",
    "SharedState",
    "StoredSession",
    "correlation_of",
    "scopes_of",
]

CREATED = "google_adk.session_created"
APPENDED = "google_adk.session_event"
DELETED = "google_adk.session_deleted"
SHARED = "google_adk.state_changed"
"""State of an app or a user, which all of their sessions see; recorded beside the event that changes it."""
FORMAT = 1

Key = tuple[str, str, str]
"""App name, user id, session id."""

_CORRELATION_CHARS_MAX = 256


def correlation_of(key: Key) -> str:
    """The correlation of a session: its names, percent-encoded; where that is too long, their digest."""
    readable = "google_adk.sessions:" + "/".join(quote(part, safe="") for part in key)
    if len(readable) <= _CORRELATION_CHARS_MAX:
        return readable
    return "google_adk.sessions:sha256:" + hashlib.sha256(readable.encode()).hexdigest()


def scopes_of(state: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The parts of a state that belong to the app, to the user (both without their prefix) and to the session.

    What begins with ``temp:`` lives for one invocation only and is in none of them.
    """
    app: dict[str, Any] = {}
    user: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for key, value in (state or {}).items():
        if key.startswith("app:"):
            app[key[4:]] = value
        elif key.startswith("user:"):
            user[key[5:]] = value
        elif not key.startswith("temp:"):
            own[key] = value
    return app, user, own


@dataclass
class StoredSession:
    """A session as its entries tell it; ``apply`` takes the next one in."""

    key: Key | None = None
    exists: bool = False
    state: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    updated: float = 0.0
    """ADK's ``last_update_time``: seconds since 1970, of the last event."""
    sequence: int = 0
    """Of the last entry in the session's correlation."""
    keep_events: bool = True

    def apply(self, entry: LedgerEntry) -> None:
        """Take in an entry of this session. One whose payload was erased is passed over.

        Raises :class:`FormatTooNew` and :class:`Corrupt`, with the position.
        """
        self.sequence = entry.sequence or self.sequence
        kind = entry.event_type
        if kind == DELETED:
            self.exists, self.state, self.events = False, {}, []
            return
        if kind not in (CREATED, APPENDED) or entry.erased:
            self.exists = self.exists or kind == CREATED
            return
        told = _told(entry)
        try:
            if kind == CREATED:
                self.key = (told["app"], told["user"], told["session"])
                self.exists, self.state, self.events = True, dict(told["state"]), []
            else:
                self.state.update(scopes_of(told["state"])[2])
                if self.keep_events:
                    self.events.append({"event": told["event"], "state": told["state"]})
            self.updated = float(told["at"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _strange(entry, error) from None


@dataclass
class SharedState:
    """The state of apps and users, as of a position."""

    position: int = 0
    apps: dict[str, dict[str, Any]] = field(default_factory=dict)
    users: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    def follow(self, entries: Iterable[LedgerEntry]) -> None:
        """Take in the entries of type :data:`SHARED` that came since, in order."""
        for entry in entries:
            if not entry.erased:
                told = _told(entry)
                try:
                    app, user = told["app"], told["user"]
                    self.apps.setdefault(app, {}).update(told.get("app_state") or {})
                    self.users.setdefault((app, user), {}).update(told.get("user_state") or {})
                except (KeyError, TypeError, ValueError, AttributeError) as error:
                    raise _strange(entry, error) from None
            self.position = entry.position


def _told(entry: LedgerEntry) -> Any:
    told = entry.value()
    made_in = told.get("format") if isinstance(told, dict) else None
    if isinstance(made_in, int) and made_in > FORMAT:
        raise FormatTooNew(
            f"the ADK session at position {entry.position} was stored in format {made_in} and this version reads format "
            f"{FORMAT}; upgrade chatsnapshot"
        )
    return told


def _strange(entry: LedgerEntry, error: Exception) -> Corrupt:
    return Corrupt(
        f"the entry at position {entry.position} is no {entry.event_type} of ours ({type(error).__name__}: {error}); "
        "run: chatsnapshot verify",
        position=entry.position,
    )
