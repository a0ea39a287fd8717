"""Attempts to change a ledger by way of the service that keeps it, with every scope: methods, the wire, whole entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from chatsnapshot.clock import uuid_text
from chatsnapshot.errors import LedgerError
from chatsnapshot.stores.base import Draft, Group, Query, Row
from chatsnapshot.stores.draft import make_draft
from chatsnapshot.stores.http import wire
from chatsnapshot.stores.http.store import HttpStore
from chatsnapshot.stores.open import locate

if TYPE_CHECKING:
    from chatsnapshot.testing.bench import Bench

__all__ = ["HTTP_ATTACKS"]

Work = Callable[[HttpStore, Sequence[Row]], object]


def _attack(work: Work) -> Callable[[Bench, str], None]:
    def attack(bench: Bench, place: str) -> None:
        import time

        from chatsnapshot.limits import DEFAULTS

        store = HttpStore(locate(place), create=False, read_only=False, clock=time.time_ns, limits=DEFAULTS)
        try:
            page = store.read(Query(), after=0, until=6, limit=6, reverse=False, hint=None)
            work(store, page.rows)
        finally:
            store.close()

    return attack


def _method(method: str, path: str = "/events/{id}") -> Work:
    def work(store: HttpStore, rows: Sequence[Row]) -> None:
        where = path.format(id=uuid_text(rows[2][3]))
        answer = store._asking.call(method, where, b"{}", 5.0)
        if answer.status >= 400:
            raise LedgerError(f"status {answer.status}")

    return work


def _rows(change: Callable[[list[Row]], Sequence[Row]]) -> Work:
    return lambda store, rows: store.import_rows(change(list(rows)), {})


def _at(row: Row, index: int, value: Any) -> Row:
    columns: list[Any] = list(row)
    columns[index] = value
    return tuple(columns)


def _other_content(store: HttpStore, rows: Sequence[Row]) -> None:
    row = rows[2]
    columns: Any = (*row[3:9], b'{"role":"user","content":"forged"}', *row[10:12])
    draft: Draft = make_draft(columns, bytes(16), True, (), ())
    (outcome,) = store.append([Group([draft])])
    if isinstance(outcome, LedgerError):
        raise outcome


def _own_record(store: HttpStore, rows: Sequence[Row]) -> None:
    columns: Any = (
        bytes(16), "ledger.payload_erased", rows[2][5], '{"origin":"system","runtime":"none"}', "ledger", None,
        b'{"positions":[3]}', None, None,
    )  # fmt: skip
    (outcome,) = store.append([Group([make_draft(columns, bytes(16), True, (), ())])])
    if isinstance(outcome, LedgerError):
        raise outcome


def _no_record(store: HttpStore, rows: Sequence[Row]) -> None:
    record = make_draft(rows[0][3:12], bytes(16), True, (), ())
    store.erase([3], record)


def _forged_leaf(store: HttpStore, rows: Sequence[Row]) -> None:
    """A leaf that does not follow from its columns, sent past the client's own checks."""
    forged = _at(_at(_at(rows[5], 0, 7), 3, bytes(16)), 1, 99)
    body = wire.encode(wire.Import([forged], {}))
    store._asking.write("import", body, again=False)


HTTP_ATTACKS = {
    "change an event by PUT": _attack(_method("PUT")),
    "change an event by PATCH": _attack(_method("PATCH")),
    "remove an event": _attack(_method("DELETE")),
    "remove all events": _attack(_method("DELETE", "/events")),
    "remove the ledger": _attack(_method("DELETE", "")),
    "record other content under a known id": _attack(_other_content),
    "state an erasure without one": _attack(_own_record),
    "erase without a record of it": _attack(_no_record),
    "import over what is there": _attack(_rows(lambda rows: rows)),
    "import before the end": _attack(_rows(lambda rows: rows[3:])),
    "leave a hole": _attack(_rows(lambda rows: [_at(_at(rows[5], 0, 9), 3, bytes(16))])),
    "import a known id": _attack(_rows(lambda rows: [_at(rows[5], 0, 7)])),
    "import a forged leaf": _attack(_forged_leaf),
}
