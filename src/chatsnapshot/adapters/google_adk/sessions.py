"""``ChatSnapshotSessionService``: Google ADK's sessions, events and state on a ledger."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from chatsnapshot.adapters.google_adk.runtime import RUNTIME, adk
from chatsnapshot.adapters.google_adk.sessionlog import (
    APPENDED,
    CREATED,
    DELETED,
    FORMAT,
    SHARED,
    Key,
    SharedState,
    StoredSession,
    correlation_of,
    scopes_of,
)
from chatsnapshot.clock import time_text
from chatsnapshot.errors import SequenceConflict
from chatsnapshot.ledger import Ledger

__all__ = ["ChatSnapshotSessionService"]

_base: Any = adk(
    "sessions.base_session_service",
    "BaseSessionService._apply_temp_state",
    "BaseSessionService._trim_temp_delta_state",
    "BaseSessionService._commit_event_to_session",
    "BaseSessionService.get_user_state",
)
_errors: Any = adk("errors", "StaleSessionError")
_already: Any = adk("errors.already_exists_error", "AlreadyExistsError")
_missing: Any = adk("errors.session_not_found_error", "SessionNotFoundError")
_session: Any = adk("sessions.session", "Session")
_event: Any = adk("events.event", "Event")
_time: Any = adk("platform.time", "get_time")
_uuid: Any = adk("platform.uuid", "new_uuid")

_BaseSessionService: Any = _base.BaseSessionService
_SOURCE = {"origin": "system", "runtime": RUNTIME, "name": "ChatSnapshotSessionService"}
_MARKER = "chatsnapshot:"
_ATTEMPTS_MAX = 50
_STALE = (
    "session {id!r} was changed in the ledger after this object of it was read; get it anew with get_session and "
    "append to that"
)


class ChatSnapshotSessionService(_BaseSessionService):  # type: ignore[misc]
    """Keeps the sessions of any number of apps and users on ``ledger``; give it to ``Runner(session_service=…)``.

    An event is durable when :meth:`append_event` returns, and it lands only on the session that the caller has read:
    another writer in between raises ADK's ``StaleSessionError``. State scopes are ADK's: ``app:`` and ``user:`` keys
    are shared by all sessions of the app and of the user, ``temp:`` keys are never stored. The same event appended
    again is stored once. A deleted session is gone for ADK; its history stays in the ledger.

    Raises :class:`TypeError` for something that is no ledger.
    """

    def __init__(self, ledger: Ledger) -> None:
        if not isinstance(ledger, Ledger):
            raise TypeError(
                f"ChatSnapshotSessionService needs a ledger from chatsnapshot.open(), not {type(ledger).__name__}"
            )
        self._ledger = ledger
        self._shared = SharedState()
        self._listed: dict[str, StoredSession] = {}
        self._listed_to = 0
        self._mutex = threading.Lock()
        self._locks: Any = weakref.WeakKeyDictionary()

    # --- what ADK calls -----------------------------------------------------------------------------------

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Any:
        """Create a session; raises ADK's ``AlreadyExistsError`` when there is one of that id."""
        key = (app_name, user_id, (session_id or "").strip() or _uuid.new_uuid())
        app, user, own = scopes_of(state)
        at = _time.get_time()
        created = {"app": key[0], "user": key[1], "session": key[2], "state": own, "at": at}
        for _ in range(_ATTEMPTS_MAX):
            found = await asyncio.to_thread(self._load, key)
            if found.exists:
                raise _already.AlreadyExistsError(f"Session with id {key[2]} already exists.")
            drafts = [self._draft(CREATED, key, created, at)]
            if app or user:
                drafts.append(self._draft(SHARED, key, _changed(key, app, user), at))
            try:
                entries = await self._ledger.arecord_many(drafts, expected_sequence=found.sequence)
            except SequenceConflict:
                continue
            stored = StoredSession(key, True, own, [], at, entries[-1].sequence)
            return self._session(stored, key, await asyncio.to_thread(self._state_around), [])
        raise _errors.StaleSessionError(_STALE.format(id=key[2]))

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: Any = None
    ) -> Any | None:
        """The session with its events and the merged state, or ``None``."""
        key = (app_name, user_id, (session_id or "").strip())
        stored, around = await asyncio.to_thread(lambda: (self._load(key), self._state_around()))
        if not stored.exists:
            return None
        events = [_restored(one) for one in stored.events]
        return self._session(stored, key, around, _wanted(events, config))

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> Any:
        """The sessions of an app, or of one of its users, with state and without events; the latest used comes last."""
        found, around = await asyncio.to_thread(lambda: (self._list(app_name, user_id), self._state_around()))
        found.sort(key=lambda stored: (stored.updated, stored.key))
        sessions = [self._session(stored, stored.key, around, []) for stored in found if stored.key]
        return _base.ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session, if there is one: ADK finds it no more, and its id is free again."""
        key = (app_name, user_id, (session_id or "").strip())
        for _ in range(_ATTEMPTS_MAX):
            found = await asyncio.to_thread(self._load, key)
            if not found.exists:
                return
            draft = self._draft(DELETED, key, {}, _time.get_time())
            try:
                await self._ledger.arecord_many([draft], expected_sequence=found.sequence)
                return
            except SequenceConflict:
                continue
        raise _errors.StaleSessionError(_STALE.format(id=key[2]))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """The state of a user in an app, its keys without ``user:``."""
        around = await asyncio.to_thread(self._state_around)
        found: dict[str, Any] = _copied(around.users.get((app_name, user_id), {}))
        return found

    async def append_event(self, session: Any, event: Any) -> Any:
        """Store an event and apply it to ``session``; chunks of a stream (``partial``) are given back as they are.

        Raises ADK's ``SessionNotFoundError``, and its ``StaleSessionError`` when the session was changed meanwhile.
        """
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        key = (session.app_name, session.user_id, session.id)
        drafts = self._event_drafts(key, event)
        async with self._alone(key):
            sequence = await self._sequence_of(session, key)
            try:
                entries = await self._ledger.arecord_many(drafts, expected_sequence=sequence)
            except SequenceConflict:
                entries = []
            if entries and entries[0].sequence <= sequence:
                return event  # told once more: this session has it
            if not entries or entries[0].sequence != sequence + 1:
                if not (await asyncio.to_thread(self._load, key)).exists:
                    raise _missing.SessionNotFoundError(f"Session {session.id} not found.")
                raise _errors.StaleSessionError(_STALE.format(id=session.id))
            session.last_update_time = event.timestamp
            _mark(session, entries[-1].sequence)
            return self._commit_event_to_session(session, event)

    async def flush(self) -> None:
        """Wait until what else was given to the ledger is durable; events of sessions always are."""
        await self._ledger.aflush()

    # --- the ledger ---------------------------------------------------------------------------------------

    def _draft(self, kind: str, key: Key, payload: dict[str, Any], at: float) -> dict[str, Any]:
        draft = {
            "event_type": kind,
            "correlation_id": correlation_of(key),
            "payload": {"format": FORMAT, **payload},
            "source": _SOURCE,
        }
        if 0 < at < 253_402_300_800:
            draft["timestamp"] = time_text(int(at * 1_000_000) * 1_000)
        return draft

    def _event_drafts(self, key: Key, event: Any) -> list[dict[str, Any]]:
        delta = dict(event.actions.state_delta or {}) if event.actions else {}
        told = event.model_dump(mode="json", exclude_none=True, exclude={"actions": {"state_delta"}})
        payload = {"event": told, "state": _plain_models(delta), "at": event.timestamp}
        draft = self._draft(APPENDED, key, payload, event.timestamp)
        content = json.dumps([told, repr(delta)], sort_keys=True).encode()
        name = f"{event.id} {hashlib.sha256(content).hexdigest()}"
        drafts = [draft | {"idempotency_key": name}]
        app, user, _ = scopes_of(payload["state"])
        if app or user:
            shared = self._draft(SHARED, key, _changed(key, app, user), event.timestamp)
            drafts.append(shared | {"idempotency_key": f"{name} shared"})
        return drafts

    def _load(self, key: Key) -> StoredSession:
        stored = StoredSession()
        for entry in self._ledger.read(correlation_id=correlation_of(key)):
            stored.apply(entry)
        return stored

    def _list(self, app_name: str, user_id: str | None) -> list[StoredSession]:
        with self._mutex:
            kinds = [CREATED, APPENDED, DELETED]
            for entry in self._ledger.read(event_type=kinds, after=self._listed_to):
                one = self._listed.setdefault(entry.correlation_id, StoredSession(keep_events=False))
                one.apply(entry)
                self._listed_to = entry.position
            return [
                one
                for one in self._listed.values()
                if one.exists and one.key and one.key[0] == app_name and user_id in (None, one.key[1])
            ]

    def _state_around(self) -> SharedState:
        with self._mutex:
            self._shared.follow(self._ledger.read(event_type=SHARED, after=self._shared.position))
            return self._shared

    @asynccontextmanager
    async def _alone(self, key: Key) -> AsyncIterator[None]:
        """Branches that run beside each other share a session object and append to it one after the other."""
        locks = self._locks.setdefault(asyncio.get_running_loop(), weakref.WeakValueDictionary())
        lock = locks.get(key)
        if lock is None:
            lock = locks[key] = asyncio.Lock()
        async with lock:
            yield

    async def _sequence_of(self, session: Any, key: Key) -> int:
        """Up to which entry the caller knows the session."""
        marker = getattr(session, "_storage_update_marker", None)
        if isinstance(marker, str) and marker.startswith(_MARKER):
            return int(marker.removeprefix(_MARKER))
        stored = await asyncio.to_thread(self._load, key)
        if not stored.exists:
            raise _missing.SessionNotFoundError(f"Session {session.id} not found.")
        known = [event.id for event in session.events]
        if stored.updated > session.last_update_time and known != [
            one["event"].get("id") for one in stored.events
        ]:
            raise _errors.StaleSessionError(_STALE.format(id=session.id))
        return stored.sequence

    def _session(self, stored: StoredSession, key: Key, around: SharedState, events: list[Any]) -> Any:
        state = _copied(stored.state)
        state.update({f"app:{name}": value for name, value in _copied(around.apps.get(key[0], {})).items()})
        state.update(
            {f"user:{name}": value for name, value in _copied(around.users.get(key[:2], {})).items()}
        )
        session = _session.Session(
            app_name=key[0],
            user_id=key[1],
            id=key[2],
            state=state,
            events=events,
            last_update_time=stored.updated,
        )
        _mark(session, stored.sequence)
        return session


def _changed(key: Key, app: dict[str, Any], user: dict[str, Any]) -> dict[str, Any]:
    return {"app": key[0], "user": key[1], "app_state": app, "user_state": user}


def _mark(session: Any, sequence: int) -> None:
    """Note on the session, where ADK's own services do, up to which entry it was read."""
    session._storage_update_marker = f"{_MARKER}{sequence}"


def _restored(told: dict[str, Any]) -> Any:
    event = _event.Event.model_validate_json(json.dumps(told["event"]))
    event.actions.state_delta = _copied(told["state"])
    return event


def _wanted(events: list[Any], config: Any) -> list[Any]:
    """What a ``GetSessionConfig`` asks for."""
    count = getattr(config, "num_recent_events", None)
    if count is not None:
        events = events[-count:] if count else []
    since = getattr(config, "after_timestamp", None)
    if since is not None:
        old = [at for at, event in enumerate(events) if event.timestamp < since]
        events = events[old[-1] + 1 :] if old else events
    return events


def _copied(value: Any) -> Any:
    """A copy whose lists and dicts are its own."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _plain_models(value: Any) -> Any:
    """State with pydantic models as their fields, which is how they come back; everything else as it is."""
    if isinstance(value, dict):
        return {key: _plain_models(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain_models(item) for item in value]
    return value.model_dump(mode="json") if hasattr(type(value), "model_fields") else value
