"""``PersistentChatMixin``: a classic agent that saves its chats by itself, and loads them again."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from typing import Any

from chatsnapshot.adapters.ag2.saving.persistence import AG2ChatPersistence
from chatsnapshot.envelope import LedgerEntry
from chatsnapshot.errors import InvalidEvent

__all__ = ["PersistentChatMixin"]

_log = logging.getLogger("chatsnapshot.adapters.ag2")


class PersistentChatMixin:
    """Mixed into a class of classic agents, first: ``class Desk(PersistentChatMixin, ConversableAgent)``.

    ``persistence`` is an ``AG2ChatPersistence`` (default: JSON in its default place), ``chat_id`` names the chat
    (default: the agent's name and a random id). With ``autosave`` what the agent and its peers hold is
    saved after every message that the agent sends or gets, before a reply to it is made. A save that fails is logged
    once, kept in ``autosave_error``, and made good by the next; it never disturbs the talk.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        kinds = list(cls.__mro__)
        classic = [kind for kind in kinds if hasattr(kind, "_append_oai_message") and kind is not cls]
        agents = [kind for kind in classic if not issubclass(kind, PersistentChatMixin)]
        if any(kind.__module__.startswith(("ag2.", "autogen.beta.")) for kind in kinds):
            raise InvalidEvent(
                f"{cls.__name__} is an agent of AG2 1.x, which holds no conversation; use: await "
                "persistence.asave_conversation(chat_id, agent, reply)"
            )
        if agents and kinds.index(PersistentChatMixin) > kinds.index(agents[0]):
            raise InvalidEvent(
                f"PersistentChatMixin goes first: class {cls.__name__}(PersistentChatMixin, {agents[0].__name__})"
            )

    def __init__(
        self,
        *args: Any,
        persistence: AG2ChatPersistence | None = None,
        chat_id: object = None,
        autosave: bool = True,
        **options: Any,
    ) -> None:
        self.autosave = False  # AG2's own construction may append already
        super().__init__(*args, **options)
        if not hasattr(self, "_oai_messages"):
            raise InvalidEvent(
                f"PersistentChatMixin needs a classic agent beside it: class {type(self).__name__}"
                "(PersistentChatMixin, ConversableAgent)"
            )
        self.persistence = persistence if persistence is not None else AG2ChatPersistence()
        self.chat_id = f"{self._name_of_self()}-{uuid.uuid4()}" if chat_id is None else str(chat_id)
        self.autosave = autosave
        self.autosave_error: Exception | None = None
        self.autosave_failures = 0
        self._chat_loaded = False

    def save_chat(self, metadata: Mapping[str, Any] | None = None) -> LedgerEntry:
        """Save now what the agent and its peers hold; raises as ``save_conversation``."""
        return self.persistence.save_conversation(self.chat_id, self._together(), metadata=metadata)

    def load_chat(self, *peers: Any, position: int | None = None, **options: Any) -> Any:
        """Give the agent and these peers the saved talk again; ``None`` when nothing was saved under this chat id.

        Gives a ``RestoredChat``; ``options`` are those of ``restore_conversation``.
        """
        saved = self.persistence.load_conversation(self.chat_id, position)
        if saved is None:
            return None
        restored = self.persistence.restore_conversation(saved, [self, *peers], **options)
        self._chat_loaded = True
        return restored

    def resume_chat(self, *peers: Any, message: Any = None, **options: Any) -> Any:
        """Load the chat and go on with it.

        Without ``message`` the agent that owes a reply gives it, and the whole talk is returned; with one the agent says
        it to its peer, and AG2's ``ChatResult`` is returned. ``options`` are those of ``initiate_chat``. Without a saved
        chat a message begins a new one, and no message is an :class:`InvalidEvent`.
        """
        restored = self.load_chat(*peers)
        if message is not None:
            return self.initiate_chat(
                peers[0], message=message, **{"clear_history": restored is None, **options}
            )
        if restored is None:
            raise InvalidEvent(f"no chat {self.chat_id!r} was saved; give a message to begin one")
        return restored.resume()

    def initiate_chat(
        self, recipient: Any, clear_history: bool | None = None, *args: Any, **options: Any
    ) -> Any:
        """As AG2's own, only that a chat that was loaded is not thrown away unless ``clear_history=True`` is given."""
        parent: Any = super()
        return parent.initiate_chat(recipient, self._clears(clear_history), *args, **options)

    async def a_initiate_chat(
        self, recipient: Any, clear_history: bool | None = None, *args: Any, **options: Any
    ) -> Any:
        """As :meth:`initiate_chat`."""
        parent: Any = super()
        return await parent.a_initiate_chat(recipient, self._clears(clear_history), *args, **options)

    def _clears(self, clear_history: bool | None) -> bool:
        return not self._chat_loaded if clear_history is None else clear_history

    def _append_oai_message(self, *args: Any, **options: Any) -> Any:
        """AG2 calls this for every message sent or received; what came in is saved before anything follows from it."""
        parent: Any = super()
        appended = parent._append_oai_message(*args, **options)
        if appended and self.autosave:
            self._autosave()
        return appended

    def _autosave(self) -> None:
        try:
            self.persistence.save_if_new(self.chat_id, self._together())
        except Exception as error:
            self.autosave_failures += 1
            if self.autosave_failures == 1:
                _log.warning("chat %s could not be saved: %s; the talk goes on", self.chat_id, error)
            self.autosave_error = error
        else:
            self.autosave_error = None

    def _together(self) -> list[Any]:
        """The agent and all that it talks with; of two peers with one name the later."""
        held: Mapping[Any, Any] = getattr(self, "_oai_messages", {})
        peers = {peer.name: peer for peer in held if hasattr(peer, "_oai_messages")}
        peers.pop(self._name_of_self(), None)
        return [self, *peers.values()]

    def _name_of_self(self) -> str:
        return str(getattr(self, "name", type(self).__name__))
