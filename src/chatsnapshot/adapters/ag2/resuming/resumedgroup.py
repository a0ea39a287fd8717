"""``ResumedGroup``: a classic group chat with the run that another process left unfinished."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.ag2.resuming.deciding import OpenCalls
from chatsnapshot.adapters.ag2.resuming.known import what_is_known
from chatsnapshot.adapters.ag2.resuming.reading import Recorded
from chatsnapshot.adapters.ag2.resuming.talks import Talk
from chatsnapshot.adapters.ag2.resuming.telling import going_on, tell_result
from chatsnapshot.adapters.ag2.saving.classic import set_variables
from chatsnapshot.adapters.ag2.saving.groups import is_pattern, members_of
from chatsnapshot.adapters.ag2.saving.opencalls import only, tool_message
from chatsnapshot.errors import InvalidEvent

if TYPE_CHECKING:
    from chatsnapshot.adapters.ag2.recorder import AG2Recorder

__all__ = ["ResumedGroup"]

Message = dict[str, Any]
_EXECUTOR = "_Group_Tool_Executor"
_GUEST = "_User"
"""AG2's own member for a talk that nobody of the group began."""
_ROUNDS = 20
_MANAGER_AT, _CHAT_AT, _EXECUTOR_AT, _GUESTS_AT = 8, 7, 6, 12
"""Places in what ``Pattern.prepare_group_chat`` gives."""


class ResumedGroup:
    """A recorded run of a ``GroupChatManager`` or pattern, ready to go on.

    ``messages`` is the talk, each message with the name of its author; ``context_variables`` are those recorded last;
    ``open_calls`` are tool calls without a result; ``ended`` says that the run had come to its end.
    """

    def __init__(
        self,
        recorder: AG2Recorder,
        group: Any,
        recorded: Recorded,
        talk: Talk,
        open_calls: OpenCalls,
        answers: Mapping[str, Any],
    ) -> None:
        self.correlation_id = recorded.correlation_id
        self.run_id = recorded.run_id
        self.ended = recorded.completed
        self.group = group
        self.questions = talk.questions
        self.context_variables = talk.variables
        self._begun = False
        self._recorder = recorder
        self._recorded = recorded
        self._talk = talk
        self._known = what_is_known(recorded, talk, open_calls, answers)
        self.open_calls = self._known.open_calls
        self._members = {agent.name: agent for agent in members_of(group)}
        unknown = {one.sender for one in talk.said} - self._members.keys() - {_EXECUTOR, _GUEST, self._boss()}
        if unknown:
            raise InvalidEvent(
                f"in run {self.run_id!r} {', '.join(sorted(unknown))} spoke, and the members of the group given are "
                f"{', '.join(self._members)}; give agents of the same names",
                path="agents",
            )
        self.messages: list[Message] = [
            {**copy.deepcopy(one.message), "name": one.sender} for one in talk.said
        ]

    def go_on(self, *, max_rounds: int = _ROUNDS, **options: Any) -> Any:
        """Go on from where the group stopped; gives AG2's ``ChatResult``.

        Whoever has the word next by the rules of the group gets it: the executor of an open tool call, the agent that a
        recorded result names, or the next speaker. ``max_rounds`` is for a pattern: AG2 counts the rounds anew;
        ``options`` are those of ``initiate_chat``. What happens is recorded in the same run, after a ``run_resumed``.
        Raises :class:`InvalidEvent` for a run that had ended, and what AG2 raises.
        """
        with self._going_on() as tee:
            manager, executor, guests = self._prepared(max_rounds)
            left = self._answer_from_record(executor)
            if left is not None:
                made = executor.generate_reply(messages=[left], sender=manager)
                self._complete(executor, made)
            last_agent, message = manager.resume(self._again(), silent=True)
            result = last_agent.initiate_chat(manager, message=message, **{"clear_history": False, **options})
            return self._over(tee, result, guests)

    async def ago_on(self, *, max_rounds: int = _ROUNDS, **options: Any) -> Any:
        """As :meth:`go_on`, for groups with async tools or replies."""
        with self._going_on() as tee:
            manager, executor, guests = self._prepared(max_rounds)
            left = self._answer_from_record(executor)
            if left is not None:
                made = await executor.a_generate_reply(messages=[left], sender=manager)
                self._complete(executor, made)
            last_agent, message = await manager.a_resume(self._again(), silent=True)
            result = await last_agent.a_initiate_chat(
                manager, message=message, **{"clear_history": False, **options}
            )
            return self._over(tee, result, guests)

    # --- steps of going on --------------------------------------------------------------------------------

    def _going_on(self) -> Any:
        if self.ended:
            raise InvalidEvent(
                f"run {self.run_id!r} has ended; go on with a new message and resumed.messages"
            )
        if self._begun:
            raise InvalidEvent(f"run {self.run_id!r} has gone on since it was read; resume it anew")
        self._begun = True
        batch, holders = self._talk.batch, list(self._members.values())
        # AG2 sends the last message once more; a message with results that were on record is new.
        again = len(self.open_calls) == len(batch)
        return going_on(self._recorder, self._recorded, self._talk, self._known.answers, holders, again=again)

    def _prepared(self, max_rounds: int) -> tuple[Any, Any, list[Any]]:
        """The manager, the agent that runs the last message's tools, and members that AG2 made for this talk."""
        if not is_pattern(self.group):
            return self.group, self._able(), []
        set_variables(self.group, self.context_variables)
        first = copy.deepcopy(self.messages[0])
        if first["name"] == _GUEST:
            del first["name"]  # then the pattern makes this member anew
        # A pattern gives the first word to its initial agent: here to whom it was given when the process died.
        initial, called = self.group.initial_agent, self._members.get(self._talk.called or "")
        if called is not None and not self.open_calls:
            self.group.initial_agent = called
        made = self.group.prepare_group_chat(max_rounds=max_rounds, messages=[first])
        begins = self.group.initial_agent is not initial or len(self.messages) == 1
        self.group.initial_agent = initial
        chat = made[_CHAT_AT]
        if not begins:
            chat.speaker_selection_method(initial, chat)
        return made[_MANAGER_AT], made[_EXECUTOR_AT], list(made[_GUESTS_AT] or ())

    def _able(self) -> Any:
        wanted = [call.name for call in self._talk.batch]
        able = (agent for agent in self._members.values() if hasattr(agent, "can_execute_function"))
        return next((agent for agent in able if wanted and agent.can_execute_function(wanted)), None)

    def _answer_from_record(self, executor: Any) -> Message | None:
        """Give the last message's calls the results that are known; gives the message with those to be executed."""
        calls = self._talk.batch
        for call in calls:
            if call.call_id in self._known.decided:
                tell_result(call.name, call.call_id, str(self._known.decided[call.call_id]), executor)
        if not calls or len(self.open_calls) == len(calls):
            return None
        if self.open_calls:
            return only(self.messages[-1], self.open_calls)
        self._complete(executor, None)
        return None

    def _follow_results(self, executor: Any) -> None:
        """What recorded results said about context variables and the next speaker still holds."""
        for call in self._talk.batch:
            result = self._talk.results.get(call.call_id)
            if result is None:
                continue
            if result.variables:
                set_variables(self.group, {**self.group.context_variables.to_dict(), **result.variables})
            if result.target in self._members and not executor.has_next_target():
                targets = importlib.import_module("autogen.agentchat.group.targets.transition_target")
                executor.set_next_target(targets.AgentTarget(self._members[result.target]))

    def _complete(self, executor: Any, made: Message | None) -> None:
        if is_pattern(self.group):
            self._follow_results(executor)
        message = tool_message(self._talk.batch, self._known.results, executor.name, made)
        self.messages.append(message)

    def _again(self) -> list[Message]:
        """The talk as AG2's own resume takes it."""
        return copy.deepcopy(self.messages)

    def _over(self, tee: Any, result: Any, guests: list[Any]) -> Any:
        if guests:
            module = importlib.import_module("autogen.agentchat.group.group_utils")
            module.cleanup_temp_user_messages(result)
        tee.returned(result)
        self.ended, self.open_calls, self.questions = True, [], []
        self.messages = copy.deepcopy(list(result.chat_history))
        return result

    def _boss(self) -> str:
        return str(getattr(self.group, "name", "chat_manager"))
