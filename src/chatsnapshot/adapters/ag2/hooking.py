"""``attach()``: records messages of the classic line that are sent silently, from a hook of the agents."""

from __future__ import annotations

import importlib
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.ag2.nesting import Recording
from chatsnapshot.adapters.ag2.tapping import recording_on
from chatsnapshot.adapters.ag2.watching import new_recording

if TYPE_CHECKING:
    from chatsnapshot.adapters.ag2.recorder import AG2Recorder

__all__ = ["Attached"]

_HOOK = "process_message_before_send"


class Attached(AbstractContextManager["Attached"]):
    """The hook on some agents; made by :meth:`AG2Recorder.attach`.

    A message that AG2 tells as an event as well is recorded from the event alone: of a run it is recorded when
    the run is watched. Inside a watched call or a tee a silent message belongs to that run; elsewhere all
    messages belong to one run of this object, which begins with the first and ends with :meth:`close` (or the
    ``with`` block).
    """

    def __init__(self, recorder: AG2Recorder, agents: Sequence[Any], options: Mapping[str, Any]) -> None:
        self._recorder = recorder
        self._options = options
        self._recording: Recording | None = None
        self._names: list[str] = []
        self._lists: list[list[Any]] = []
        for agent in agents:
            try:
                hooks = agent.hook_lists[_HOOK]
                if not any(_is_ours(hook, recorder) for hook in hooks):
                    agent.register_hook(_HOOK, self.sent)
                    self._lists.append(hooks)
                self._names.append(str(agent.name))
            except Exception as error:
                recorder.safe.note(error)

    def sent(self, sender: Any, message: Any, recipient: Any, silent: Any) -> Any:
        """What AG2 calls before a message is sent; gives the message back as it came."""
        try:
            self._record(sender, message, recipient, bool(silent))
        except Exception as error:
            self._recorder.safe.note(error)
        return message

    def close(self, error: BaseException | None = None) -> None:
        """Take the hook off and end the run, if there was one."""
        for hooks in self._lists:
            if self.sent in hooks:
                hooks.remove(self.sent)
        self._lists.clear()
        if self._recording is not None:
            self._recording.finish(error)
            self._recording = None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self.close(error)

    def _record(self, sender: Any, message: Any, recipient: Any, silent: bool) -> None:
        if hasattr(sender, "groupchat"):
            return  # the manager hands on, silently, what a member has said
        io = importlib.import_module("autogen.io")
        stream = io.IOStream.get_default()
        around = recording_on(stream, self._recorder.ledger)
        if not silent and (around is not None or hasattr(stream, "input_stream")):
            return  # the event follows, for whoever watches that run
        recording = around or self._own()
        events = importlib.import_module("autogen.events.agent_events")
        content = message if isinstance(message, dict) else {"content": message}
        recording.take(events.create_received_event_model(event=content, sender=sender, recipient=recipient))

    def _own(self) -> Recording:
        if self._recording is None:
            self._recording = new_recording(
                self._recorder, str(uuid.uuid4()), agents=self._names, **self._options
            )
        return self._recording


def _is_ours(hook: Any, recorder: AG2Recorder) -> bool:
    owner = getattr(hook, "__self__", None)
    return isinstance(owner, Attached) and owner._recorder.ledger is recorder.ledger
