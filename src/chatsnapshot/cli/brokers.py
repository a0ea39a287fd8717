"""Ingesting from a broker on the command line: until Ctrl-C or SIGTERM, with what became of the messages at the end."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from chatsnapshot.cli.failures import INTERRUPTED, OK, PARTIAL
from chatsnapshot.cli.opening import open_to_write
from chatsnapshot.cli.terminal import Terminal, dim, green, red
from chatsnapshot.cli.wording import count
from chatsnapshot.errors import LedgerError

if TYPE_CHECKING:
    from chatsnapshot.ingest.brokers.taking import BrokerReport, Refused, Taker

__all__ = ["ingest_broker", "is_broker"]

_NATS = ("nats", "tls")
_REDIS = ("redis", "rediss", "unix")
_KAFKA = ("kafka",)
_SHOW_SECONDS = 0.2


def is_broker(text: object) -> bool:
    """Whether an input is the URL of a broker, and no file."""
    return isinstance(text, str) and _scheme(text) in (*_NATS, *_REDIS, *_KAFKA) and "://" in text


def _scheme(url: str) -> str:
    return url.partition("://")[0].lower()


def ingest_broker(
    url: str,
    *,
    correlation_id: str | None,
    event_type: str | None,
    source: Mapping[str, Any] | None,
    redact: str | None,
    until_idle: bool,
    bad_lines: Any,
    as_json: bool,
) -> int:
    """Take messages until told to end; gives the exit code."""
    from chatsnapshot.ingest.brokers.taking import Taker

    stream, follow = _broker(url)

    def note_refused(refused: Refused) -> None:
        document = {"input": stream.url, "message": refused.message, "reason": refused.reason}
        bad_lines.write(msgspec.json.encode(document).decode() + "\n")
        bad_lines.flush()

    with open_to_write() as ledger:
        taker = Taker(
            ledger,
            correlation_id=correlation_id,
            event_type=event_type,
            source=source,
            redact=redact,
            on_refused=None if bad_lines is None else note_refused,
        )
        try:
            signalled = asyncio.run(_follow(follow, stream, taker, until_idle))
        except LedgerError:
            _tell(f"{_words(taker.report)}; the same command again goes on from there")
            raise
    if signalled == signal.SIGINT:
        _tell(f"interrupted; {_words(taker.report)}; the same command again goes on from there")
    _show(stream.url, taker.report, as_json)
    if signalled == signal.SIGINT:
        return INTERRUPTED
    return PARTIAL if taker.report.refused_count else OK


def _broker(url: str) -> tuple[Any, Any]:
    """Where messages come from, and the function that follows it."""
    if _scheme(url) in _REDIS:
        from chatsnapshot.ingest.brokers import redis, redisaddress

        return redisaddress.read_stream(url), redis.follow
    if _scheme(url) in _KAFKA:
        from chatsnapshot.ingest.brokers import kafka, kafkaaddress

        return kafkaaddress.read_topic(url), kafka.follow
    from chatsnapshot.ingest.brokers import nats, natsaddress

    return natsaddress.read_stream(url), nats.follow


async def _follow(follow: Any, stream: Any, taker: Taker, until_idle: bool) -> int:
    """Follow the stream; gives the signal that ended it, or 0."""
    stop = asyncio.Event()
    with _signals(stop) as signalled:
        await follow(stream, taker, stop, until_idle=until_idle, progress=_Shown(), note=_tell)
    return signalled[0] if signalled else 0


@contextmanager
def _signals(stop: asyncio.Event) -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM set ``stop``: what was fetched is stored first. A second Ctrl-C cuts it short."""
    loop = asyncio.get_running_loop()
    signalled: list[int] = []

    def end(number: int) -> None:
        signalled.append(number)
        stop.set()
        if number == signal.SIGINT:
            loop.remove_signal_handler(signal.SIGINT)

    added = []
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, end, number)
            added.append(number)
    except (NotImplementedError, RuntimeError, ValueError):
        pass  # not on this system, or not the main thread
    try:
        yield signalled
    finally:
        for number in added:
            loop.remove_signal_handler(number)


class _Shown:
    """A changing line on a terminal's standard error; nothing elsewhere."""

    def __init__(self) -> None:
        self._there = sys.stderr is not None and sys.stderr.isatty()
        self._at = 0.0

    def __call__(self, report: BrokerReport) -> None:
        if self._there and time.monotonic() - self._at >= _SHOW_SECONDS:
            self._at = time.monotonic()
            sys.stderr.write(f"\r{_words(report)}\x1b[K")
            sys.stderr.flush()


def _words(report: BrokerReport) -> str:
    words = f"{report.stored:,} stored, {report.known:,} known"
    return f"{words}, {report.refused_count:,} set aside" if report.refused_count else words


def _show(label: str, report: BrokerReport, as_json: bool) -> None:
    out = Terminal.stdout()
    if as_json:
        document = msgspec.structs.asdict(report)
        document["refused"] = [msgspec.structs.asdict(one) for one in report.refused]
        out.json_line(msgspec.json.encode({"input": label, **document}))
        out.flush()
        return
    pieces = [f"  {count(report.stored, 'event')} stored", f"{report.known:,} known"]
    if report.refused_count:
        pieces.append(f"{count(report.refused_count, 'message')} set aside")
    out.line(green(out.one_line(label)), ", ".join(pieces))
    for one in report.refused:
        out.line("  ", red(out.one_line(one.message)), "  ", out.one_line(one.reason))
    if report.refused_count > len(report.refused):
        out.line("  ", dim(f"and {report.refused_count - len(report.refused):,} more"))
    if report.refused_count:
        out.line("  ", dim("each is an event ledger.rejected with its content: chatsnapshot timeline ledger"))
    out.flush()


def _tell(text: str) -> None:
    out = Terminal.of(sys.stderr)
    out.line()
    out.line(text)
    out.flush()
