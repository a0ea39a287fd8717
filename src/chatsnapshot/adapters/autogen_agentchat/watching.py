"""A recorded run of an agent or a team, and those who speak in it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.autogen_agentchat.contents import is_chat, is_result, kind_of, parts_of
from chatsnapshot.adapters.autogen_agentchat.given import Given
from chatsnapshot.adapters.autogen_agentchat.hooks import hooks
from chatsnapshot.adapters.autogen_agentchat.voices import Voice
from chatsnapshot.adapters.observed import ObservedRun
from chatsnapshot.adapters.payloads import text
from chatsnapshot.adapters.places import Parent
from chatsnapshot.adapters.plain import header_text
from chatsnapshot.adapters.policy import Event
from chatsnapshot.adapters.requiring import version_of

if TYPE_CHECKING:
    from chatsnapshot.adapters.autogen_agentchat.recorder import AgentChatRecorder

__all__ = ["Watch"]

_CLOSED_EARLY = "the stream was closed before its end"
_NO_RESULT = "the stream ended without a result"


class Watch:
    """One run. Nothing here raises but that the caller was cancelled."""

    def __init__(
        self, recorder: AgentChatRecorder, run: ObservedRun, given: Given, outer: Voice | None
    ) -> None:
        self.recorder = recorder
        self.run = run
        self.given = given
        self.around = recorder.parent_here()
        """The scope that the run began in: what is there besides is inside of it."""
        self.main = Voice(self, run)
        self._outer = outer
        self._done = False
        self._voices: dict[str, Voice] = {}
        self._speakers = given.speakers
        self._speaker: str | None = None
        """Who spoke last, where nobody tells of turns."""
        self._turns = False
        self._seen: set[str] = set()
        """Ids of the messages and events that are told: they come again with those above."""
        self._echo = given.task if isinstance(given.task, str) else None
        """The task, which the stream begins with."""
        self.spoken: str | None = None
        """The event that whoever gets the word goes on from."""
        self.chosen = False
        """Whether that is how the team chose who gets it: then it is no message that all have heard."""
        self._said_by: dict[str, str | None] = {}
        """Message to its event: who speaks goes on from what it heard, whoever else speaks at the same time."""
        self._asked: str | None = None
        """The event of what it began with."""
        self._last: Any = None
        """The last message."""

    # --- its beginning ------------------------------------------------------------------------------------

    @classmethod
    async def begin(
        cls, recorder: AgentChatRecorder, given: Given, key: str, conversation: str | None = None
    ) -> Watch | None:
        """The run that begins here; ``None`` where another recorder of the ledger has it."""
        outer = recorder.voice_here()
        known = conversation or recorder.conversation_of(given.runner)
        options: dict[str, Any] = {"key": key, "correlation_id": known}
        if outer is not None:
            options["parent"] = _parent(recorder, outer)
        inside = outer is not None or ((above := recorder.parent_here()) is not None and above.inside_tool)
        correlation = known if inside else recorder.correlation_id or known
        if correlation is not None and given.messages:
            earlier = await recorder.aleft_open(header_text(correlation) or "")
            if earlier.questions:
                options.update(resumed=True, earlier=earlier)
        run = recorder.begin(given.name, **options)
        if run is None:
            return None
        recorder.remember(given.runner, run.correlation_id)
        watch = cls(recorder, run, given, outer)
        hooks.hold()
        try:
            hooks.discover(given.runner)
            opening = watch._opening()
        except Exception:
            watch._over()
            raise
        try:
            await recorder.arecord(*opening)
        except asyncio.CancelledError as error:  # it will not begin
            await watch.over(error)
            raise
        return watch

    def _opening(self) -> list[Event]:
        run, messages, made = self.run, self.given.messages, []
        if run.resumed:
            question = next(reversed(run.questions))
            answer, *messages = messages
            self._see(answer)
            by = getattr(answer, "source", "user")
            made.append(run.answer(question, content=_text_of(answer), user=by))
        made.append(run.started(**self.given.facts(), runtime_version=version_of("autogen-agentchat")))
        for message in messages:
            self._see(message)
            if isinstance(message, str):
                made.append(run.message("user", [text(message)], name="user"))
            elif parts := parts_of(message):
                facts = {"message_id": getattr(message, "id", None)}
                made.append(run.message("user", parts, name=getattr(message, "source", None), **facts))
                self._said_by[str(facts["message_id"])] = run.last
        self._asked = run.last
        return made

    # --- what happens in it -------------------------------------------------------------------------------

    def turn(self, name: str, heard: Any = None) -> Voice:
        """An agent gets the word, with the messages that it heard since it had it; gives who speaks."""
        self._turns = True
        self._speakers.add(name)
        if not self.given.is_team and name == self.run.agent:
            return self.main
        return self._speaks(name, self._heard(heard))

    def _speaks(self, name: str, cause: str | None = None) -> Voice:
        voice = self._voices[name] = self.main.another(name, cause)
        return voice

    def _heard(self, heard: Any) -> str | None:
        """The event of the last of these messages that is on record."""
        for message in () if self.chosen else reversed(heard or ()):
            if (known := self._said_by.get(str(getattr(message, "id", None)))) is not None:
                return known
            if getattr(message, "content", None) == self.given.task and message.source == "user":
                return self._asked
        return None

    def _voice_of(self, item: Any) -> Voice:
        """Who speaks in this message or event."""
        source = str(getattr(item, "source", None) or self.run.agent)
        if source == self.given.manager:
            return self.main
        if source not in self._speakers and (self._speakers or source == "user"):
            return self._voices.get(source) or self.main
        if not self.given.is_team and source == self.run.agent:
            return self.main
        if not self._turns and source != self._speaker:
            self._speaker = source
            return self._speaks(source)
        return self._voices.get(source) or self._speaks(source)

    async def saw(self, item: Any) -> None:
        """A message or an event was given, by an agent or by the stream; or the result of it all."""
        made: list[Event | None] = []
        with self.recorder.guarded():
            made = self._result(item) if is_result(item) else self._told(item)
        await self.recorder.arecord(*(event for event in made if event is not None))

    def _told(self, item: Any) -> list[Event | None]:
        kind = kind_of(item)
        if kind == "ModelClientStreamingChunkEvent" or not self._see(item):
            return []
        if self._echo is not None and item.source == "user" and getattr(item, "content", None) == self._echo:
            self._echo = None
            return []
        voice = self._voice_of(item)
        if is_chat(item):
            self._last = item
        person = is_chat(item) and not self._is_speaker(item)
        made = voice.heard(item) if person else voice.says(item, kind)
        if is_chat(item):
            self._said_by[str(item.id)] = self.spoken
        return [*made]

    def _is_speaker(self, item: Any) -> bool:
        if item.source == self.given.manager:
            return True
        return item.source in self._speakers if self._speakers else item.source != "user"

    def _see(self, item: Any) -> bool:
        """Whether this is told for the first time; those above this run know it then, too."""
        known = getattr(item, "id", None)
        if known is None:
            return True
        if known in self._seen:
            return False
        watch: Watch | None = self
        while watch is not None:
            watch._seen.add(known)
            watch = None if watch._outer is None else watch._outer.watch
        return True

    def said(self) -> str | None:
        """What was said last."""
        if self._last is not None:
            return _text_of(self._last)
        return self.given.task if isinstance(self.given.task, str) else None

    # --- its end ------------------------------------------------------------------------------------------

    def _result(self, result: Any) -> list[Event | None]:
        made: list[Event | None] = []
        for item in result.messages:
            made += self._told(item)
        for voice in (self.main, *self._voices.values()):
            made += voice.left()
        last = next((item for item in reversed(result.messages) if is_chat(item)), None)
        reason = result.stop_reason
        facts = {"stop_reason": reason} if reason else {}
        if self._waits(last):
            voice = self._voice_of(last)
            made.append(voice.asks(last))
            made.append(self.run.paused(reason or "waits for a person"))
        else:
            made.append(self.run.completed(None if last is None else _text_of(last), **facts))
        self._over()
        return made

    def _waits(self, last: Any) -> bool:
        """Whether a team has stopped because the word is with somebody outside of it."""
        if self._outer is not None or not self.given.is_team or kind_of(last) != "HandoffMessage":
            return False
        return self._is_speaker(last) and last.target not in self._speakers

    async def over(self, error: BaseException | None) -> None:
        """The run is over; what it has not told of its end is told now."""
        made: Event | None = None
        with self.recorder.guarded():
            if self.run.ended is None:
                made = self._broken(error)
        self._over()
        await self.recorder.arecord(*([] if made is None else [made]))

    def _broken(self, error: BaseException | None) -> Event | None:
        if error is None:
            return self.run.cancelled(_NO_RESULT)
        if isinstance(error, (asyncio.CancelledError, GeneratorExit)):
            return self.run.cancelled(_CLOSED_EARLY if isinstance(error, GeneratorExit) else "cancelled")
        return self.run.failed(error)

    def _over(self) -> None:
        if not self._done:
            self._done = True
            self.recorder.end(self.run)
            hooks.release()


def _parent(recorder: AgentChatRecorder, outer: Voice) -> Parent:
    """A run inside of another: in a tool of it or in a scope there, else as what the one that speaks does next."""
    here, run = recorder.parent_here(), outer.run
    around = outer.watch.around
    if here is not None and (around is None or here.cause != around.cause):
        return here
    return Parent(run.run_id, run.last, run.agent, run.correlation_id, True)


def _text_of(item: Any) -> str:
    return item if isinstance(item, str) else str(item.to_model_text())
