"""``POST /v1/store/…``: the Store contract on the wire, for the HTTP store of other machines.

Nothing that a client derives is believed: columns are checked as those of any event, commitments, headers and leaves are
made here. Each operation needs its scope; states of projections and whole entries are for ``admin``.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from starlette.responses import Response

from chatsnapshot.errors import InvalidEvent, LedgerError, LimitExceeded, NotFound
from chatsnapshot.projections.base import Projection
from chatsnapshot.projections.engine import resolve
from chatsnapshot.projections.stored import bring_up
from chatsnapshot.reading import check_query
from chatsnapshot.recorder import Recorder
from chatsnapshot.server.endpoints import Call, Scope
from chatsnapshot.server.incoming import erasure_of, groups_of, promotes
from chatsnapshot.server.problems import Problem, problem_of
from chatsnapshot.server.routes.storewire import answer_of, in_thread, request_of, wire_endpoint
from chatsnapshot.server.staging import owner_of
from chatsnapshot.stores.base import Group, Outcome, Query, Row
from chatsnapshot.stores.http import wire

__all__ = ["ENDPOINTS"]

_ENGINE = "chatsnapshot.projections.engine"
_SEARCH = "chatsnapshot.projections.search.searching"
_FEEDS = ("@feeds", "feed:")
"""Cursors of feeds are kept like states; who may read and record may move them."""
_IDS_MAX = 100_000
_VIEWS_MAX = 100
_WAIT_SECONDS_MAX = 30.0
_NOTHING = Query(event_types=("ledger.none",))

# --- writing ---


async def _append(call: Call) -> Response:
    request, size = await request_of(call, wire.Append)
    try:
        if not promotes(request):
            call.ledger._check_writable()
        async with call.service.staging.filling(call, wire.left_out(request)) as blobs:
            if blobs:
                wire.put_in(request, blobs)
            prepared = await asyncio.to_thread(groups_of, call, request)
            outcomes = await _commit(call, prepared, request.clock)
        call.service.counts.recorded(sum(len(one) for one in outcomes if isinstance(one, list)))
        return answer_of(
            [
                _told(outcome, group, given)
                for outcome, group, given in zip(outcomes, prepared, request.groups, strict=True)
            ]
        )
    finally:
        call.service.held.give(size)


async def _part(call: Call) -> Response:
    """A part of a blob that is too large for one request."""
    request, size = await request_of(call, wire.Part)
    try:
        staging, limit = call.service.staging, call.ledger.limits.blob_bytes_max
        return answer_of(await asyncio.to_thread(staging.put, owner_of(call), request, limit))
    finally:
        call.service.held.give(size)


async def _commit(
    call: Call, prepared: Sequence[Group | LedgerError], clock: int | None
) -> Sequence[Outcome]:
    """Through the recorder of the ledger, so that requests that come at once are one commit."""
    groups = [one for one in prepared if isinstance(one, Group)]
    found: Sequence[Outcome]
    if clock is not None and call.service.settings.client_clock:
        found = await asyncio.to_thread(_append_at, call, groups, clock)
    else:
        found = await _in_order(call.ledger._recorder, groups)
    answers = iter(found)
    return [one if isinstance(one, LedgerError) else next(answers) for one in prepared]


async def _in_order(recorder: Recorder, groups: Sequence[Group]) -> Sequence[Outcome]:
    """Each group joins the queue before the next one; what keeps one from being stored is its own outcome."""
    waiting: list[asyncio.Future[Outcome]] = []
    for group in groups:
        one = recorder.acommit(group)
        if not isinstance(one, asyncio.Future):  # there was no room: the next one waits too
            one = asyncio.ensure_future(one)
            await asyncio.wait([one])
        waiting.append(one)
    return [await _outcome(one) for one in waiting]


async def _outcome(waiting: asyncio.Future[Outcome]) -> Outcome:
    try:
        return await waiting
    except LedgerError as error:
        return error


def _append_at(call: Call, groups: Sequence[Group], clock: int) -> Sequence[Outcome]:
    with call.service.clock.at(clock):
        outcomes = call.ledger._store.append(groups)
    call.ledger._bell.ring()
    return outcomes


def _told(outcome: Outcome, group: Group | LedgerError, given: wire.WireGroup) -> Any:
    if isinstance(outcome, LedgerError):
        return problem_of(outcome).body()
    assert isinstance(group, Group)
    return [
        wire.placed(row, draft, sent)
        for row, draft, sent in zip(outcome, group.drafts, given.drafts, strict=True)
    ]


def _erase(call: Call, request: wire.Erase) -> Any:
    ledger = call.ledger
    ledger._check_writable()
    record = erasure_of(call, request)
    importlib.import_module(_ENGINE).forget(ledger, request.positions)
    if request.clock is not None and call.service.settings.client_clock:
        with call.service.clock.at(request.clock):
            row = ledger._store.erase(request.positions, record)
    else:
        row = ledger._store.erase(request.positions, record)
    importlib.import_module(_SEARCH).forget(ledger, request.positions)
    ledger._bell.ring()
    return wire.placed(row, record, request.record)


async def _import(call: Call) -> Response:
    request, size = await request_of(call, wire.Import)
    try:
        left_out = [digest for digest, data in request.blobs.items() if not data and digest != wire.EMPTY]
        async with call.service.staging.filling(call, left_out) as blobs:
            for digest in left_out:
                del request.blobs[digest]  # what is not among the parts is in the ledger
            request.blobs.update(blobs)
            await asyncio.to_thread(_imported, call, request)
        return answer_of(None)
    finally:
        call.service.held.give(size)


def _imported(call: Call, request: wire.Import) -> None:
    for digest, data in request.blobs.items():
        if sha256(data).digest() != digest:
            raise InvalidEvent(f"blob sha256:{digest.hex()} does not hash to its name", path="blobs")
    if len(request.rows) > call.ledger.limits.batch_events_max:
        raise LimitExceeded(
            "batch_events_max",
            call.ledger.limits.batch_events_max,
            len(request.rows),
            "import less at a time",
        )
    call.ledger._store.import_rows(request.rows, request.blobs)
    call.ledger._bell.ring()


# --- states ---


def _states(call: Call, name: str) -> None:
    """Who may change a state: for cursors of feeds who reads and records, for views ``admin``."""
    wanted: tuple[Scope, ...] = ("read", "ingest") if name.startswith(_FEEDS) else ("admin",)
    missing = [scope for scope in wanted if not call.access.allows(scope, call.name)]
    if missing and not call.access.allows("admin", call.name):
        raise Problem(403, "scope", f"this needs a key with the scope {missing[0]}", scope=missing[0])
    call.ledger._check_writable()


def _bring_up(call: Call, request: wire.Bring) -> None:
    """Store what is new of views that this program has in the same version; what goes wrong is folded by the client."""
    wanted: list[Projection[Any]] = []
    for name, version in request.projections[:_VIEWS_MAX]:
        try:
            found = resolve(name)
        except NotFound:
            continue
        if found.version == version:
            wanted.append(found)
    bring_up(call.ledger, wanted, whole=request.whole)


def _save(call: Call, request: wire.Save) -> bool:
    _states(call, request.name)
    return call.ledger._store.save_states(
        request.name, request.version, request.before, request.after, request.states
    )


def _drop(call: Call, request: wire.Named) -> None:
    _states(call, request.name)
    call.ledger._store.drop_states(request.name, request.version)


# --- reading ---


def _open(call: Call, request: None) -> wire.Opened:
    settings, store = call.service.settings, call.ledger._store
    return wire.Opened(store.ledger_id, store.traits, settings.store_bytes_max, settings.client_clock)


def _read(call: Call, request: wire.Asked) -> Any:
    limit = min(request.limit, call.ledger.limits.page_entries_max)
    if limit < 1 or request.after < 0 or request.until < 0:
        raise Problem(400, "parameter", "after and until are positions, and limit is 1 or more")
    check_query(request.query)
    return call.ledger._store.read(
        request.query,
        after=request.after,
        until=request.until,
        limit=limit,
        reverse=request.reverse,
        hint=request.hint,
    )


def _get(call: Call, request: list[bytes]) -> list[Row]:
    if len(request) > _IDS_MAX or any(len(one) != 16 for one in request):
        raise Problem(400, "parameter", f"ids are at most {_IDS_MAX:,} of 16 bytes each")
    return list(call.ledger._store.get(request).values())


def _blob(call: Call, request: bytes) -> bytes | None:
    parts = call.ledger._store.blob(request)
    return None if parts is None else b"".join(parts)


async def _examine(call: Call) -> Response:
    _, size = await request_of(call, None)
    call.service.held.give(size)
    with call.service.verifications.one():
        return answer_of(await asyncio.to_thread(lambda: list(call.ledger._store.examine())))


async def _wait(call: Call) -> Response:
    """The head, as soon as it is beyond a position or after a while."""
    (after, seconds), size = await request_of(call, tuple[int, float])
    call.service.held.give(size)
    head = (await asyncio.to_thread(call.ledger._store.head)).size
    if 0 <= after < head or after < 0:
        return answer_of(head)
    with call.service.streams.one():
        quiet = min(max(seconds, 0.0), _WAIT_SECONDS_MAX)
        follow = call.service.live(call.name).follow(_NOTHING, head, quiet)
        try:
            async for found in follow:
                head = max(head, found.scanned_to)
                break
        finally:
            await follow.aclose()
    return answer_of(head)


def _keys(call: Call, request: wire.Keys) -> list[str]:
    return call.ledger._store.keys(
        request.name,
        request.version,
        prefix=request.prefix,
        after=request.after,
        limit=min(max(request.limit, 0), 10_000),
        reverse=request.reverse,
    )


ENDPOINTS = (
    wire_endpoint("append", "ingest", "commit groups of events, each whole or not at all", _append),
    wire_endpoint(
        "erase", "admin", "store the record of an erasure and remove payloads", in_thread(wire.Erase, _erase)
    ),
    wire_endpoint("import", "admin", "take whole entries at head + 1 and on", _import),
    wire_endpoint("part", "ingest", "a part of a large blob, ahead of the request that names it", _part),
    wire_endpoint("open", "any", "which ledger this is and what it claims", in_thread(None, _open)),
    wire_endpoint(
        "head",
        "read",
        "size, frontier and time of the head",
        in_thread(None, lambda call, _: call.ledger._store.head()),
    ),
    wire_endpoint("wait", "read", "the head, once it is beyond a position", _wait),
    wire_endpoint("read", "read", "one page of rows", in_thread(wire.Asked, _read)),
    wire_endpoint("get", "read", "rows by their ids", in_thread(list[bytes], _get)),
    wire_endpoint(
        "last_sequence",
        "read",
        "the last sequence of a correlation",
        in_thread(str, lambda call, text: call.ledger._store.last_sequence(text)),
    ),
    wire_endpoint(
        "children",
        "read",
        "correlations that an event of this one began",
        in_thread(str, lambda call, text: call.ledger._store.children(text)),
    ),
    wire_endpoint(
        "tile",
        "read",
        "a full tile of hashes",
        in_thread(tuple[int, int], lambda call, at: call.ledger._store.tile(*at)),
    ),
    wire_endpoint("blob", "read", "the bytes of a blob", in_thread(bytes, _blob)),
    wire_endpoint(
        "blobs", "read", "every blob", in_thread(None, lambda call, _: list(call.ledger._store.blobs()))
    ),
    wire_endpoint("examine", "read", "what the store finds wrong with itself", _examine),
    wire_endpoint(
        "checkpoint",
        "read",
        "where a projection stands",
        in_thread(wire.Named, lambda call, one: call.ledger._store.checkpoint(one.name, one.version)),
    ),
    wire_endpoint(
        "load_state",
        "read",
        "the state of a projection for a key",
        in_thread(
            wire.Named, lambda call, one: call.ledger._store.load_state(one.name, one.version, one.key)
        ),
    ),
    wire_endpoint("bring_up", "read", "store what is new of views", in_thread(wire.Bring, _bring_up)),
    wire_endpoint("keys", "read", "keys that have a state", in_thread(wire.Keys, _keys)),
    wire_endpoint("save_states", "read", "store states by compare-and-set", in_thread(wire.Save, _save)),
    wire_endpoint("drop_states", "read", "forget the states of a projection", in_thread(wire.Named, _drop)),
)
