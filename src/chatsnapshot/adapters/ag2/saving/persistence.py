"""``AG2ChatPersistence``: save AG2 conversations and restore them, in this process or another."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from chatsnapshot.adapters.ag2.saving import classic, groups, streamed, transcripts
from chatsnapshot.adapters.ag2.saving.backend import Place, StorageBackend
from chatsnapshot.adapters.ag2.saving.chats import Chats, Conversation
from chatsnapshot.adapters.ag2.saving.lines import CLASSIC, PLAIN, STREAMED, as_list, line_of
from chatsnapshot.adapters.ag2.saving.opencalls import Results
from chatsnapshot.adapters.ag2.saving.record import Content, Key
from chatsnapshot.adapters.ag2.saving.restored import RestoredChat, liveliest
from chatsnapshot.adapters.ag2.saving.saved import SavedChat, saved_of
from chatsnapshot.adapters.ag2.saving.streams import RestoredStream, RestoredStreams
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import InvalidEvent, NotFound

__all__ = ["AG2ChatPersistence"]


class AG2ChatPersistence:
    """Saved AG2 conversations in a ledger: each save is an event, nothing is overwritten, what was saved before is
    not stored again.

    ``storage_backend`` is JSON (``./chat_snapshots/chats.jsonl``), SQLITE (``./chat_snapshots/chats.db``) or MEMORY;
    ``storage_config`` one of ``{"path": ...}``, ``{"url": ...}`` and ``{"ledger": an open Ledger}``, which stays open.
    ``redact`` (such as ``"secrets"``) is applied to what is saved; without it messages are kept as they are, so that the
    talk goes on unchanged. Configurations of models are never stored.

    Methods with ``a`` serve AG2 1.x; the others the classic line. ``with`` closes it. Safe to use from any thread.
    """

    def __init__(
        self,
        storage_backend: StorageBackend | str = StorageBackend.JSON,
        storage_config: Mapping[str, Any] | None = None,
        *,
        redact: object = None,
    ) -> None:
        self._place = Place(storage_backend, storage_config)
        self._chats = Chats(self._place, redact)

    @property
    def storage_backend(self) -> StorageBackend:
        """The kind of place."""
        return self._place.backend

    @property
    def url(self) -> str:
        """Where the ledger of saved chats is; all commands and calls for ledgers work on it."""
        return self._place.url

    # --- save ---

    def save_conversation(
        self,
        chat_id: object,
        agents: Any = (),
        messages: Any = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> LedgerEntry:
        """Save what these classic agents hold now; durable when it returns.

        ``messages`` is the caller's own list of the talk (or a ``ChatResult``), stored beside what the agents hold and
        not twice. ``metadata`` is kept from save to save until other metadata is given. Raises :class:`InvalidEvent` for
        agents of AG2 1.x and what is no agent, and the errors of ``ledger.record``.
        """
        return self._saved(chat_id, self._classic_content(agents, messages, metadata))

    def save_groupchat(
        self,
        chat_id: object,
        group: Any,
        manager: Any = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        messages: Any = None,
        context_variables: Any = None,
        last_speaker: Any = None,
    ) -> LedgerEntry:
        """Save a group chat with all its agents: a ``GroupChatManager``, a ``GroupChat`` and its manager, or a pattern.

        For a pattern that ran, ``messages``, ``context_variables`` and ``last_speaker`` are what the run gave
        (``ChatResult``, ``ContextVariables``, agent); what is left out is read from the pattern.
        """
        members = groups.members_of(group)
        boss = groups.manager_of(group, manager)
        _needs_classic(line_of(members), "asave_conversation")
        if groups.is_pattern(group):
            given = messages if messages is not None else getattr(boss, "groupchat", None) or []
            talk = groups.with_authors(classic.talk_of(given), boss)
            speaker = last_speaker if last_speaker is not None else getattr(boss, "_last_speaker", None)
            facts = groups.facts_of_pattern(group, talk, speaker)
            variables = context_variables if context_variables is not None else group.context_variables
            content = classic.collect(members, talk, metadata, facts, variables)
        else:
            everyone = members if boss is None else [*members, boss]
            content = classic.collect(everyone, messages, metadata, None, context_variables)
            if boss is None:
                content.lists[Key("group")] = list(group.messages)
        return self._saved(chat_id, content)

    async def asave_conversation(
        self,
        chat_id: object,
        agents: Any = (),
        messages: Any = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        variables: Mapping[str, Any] | None = None,
    ) -> LedgerEntry:
        """Save the streams of AG2 1.x agents; durable when it resolves. Classic agents are saved too.

        ``messages`` is the reply of ``ask``, a stream or a list of events; for several agents ``{name: reply}``.
        ``variables`` stand in for those of the reply.
        """
        found = as_list(agents)
        if line_of(found) == STREAMED:
            content = await streamed.collect(found, messages, metadata, variables)
        else:
            content = self._classic_content(found, messages, metadata)
        return await asyncio.to_thread(self._saved, chat_id, content)

    # --- load and restore ---

    def load_conversation(self, chat_id: object, position: int | None = None) -> SavedChat | None:
        """The chat as it was last saved, or as of ``position``; ``None`` when there is none, or it was deleted.

        Raises :class:`Corrupt` with the position of an entry that was changed.
        """
        chat = self._chats.chat(chat_id, position)
        return None if chat is None else saved_of(chat)

    async def aload_conversation(self, chat_id: object, position: int | None = None) -> SavedChat | None:
        """As :meth:`load_conversation`, without blocking the event loop."""
        return await asyncio.to_thread(self.load_conversation, chat_id, position)

    def restore_conversation(
        self,
        chat_id: object,
        agents: Any = (),
        *,
        position: int | None = None,
        rename: Mapping[str, str] | None = None,
        results: Any = None,
        transcript: bool = False,
    ) -> Any:
        """Give fresh classic agents the talk of their namesakes; gives a ``RestoredChat``, of groups ``RestoredGroup``.

        ``chat_id`` is a chat or a ``SavedChat``. ``rename`` maps saved names to those of the agents. ``results`` are
        results of tool calls that the talk was stopped in: a mapping from call id, a ledger, or a pair of ledger and
        correlation; the ledger of saved chats is looked through too. ``transcript=True`` restores what was said, without
        tool calls, across the lines.

        Raises :class:`NotFound` for an unknown chat, :class:`InvalidEvent` for the wrong line and for names that do not
        match, :class:`Corrupt` with the position of an entry that was changed; then no agent was touched.
        """
        found = as_list(agents)
        _needs_classic(line_of(found), "arestore_conversation")
        saved = self._wanted(chat_id, position)
        if transcript:
            return transcripts.into_classic(saved, found)
        _same_line(saved, CLASSIC)
        look = self._results(saved, results, [])
        managers = classic.groups_of(found)
        if managers and any(key.kind == "group" for key in saved.chat.lists):
            return groups.restore_group(saved, managers[0], None, rename, look)
        given = classic.named(found)
        names = classic.renamed(saved.chat, list(given), rename)
        pair = classic.place_talk(saved.chat, given, names)
        if pair is None:
            classic.place(saved.chat, given, names)
            pair = liveliest(saved.chat, given, names)
        return RestoredChat(saved, given, pair, look)

    def restore_groupchat(
        self,
        chat_id: object,
        group: Any,
        manager: Any = None,
        *,
        position: int | None = None,
        rename: Mapping[str, str] | None = None,
        results: Any = None,
    ) -> groups.RestoredGroup:
        """Give a fresh group (as in :meth:`save_groupchat`) its talk; for the rest see :meth:`restore_conversation`."""
        _needs_classic(line_of(groups.members_of(group)), "arestore_conversation")
        saved = self._wanted(chat_id, position)
        _same_line(saved, CLASSIC)
        return groups.restore_group(saved, group, manager, rename, self._results(saved, results, []))

    async def arestore_conversation(
        self,
        chat_id: object,
        agents: Any = (),
        *,
        position: int | None = None,
        rename: Mapping[str, str] | None = None,
        results: Any = None,
        transcript: bool = False,
        trusted: Sequence[str] = (),
    ) -> Any:
        """As :meth:`restore_conversation`, for AG2 1.x: gives ``RestoredStreams``, the agents by name.

        ``trusted`` are modules of yours whose event and data classes may be loaded; without it they stay plain data.
        """
        found = as_list(agents)
        if line_of(found) != STREAMED:
            return self.restore_conversation(
                chat_id, found, position=position, rename=rename, results=results, transcript=transcript
            )
        saved = await asyncio.to_thread(self._wanted, chat_id, position)
        given = classic.named(found)
        if transcript:
            return await transcripts.into_streams(saved, given)
        _same_line(saved, STREAMED)
        names = classic.renamed(saved.chat, list(given), rename)
        facts = saved.chat.facts.get("streams") or {}
        streams: dict[str, RestoredStream] = {}
        for key in saved.chat.lists:
            if key.kind != "stream" or names[key.of] not in given:
                continue
            agent = given[names[key.of]]
            known = facts.get(key.of) or {}
            events = streamed.build(saved.chat.held(key), agent, trusted)
            one = RestoredStream(agent, known.get("stream_id"), dict(known.get("variables") or {}), events)
            await one.prepare(self._results(saved, results, [known.get("stream_id")]))
            streams[agent.name] = one
        return RestoredStreams(saved, streams)

    # --- list, delete, close ---

    def list_conversations(self) -> list[Conversation]:
        """All chats that were saved and not deleted, the one saved last first."""
        return self._chats.list()

    def delete_conversation(self, chat_id: object, *, erase: bool = False, reason: str = "deleted") -> bool:
        """Take a chat back: it is neither listed nor loaded any more, and that is on record; ``False`` if there is none.

        ``erase=True`` also removes what was saved of it for good, from all its saves; the record that it was there stays.
        """
        return self._chats.delete(chat_id, erase=erase, reason=reason)

    def close(self) -> None:
        """Close the ledger, unless it was given. A second close does nothing."""
        self._place.close()

    def __enter__(self) -> AG2ChatPersistence:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __copy__(self) -> AG2ChatPersistence:
        return self

    def __deepcopy__(self, memo: Any) -> AG2ChatPersistence:
        return self  # a copied agent saves in the same place

    # --- shared ---

    def save_if_new(
        self, chat_id: object, agents: Any, metadata: Mapping[str, Any] | None = None
    ) -> LedgerEntry | None:
        """As :meth:`save_conversation`, only when there is something new; what autosaving uses."""
        return self._chats.save(chat_id, self._classic_content(agents, None, metadata), always=False)

    def _classic_content(self, agents: Any, messages: Any, metadata: Mapping[str, Any] | None) -> Content:
        found = as_list(agents)
        _needs_classic(line_of(found), "asave_conversation")
        return classic.collect(found, messages, metadata)

    def _saved(self, chat_id: object, content: Content) -> LedgerEntry:
        entry = self._chats.save(chat_id, content)
        assert entry is not None  # a save that is asked for is always appended
        return entry

    def _wanted(self, chat_id: object, position: int | None) -> SavedChat:
        if isinstance(chat_id, SavedChat):
            return chat_id
        saved = self.load_conversation(chat_id, position)
        if saved is None:
            when = "" if position is None else f" at position {position}"
            raise NotFound(
                f"there is no saved chat {chat_id!r:.100}{when} in {self.url}; see list_conversations()"
            )
        return saved

    def _results(self, saved: SavedChat, given: Any, more: list[Any]) -> Results:
        names = [saved.chat_id, *(str(name) for name in more if name)]
        return Results(given, self._place.readable(), names)


def _needs_classic(line: str, other: str) -> None:
    if line == STREAMED:
        raise InvalidEvent(f"agents of AG2 1.x are asynchronous; use: await {other}(...)", path="agents")


def _same_line(saved: SavedChat, line: str) -> None:
    if saved.line == line:
        return
    was = "without agents" if saved.line == PLAIN else f"from agents of the {saved.line} line of AG2"
    raise InvalidEvent(
        f"chat {saved.chat_id!r} was saved {was}, and these agents are of the {line} line; transcript=True restores what "
        "was said, without tool calls",
        path="agents",
    )
