"""``RestoredStreams``: AG2 1.x agents with the streams that they had, and how they go on."""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from chatsnapshot.adapters.ag2.saving.lines import root_of
from chatsnapshot.adapters.ag2.saving.opencalls import OpenCall, Results
from chatsnapshot.adapters.ag2.saving.saved import SavedChat
from chatsnapshot.errors import InvalidEvent

__all__ = ["RestoredStream", "RestoredStreams"]

_HISTORY_TEXT = "HUMAN_INPUT_ABANDONED_TOOL_RESULT"


class RestoredStream:
    """One agent with the stream and the variables that it had.

    ``events`` is the history, ``open_calls`` are tool calls whose results are on no record, also those that AG2 closed
    with a sentence of its own because nobody answered a question.
    """

    def __init__(
        self, agent: Any, stream_id: str | None, variables: dict[str, Any], events: list[Any]
    ) -> None:
        self.agent = agent
        self.variables = variables
        self.stream_id = stream_id
        self.events = events
        self.stream: Any = None
        self.open_calls: list[OpenCall] = []
        self._calls: list[Any] = []
        self._results: Results | None = None

    async def prepare(self, results: Results) -> None:
        """Make the stream and answer open tool calls from the record, where all results of the batch are there."""
        module = importlib.import_module(root_of(self.agent))
        self._results = results
        try:
            self.stream = module.MemoryStream(id=uuid.UUID(self.stream_id) if self.stream_id else None)
        except ValueError:
            self.stream = module.MemoryStream()
        self._calls = _last_calls(self.events, results, self._abandoned_text())
        held = _loose(self.events)
        self.open_calls = [
            OpenCall(call.id, call.name, call.arguments)
            for call in self._calls
            if call.id not in held and results.find(call.id) is None
        ]
        if self._calls and not self.open_calls:
            answers = self._answers(self._calls)
            self.events = [*_cut(self.events, self._calls, results), answers]
        await self.stream.history.replace(self.events)

    async def ask(self, *messages: Any, **options: Any) -> Any:
        """``agent.ask`` on this stream with these variables. Raises :class:`InvalidEvent` while tool calls are open."""
        if self.open_calls and not _is_closed(self.events, self._calls):
            names = ", ".join(f"{call.name} ({call.call_id})" for call in self.open_calls)
            raise InvalidEvent(
                f"these tool calls are open: {names}; call resume() to run them, or restore with results={{id: result}}"
            )
        return await self.agent.ask(
            *messages, **{"stream": self.stream, "variables": self.variables, **options}
        )

    async def resume(self, **options: Any) -> Any:
        """Go on in the turn that was stopped: recorded results are given to the model, open tool calls are executed.

        ``options`` are those of ``agent.resume``. Raises :class:`InvalidEvent` when the last turn had ended.
        """
        events = self._to_resume()
        return await self.agent.resume(
            *events, **{"stream": self.stream, "variables": self.variables, **options}
        )

    def _to_resume(self) -> list[Any]:
        events = importlib.import_module(f"{root_of(self.agent)}.events")
        if self.open_calls:
            before = _cut(self.events, self._calls, self._results)
            missing = {call.call_id for call in self.open_calls}
            known = [call for call in self._calls if call.id not in missing]
            rest = [call for call in self._calls if call.id in missing]
            return [*before, *([self._answers(known)] if known else []), events.ToolCallsEvent(rest)]
        last = self.events[-1] if self.events else None
        if not isinstance(last, (events.ToolResultsEvent, events.ModelRequest)):
            raise InvalidEvent(f"the last turn of {self.agent.name!r} had ended; go on with ask()")
        return list(self.events)

    def _answers(self, calls: list[Any]) -> Any:
        """The results of calls as the model gets them, from the history and from the record."""
        events = importlib.import_module(f"{root_of(self.agent)}.events")
        loose = _loose(self.events)
        out = []
        for call in calls:
            answer = self._results.find(call.id) if self._results is not None else None
            if call.id in loose and (self._results is None or call.id not in self._results.explicit):
                out.append(loose[call.id])
            elif answer is not None and answer.failure is not None:
                out.append(events.ToolErrorEvent.from_call(call, answer.failure))
            else:
                out.append(events.ToolResultEvent.from_call(call, answer.value if answer else None))
        return events.ToolResultsEvent(out)

    def _abandoned_text(self) -> str | None:
        history = importlib.import_module(f"{root_of(self.agent)}.history")
        return getattr(history, _HISTORY_TEXT, None)


class RestoredStreams(Mapping[str, RestoredStream]):
    """The agents of a restored chat by name: ``await restored["desk"].ask("And now?")``."""

    def __init__(self, saved: SavedChat, streams: dict[str, RestoredStream]) -> None:
        self.saved = saved
        self.chat_id = saved.chat_id
        self.position = saved.position
        self.metadata = saved.metadata
        self._streams = streams

    def __getitem__(self, name: str) -> RestoredStream:
        return self._streams[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._streams)

    def __len__(self) -> int:
        return len(self._streams)


def _kind(event: Any) -> list[str]:
    return [kind.__name__ for kind in type(event).__mro__]


def _loose(events: list[Any]) -> dict[str, Any]:
    """Results that tools gave, by the id of the call, also those that no container holds yet."""
    return {event.parent_id: event for event in events if "ToolResultEvent" in _kind(event)}


def _last_calls(events: list[Any], results: Results, abandoned: str | None) -> list[Any]:
    """The tool calls that the last turn was stopped in, or that its caller now answers otherwise; else none."""
    calls: list[Any] = []
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        names = _kind(event)
        if "ToolResultsEvent" in names:
            texts = {one.parent_id: _text(one) for one in event.results}
            given = any(name in results.explicit for name in texts)
            left = abandoned is not None and any(text == abandoned for text in texts.values())
            if index != len(events) - 1 or not (given or left):
                return []
        elif "ToolCallsEvent" in names:
            return list(event.calls)
        elif "ModelResponse" in names:
            return list(event.tool_calls.calls) if getattr(event, "tool_calls", None) else []
        elif "ModelRequest" in names:
            return []
    return calls


def _cut(events: list[Any], calls: list[Any], results: Results | None) -> list[Any]:
    """The history without a container of results that answers these calls, and without what the caller replaces."""
    ids = {call.id for call in calls}
    replaced = ids & results.explicit.keys() if results is not None else set()
    return [
        event
        for event in events
        if ("ToolResultsEvent" not in _kind(event) or ids.isdisjoint(one.parent_id for one in event.results))
        and ("ToolResultEvent" not in _kind(event) or event.parent_id not in replaced)
    ]


def _is_closed(events: list[Any], calls: list[Any]) -> bool:
    ids = {call.id for call in calls}
    closed = {
        one.parent_id for event in events if "ToolResultsEvent" in _kind(event) for one in event.results
    }
    return ids <= closed


def _text(result: Any) -> str | None:
    parts = list(getattr(getattr(result, "result", None), "parts", None) or ())
    content = getattr(parts[0], "content", None) if len(parts) == 1 else None
    return content if isinstance(content, str) else None
