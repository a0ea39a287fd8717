"""``AgUiRecorder``: records the runs in AG-UI event streams while they are read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any, TypeVar, overload

from chatsnapshot.adapters.ag_ui.stream import Stream
from chatsnapshot.adapters.ag_ui.threads import Thread
from chatsnapshot.adapters.ag_ui.wire import SseReader, as_wire
from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.adapters.policy import Event

__all__ = ["AgUiRecorder"]

T = TypeVar("T")

_THREADS_MAX = 1_000
_SUSPENDED_MAX = 10_000


class AgUiRecorder(RuntimeRecorder):
    """Records what an agent tells a user interface in the events of AG-UI.

    >>> recorder = AgUiRecorder(ledger)
    >>> async for event in recorder.tee(agent.run(input), input=input):    # at the server
    ...     yield encoder.encode(event)
    >>> for piece in recorder.tee(response.iter_bytes()): ...              # at the client: the SSE body

    A ``RUN_STARTED`` begins a run under its ``threadId``; texts, reasoning and tool calls are recorded once they are
    whole, sub-agents as child runs, interrupts as questions of a run that is paused. With ``input`` (a ``RunAgentInput``)
    the messages of the user, results of the page's own tools and answers to interrupts are recorded, too.

    Ids are made of those of the protocol: a capture that is recorded again, with the same ``input``, adds nothing. Times
    are those of the events where they have them. For the arguments see
    :class:`~chatsnapshot.adapters.custom.RuntimeRecorder`.
    """

    runtime = "ag_ui"

    def __init__(self, ledger: Any, **options: Any) -> None:
        super().__init__(ledger, **options)
        self._threads: OrderedDict[str, Thread] = OrderedDict()
        self._suspended: OrderedDict[str, None] = OrderedDict()

    @overload
    def tee(self, events: AsyncIterable[T], *, input: Any = ..., agent: str = ...) -> AsyncIterator[T]: ...
    @overload
    def tee(self, events: Iterable[T], *, input: Any = ..., agent: str = ...) -> Iterator[T]: ...
    def tee(self, events: Any, *, input: Any = None, agent: str = "agent") -> Any:
        """The same events, recorded while they are read: one is recorded before it is handed on.

        ``events`` is a sync or async iterable of events (models of ``ag_ui``, mappings with the names of the protocol) or
        of pieces of an SSE body (text or bytes); ``input`` what the run was asked for (a ``RunAgentInput`` or a mapping);
        ``agent`` the name of the agent, which the protocol does not tell. Raises :class:`TypeError` for anything else.
        """
        given = as_wire(input) if input is not None else None
        if input is not None and given is None:
            raise TypeError(f"input is a RunAgentInput or a mapping, not {type(input).__name__}")
        reader = _Reader(self, Stream(self, agent, given))
        if hasattr(events, "__aiter__"):
            return self._atee(events, reader)
        if isinstance(events, (str, bytes)) or not hasattr(events, "__iter__"):
            raise TypeError(
                f"tee() takes an iterable of events or of pieces of SSE, not {type(events).__name__}"
            )
        return self._tee(events, reader)

    async def _atee(self, events: Any, reader: _Reader) -> AsyncIterator[Any]:
        try:
            async for item in events:
                if made := reader.made(item):
                    await self.arecord(*made)
                yield item
        except BaseException as error:
            await self.arecord(*reader.over(error))
            raise
        finally:
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()
        await self.arecord(*reader.over(None))

    def _tee(self, events: Any, reader: _Reader) -> Iterator[Any]:
        try:
            for item in events:
                if made := reader.made(item):
                    self.record(*made)
                yield item
        except BaseException as error:
            self.record(*reader.over(error))
            raise
        finally:
            close = getattr(events, "close", None)
            if close is not None:
                close()
        self.record(*reader.over(None))

    # --- what earlier runs told ---------------------------------------------------------------------------

    def thread(self, thread_id: str) -> Thread:
        """What is known of a thread: from this recorder's runs, and at first sight from the ledger."""
        known = self._threads.get(thread_id)
        if known is None:
            known = self._threads[thread_id] = Thread()
            if len(self._threads) > _THREADS_MAX:
                self._threads.popitem(last=False)
            known.look(self.ledger, thread_id, self.note)
        self._threads.move_to_end(thread_id)
        return known

    def suspended(self, subagent: str) -> None:
        """A sub-agent waits, and may go on in a later run."""
        self._suspended[subagent] = None
        if len(self._suspended) > _SUSPENDED_MAX:
            self._suspended.popitem(last=False)

    def was_suspended(self, subagent: str) -> bool:
        """Whether a sub-agent that begins goes on with what it did before."""
        return self._suspended.pop(subagent, self) is None


class _Reader:
    """Reads the items of one stream, whatever they are; never raises."""

    def __init__(self, recorder: AgUiRecorder, stream: Stream) -> None:
        self._recorder = recorder
        self._stream = stream
        self._sse = SseReader()

    def made(self, item: Any) -> list[Event]:
        """The events that an item of the stream comes to."""
        events: list[Event] = []
        with self._recorder.guarded():
            if isinstance(item, (str, bytes, bytearray)):
                for event in self._sse.feed(item if isinstance(item, str) else bytes(item)):
                    events += self._stream.saw(event)
            elif (wire := as_wire(item)) is not None:
                events = self._stream.saw(wire)
        return events

    def over(self, error: BaseException | None) -> list[Event]:
        """The events of the stream's end."""
        events: list[Event] = []
        with self._recorder.guarded():
            events = self._stream.over(error, left=error is not None and not isinstance(error, Exception))
        return events
