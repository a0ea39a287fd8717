"""``ResumedChat``: two classic agents with the run that another process left unfinished."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.ag2.resuming.deciding import OpenCalls
from chatsnapshot.adapters.ag2.resuming.known import what_is_known
from chatsnapshot.adapters.ag2.resuming.reading import Recorded
from chatsnapshot.adapters.ag2.resuming.talks import Said, Talk
from chatsnapshot.adapters.ag2.resuming.telling import Outcome, going_on, tell, tell_result
from chatsnapshot.adapters.ag2.saving.opencalls import only, tool_message
from chatsnapshot.errors import InvalidEvent

if TYPE_CHECKING:
    from chatsnapshot.adapters.ag2.recorder import AG2Recorder

__all__ = ["ResumedChat"]

Message = dict[str, Any]


class ResumedChat:
    """A recorded run of two agents, which hold its messages again, ready to go on.

    ``messages`` is the talk as its first speaker holds it; ``open_calls`` are tool calls without a result,
    ``questions`` what a person was asked since the last message; ``ended`` says that the run had come to its end.

    A new message in place of :meth:`go_on`: ``user.initiate_chat(assistant, message=..., clear_history=False)``.
    """

    def __init__(
        self,
        recorder: AG2Recorder,
        agents: dict[str, Any],
        recorded: Recorded,
        talk: Talk,
        open_calls: OpenCalls,
        answers: Mapping[str, Any],
    ) -> None:
        self.correlation_id = recorded.correlation_id
        self.run_id = recorded.run_id
        self.ended = recorded.completed
        self.agents = agents
        self.questions = talk.questions
        self._begun = False
        self._recorder = recorder
        self._recorded = recorded
        self._talk = talk
        self._known = what_is_known(recorded, talk, open_calls, answers)
        self.open_calls = self._known.open_calls
        self.author, self.other = (
            self._agent(name) for name in (talk.said[-1].sender, talk.said[-1].recipient)
        )
        for said in talk.said:
            self._place(said)

    @property
    def messages(self) -> list[Message]:
        """What was said between the two who spoke last, as the author of its first message holds it: a copy."""
        first = next(one for one in self._talk.said if {one.sender, one.recipient} == self._two())
        one, other = self._agent(first.sender), self._agent(first.recipient)
        return copy.deepcopy(list(one._oai_messages[other]))

    def go_on(self, *, max_replies: int | None = None) -> list[Message]:
        """The agent that owes a reply gives it, and so on to the end; gives the whole talk.

        Recorded results go to the model, open tool calls are executed, a person whose turn it is is asked. At most
        ``max_replies`` messages are sent: AG2's ``max_turns`` is not on record. What happens is recorded in the same
        run, after a ``run_resumed``. Raises :class:`InvalidEvent` for a run that had ended, and what AG2 raises.
        """
        with self._going_on() as tee:
            left: Message | None = self._answer_from_record()
            while max_replies is None or max_replies > 0:
                author, other = self.author, self.other
                if left:
                    _, made = other.generate_tool_calls_reply(messages=[left], sender=author)
                    reply: Any = self._whole(made)
                else:
                    reply = other.generate_reply(messages=other._oai_messages[author], sender=author)
                if reply is None:
                    break
                other.send(reply, author, request_reply=False)
                left = None
                max_replies = self._turn(max_replies)
            return self._over(tee)

    async def ago_on(self, *, max_replies: int | None = None) -> list[Message]:
        """As :meth:`go_on`, for agents with async tools or replies."""
        with self._going_on() as tee:
            left: Message | None = self._answer_from_record()
            while max_replies is None or max_replies > 0:
                author, other = self.author, self.other
                if left:
                    _, made = await other.a_generate_tool_calls_reply(messages=[left], sender=author)
                    reply: Any = self._whole(made)
                else:
                    reply = await other.a_generate_reply(messages=other._oai_messages[author], sender=author)
                if reply is None:
                    break
                await other.a_send(reply, author, request_reply=False)
                left = None
                max_replies = self._turn(max_replies)
            return self._over(tee)

    # --- steps of going on --------------------------------------------------------------------------------

    def _going_on(self) -> Any:
        if self.ended:
            raise InvalidEvent(
                f"run {self.run_id!r} has ended; go on with initiate_chat(..., clear_history=False)"
            )
        if self._begun:
            raise InvalidEvent(f"run {self.run_id!r} has gone on since it was read; resume it anew")
        self._begun = True
        for one, peer in ((self.author, self.other), (self.other, self.author)):
            one._prepare_chat(peer, clear_history=False)
        holders = list(self.agents.values())
        return going_on(self._recorder, self._recorded, self._talk, self._known.answers, holders, again=False)

    def _answer_from_record(self) -> Message | None:
        """Give the last message's calls the results that are known; gives the message with those to be executed."""
        calls = self._talk.batch
        for call in calls:
            if call.call_id in self._known.decided:
                tell_result(call.name, call.call_id, str(self._known.decided[call.call_id]), self.other)
        if not calls or len(self.open_calls) == len(calls):
            return None
        if self.open_calls:
            return only(self._talk.said[-1].message, self.open_calls)
        message = tool_message(calls, self._known.results, self.other.name)
        self._place(Said(message, self.other.name, self.author.name, ""))
        tell(message, self.other, self.author)
        self.author, self.other = self.other, self.author
        return None

    def _whole(self, made: Message | None) -> Message:
        """The tool message with what is known and what was executed now."""
        return tool_message(self._talk.batch, self._known.results, self.other.name, made)

    def _turn(self, max_replies: int | None) -> int | None:
        self.author, self.other = self.other, self.author
        return None if max_replies is None else max_replies - 1

    def _over(self, tee: Any) -> list[Message]:
        self.ended, self.open_calls, self.questions = True, [], []
        messages = self.messages
        tee.returned(Outcome(messages, messages[-1].get("content") if messages else None))
        return messages

    # --- what the agents hold -----------------------------------------------------------------------------

    def _place(self, said: Said) -> None:
        """Let both agents hold a message: its author in the role of an assistant, its peer in that of a user."""
        sender, recipient = self._agent(said.sender), self._agent(said.recipient)
        for agent, peer, role in ((sender, recipient, "assistant"), (recipient, sender, "user")):
            message = copy.deepcopy(said.message)
            if message["role"] == "user":
                message["role"] = role
            agent._oai_messages[peer].append(message)

    def _agent(self, name: str) -> Any:
        if name not in self.agents:
            raise InvalidEvent(
                f"run {self.run_id!r} is a talk of {', '.join(self._talk.names())}, and the agents given are "
                f"{', '.join(self.agents) or '(none)'}; give agents of the same names",
                path="agents",
            )
        return self.agents[name]

    def _two(self) -> set[str]:
        last = self._talk.said[-1]
        return {last.sender, last.recipient}
