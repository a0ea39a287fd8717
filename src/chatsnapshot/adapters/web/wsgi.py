"""Records the requests of a WSGI application (PEP 3333), each in a scope of its own that goes on from the caller's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.web.addresses import shown_path
from chatsnapshot.adapters.web.exchange import Exchange
from chatsnapshot.adapters.web.serving import Accept, Serving, aborted
from chatsnapshot.scope import Scope

if TYPE_CHECKING:
    from chatsnapshot.ledger import Ledger

__all__ = ["LedgerWsgiMiddleware"]

Environ = dict[str, Any]
App = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


class LedgerWsgiMiddleware:
    """As :class:`LedgerMiddleware`, around a WSGI application; ``accept`` may be a function of the environ."""

    def __init__(
        self,
        app: App,
        ledger: Ledger,
        *,
        service: str | None = None,
        exclude: Collection[str] = (),
        accept: Accept = True,
        redact: object = "secrets",
        wait_seconds_max: float = 5.0,
    ) -> None:
        self.app = app
        self.serving = Serving(
            ledger,
            service=service,
            exclude=exclude,
            accept=accept,
            redact=redact,
            wait_seconds_max=wait_seconds_max,
            adapter="wsgi",
        )

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        begun = self._begin(environ)
        if begun is None:
            return self.app(environ, start_response)
        exchange, around = begun
        answer = _Answer(exchange, self.serving, around)
        self.serving.recorder.record(exchange.started)

        def started(status: str, headers: Any, *more: Any) -> Any:
            answer.status = _number(status)
            return start_response(status, headers, *more)

        try:
            with around:
                answer.body = self.app(environ, started)
        except BaseException as error:
            answer.end(error)
            raise
        return answer

    def _begin(self, environ: Environ) -> tuple[Exchange, Scope] | None:
        try:
            path = f"{environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}" or "/"
            if self.serving.leaves_out(path):
                return None
            headers = {
                key[5:].replace("_", "-").lower(): value
                for key, value in environ.items()
                if key.startswith("HTTP_")
            }
            shown = shown_path(path, str(environ.get("QUERY_STRING", "")))
            method = str(environ.get("REQUEST_METHOD", "?"))
            return self.serving.begin(environ, headers, method, path, shown)
        except Exception as error:
            self.serving.recorder.note(error)
            return None


class _Answer:
    """The body of an answer: each step of it runs in the request's scope, and its end is recorded."""

    def __init__(self, exchange: Exchange, serving: Serving, around: Scope) -> None:
        self.body: Iterable[bytes] = ()
        self.status: int | None = None
        self._exchange = exchange
        self._recorder = serving.recorder
        self._around = around
        self._pieces: Iterator[bytes] | None = None

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            with self._around:
                if self._pieces is None:
                    self._pieces = iter(self.body)
                return next(self._pieces)
        except StopIteration:
            self.end(None)
            raise
        except BaseException as error:
            self.end(error)
            raise

    def close(self) -> None:
        """Called by the server in the end, also when the client went away."""
        try:
            close = getattr(self.body, "close", None)
            if close is not None:
                with self._around:
                    close()
        except BaseException as error:
            self.end(error)
            raise
        self.end(aborted("the client went away, or the server stopped, before the end of the answer"))

    def end(self, error: BaseException | dict[str, str] | None) -> None:
        """Record the end, unless it was."""
        event = self._exchange.ended(self.status, error)
        if event is not None:
            self._recorder.record(event)


def _number(status: object) -> int | None:
    text = str(status)[:3]
    return int(text) if text.isascii() and text.isdigit() else None
