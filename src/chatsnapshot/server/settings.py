"""What a service is started with: its ledgers, and every limit with its unit and default."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from chatsnapshot.limits import KIB, MIB

__all__ = ["Settings"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a service behaves. ``ledgers`` maps each name in a path to the URL of a ledger."""

    ledgers: Mapping[str, str] = {}
    create: bool = True
    """Make ledgers that are not there."""

    any_ledger: str | None = None
    """A folder: every name of a ledger is a SQLite file in it, made where a key with the scope admin asks for it."""

    client_clock: bool = False
    """Let clients of the store wire say what time it is, so that a recording can be repeated; for tests."""

    redact: str | None = "secrets"
    """What events pass before they are stored: the built-in patterns for secrets, or nothing."""

    helper: bool = True
    """Read large OTLP bodies in a second process, where there is a second core."""

    audit_reads: bool = False
    """Record that a key read, before it does: once a minute for each key and path."""

    hosts: tuple[str, ...] = ()
    """Names that the Host header may hold beside loopback, without a port."""

    body_bytes_max: int = 8 * MIB
    """Bytes of a request that is held in memory whole, after decompression; lines may come without end."""

    store_bytes_max: int = 96 * MIB
    """Bytes of one request of the store wire: a batch with its blobs."""

    staged_bytes_max: int = 1024 * MIB
    """Bytes of large blobs that wait on disk, in parts, for the request that names them; more is answered with 503."""

    event_bytes_max: int = 8 * MIB + 64 * KIB
    """Bytes of one event, as one line of NDJSON."""

    batch_events_max: int = 1_000
    """Events in one JSON array."""

    depth_max: int = 64
    """Nesting of JSON that is taken."""

    gzip_ratio_max: int = 100
    """How many times its size a compressed body may grow to."""

    head_seconds_max: float = 15.0
    """A connection on which no request is complete for so long is closed, also one that sends bit by bit."""

    connections_max: int = 4_000
    """Connections at once; of more, the one that is idle for longest is closed."""

    body_seconds_max: float = 30.0
    """A body of which nothing new arrives for so long is given up."""

    bodies_bytes_max: int = 192 * MIB
    """Bytes of all requests that are held at once; more are answered with 503 and Retry-After."""

    requests_max: int = 2_000
    """Requests under way at once, live streams among them; more are answered with 503 and Retry-After."""

    recordings_max: int = 500
    """Requests that wait for a commit at once; more are answered with 503 and Retry-After."""

    commit_seconds_max: float = 60.0
    """A commit that takes longer is answered with 503: whether it happened is not known then."""

    uploads_max: int = 32
    """Uploads of lines at once; more are answered with 503 and Retry-After."""

    ledgers_open_max: int = 100
    """Ledgers of ``any_ledger`` that are open at once; more are answered with 503 and Retry-After."""

    streams_max: int = 1_000
    """Live streams at once; more are answered with 503 and Retry-After."""

    stall_seconds_max: float = 60.0
    """A live stream whose client takes nothing for so long is given up; it goes on where it was by connecting again."""

    heartbeat_seconds: float = 15.0
    """A live stream that has nothing to say says so, with its position, this often."""
