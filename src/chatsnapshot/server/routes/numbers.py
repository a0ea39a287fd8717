"""``GET /metrics``: what the service counts, for Prometheus. With keys it needs one with the scope read."""

from __future__ import annotations

import os
import time

from starlette.requests import Request
from starlette.responses import Response

from chatsnapshot import __version__
from chatsnapshot.ledger import Ledger
from chatsnapshot.server.exposition import CONTENT_TYPE, Family, histogram, text_of
from chatsnapshot.server.problems import Problem
from chatsnapshot.server.service import Service

__all__ = ["metrics"]

_LOOK_SECONDS = 1.0
"""A ledger whose store does not answer within this is left out; the other numbers still come."""


async def metrics(service: Service, request: Request) -> Response:
    """The numbers. Raises :class:`Problem` 401, 403."""
    access = await service.gate.admit(request)
    if "read" not in access.scopes:
        raise Problem(403, "scope", "this needs a key with the scope read", scope="read")
    shown = {
        name: ledger
        for name, ledger in service.ledgers.items()
        if access.ledgers is None or name in access.ledgers
    }
    heads = await service.looks.heads(shown, _LOOK_SECONDS)
    # What all ledgers share in is not for a key of some: it would tell of the others.
    shared = [*_of_process(), *_of_service(service)] if access.ledgers is None else []
    families = [*shared, *_of_ledgers(shown, heads)]
    return Response(text_of(families), headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})


def _one(name: str, kind: str, help: str, value: float) -> Family:
    return Family(name, kind, help, [("", (), value)])


def _of_process() -> list[Family]:
    families = [
        Family(
            "chatsnapshot_build_info",
            "gauge",
            "The version that runs; always 1.",
            [("", (("version", __version__),), 1)],
        ),
        _one(
            "process_cpu_seconds_total",
            "counter",
            "CPU seconds of this process, user and system.",
            time.process_time(),
        ),
    ]
    resident = _resident_bytes()
    if resident is not None:
        families.append(_one("process_resident_memory_bytes", "gauge", "Resident memory.", resident))
    return families


def _resident_bytes() -> int | None:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None  # not Linux


def _of_service(service: Service) -> list[Family]:
    counts = service.counts
    return [
        Family(
            "chatsnapshot_http_requests_total",
            "counter",
            "Requests by method, route and status; route none is no path of the service, status none was never sent.",
            [
                ("", (("method", method), ("route", route), ("status", status)), count)
                for (method, route, status), count in sorted(counts.requests.items())
            ],
        ),
        histogram(
            "chatsnapshot_http_request_duration_seconds",
            "Seconds until the answer began, by route.",
            "route",
            counts.durations,
        ),
        Family(
            "chatsnapshot_problems_total",
            "counter",
            "Problems that were answered, by kind.",
            [("", (("kind", kind),), count) for kind, count in sorted(counts.problems.items())],
        ),
        _one("chatsnapshot_events_recorded_total", "counter", "Events stored over HTTP.", counts.events),
        _one(
            "chatsnapshot_events_known_total",
            "counter",
            "Events acknowledged that had been there before: retries.",
            counts.known,
        ),
        _one("chatsnapshot_http_requests_open", "gauge", "Requests under way.", counts.open),
        _one("chatsnapshot_http_held_bytes", "gauge", "Bytes of bodies held in memory.", service.held.bytes),
        _one("chatsnapshot_uploads_open", "gauge", "Uploads of lines under way.", service.uploads.taken),
        _one("chatsnapshot_streams_open", "gauge", "Live streams.", service.streams.taken),
    ]


def _of_ledgers(ledgers: dict[str, Ledger], heads: dict[str, int | None]) -> list[Family]:
    queued = [
        ("", (("ledger", name),), float(ledger._recorder.queued)) for name, ledger in sorted(ledgers.items())
    ]
    positions = [
        ("", (("ledger", name),), float(head)) for name, head in sorted(heads.items()) if head is not None
    ]
    readable = [("", (("ledger", name),), float(head is not None)) for name, head in sorted(heads.items())]
    return [
        Family("chatsnapshot_queue_events", "gauge", "Events that wait for the writer.", queued),
        Family("chatsnapshot_head_position", "gauge", "The last position of the ledger.", positions),
        Family(
            "chatsnapshot_ledger_readable", "gauge", "1 where the store answered within a second.", readable
        ),
    ]
