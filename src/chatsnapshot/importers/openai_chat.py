"""Chat files in OpenAI's form: one chat, a list of messages, or one chat a line as for fine-tuning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from chatsnapshot.importers.base import Piece, Problem, name_text, title_of
from chatsnapshot.importers.chatrun import ChatRun, digest, moment, usage_of
from chatsnapshot.importers.jsontext import Document, read_documents

__all__ = ["OpenAIChats", "looks_like_messages"]

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_SAYS = ("content", "tool_calls", "function_call", "refusal", "audio")
_LEFT = ("messages", "choices")


class OpenAIChats:
    """Reads each chat of a file into one run."""

    kind = "openai-chat"
    what = "chats in OpenAI's form: one, a list of messages, or one a line"

    def looks_like(self, head: bytes) -> float:
        """By the roles of the first chat's messages."""
        for document in read_documents(head):
            if document.members.keys() == {"role", "content"} and looks_like_messages([document.members]):
                return 0.6
            for messages in _chats_of(document):
                if isinstance(messages[1], list) and messages[1]:
                    return 0.7 * looks_like_messages(messages[1])
            return 0.1 if "messages" in document.members or "items" in document.members else 0.0
        return 0.0

    def read(self, data: bytes) -> Iterator[Piece | Problem]:
        """Every chat of the file; lines that are single messages are one chat together."""
        seen: dict[str, int] = {}
        single: list[tuple[int, Any]] = []
        for document in read_documents(data):
            if document.problem is not None:
                yield document.problem
            if "messages" not in document.members and "role" in document.members:
                single.append((document.start, document.members))
                continue
            chats = list(_chats_of(document))
            if not chats and document.problem is None:
                yield Problem(document.start, "there are no 'messages'")
            for facts, messages, offsets, start in chats:
                whole = document.problem is None
                yield from _chat(facts, messages, offsets, start, whole or start != chats[-1][3], seen)
        if single:
            yield from _chat(
                {}, [one for _, one in single], [at for at, _ in single], single[0][0], True, seen
            )


def looks_like_messages(items: list[Any]) -> float:
    """The share of items that are messages, 0 to 1."""
    fitting = sum(
        isinstance(item, Mapping)
        and isinstance(item.get("role"), str)
        and item["role"] in _ROLES
        and any(key in item for key in _SAYS)
        for item in items
    )
    return fitting / len(items) if items else 0.0


_Chat = tuple[Mapping[str, Any], Any, list[int], int]


def _chats_of(document: Document) -> Iterator[_Chat]:
    """The chats of one JSON text: what stands beside their messages, these, and where they begin."""
    members, offsets = document.members, document.offsets
    if "messages" in members:
        yield members, members["messages"], offsets.get("messages", []), document.start
        return
    items = members.get("items")
    if not isinstance(items, list):
        return
    places = offsets.get("items", [])
    if not items or looks_like_messages(items) > 0.5:
        yield {}, items, places, document.start
        return
    for item, place in zip(items, places, strict=True):
        if isinstance(item, list):
            yield {}, item, [place] * len(item), place
        elif isinstance(item, Mapping) and "messages" in item:
            messages = item["messages"]
            yield item, messages, [place] * (len(messages) if isinstance(messages, list) else 0), place
        else:
            yield {}, item, [], place


def _chat(
    facts: Mapping[str, Any],
    messages: Any,
    offsets: list[int],
    start: int,
    whole: bool,
    seen: dict[str, int],
) -> Iterator[Piece | Problem]:
    if not isinstance(messages, list):
        yield Problem(start, "a chat has a list of messages")
        return
    answer = _answer(facts)
    name = "-".join(filter(None, ("chat", digest([{**facts}, messages]), "" if whole else "partial")))
    # The same chat twice in a file is two chats.
    seen[name] = seen.get(name, 0) + 1
    run = ChatRun(name if seen[name] == 1 else f"{name}-{seen[name]}", "none")
    at = moment(facts.get("created") if "created" in facts else facts.get("created_at"))
    first = next((one for one in messages if isinstance(one, Mapping) and one.get("role") == "user"), {})
    started = {
        "name": title_of(first.get("content")),
        "session": name_text(facts.get("id")),
        "tags": ["openai-chat"] if whole else ["openai-chat", "partial"],
        "native": {"format": "openai-chat", **{key: facts[key] for key in facts if key not in _LEFT}},
    }
    yield run.event(start, "execution.run_started", "start", started, origin="system", at=at)
    end = start
    for number, message in enumerate([*messages, *answer]):
        end = offsets[number] if number < len(offsets) else end
        if not isinstance(message, Mapping):
            yield Problem(end, f"message {number} is no object")
            continue
        native = {"message_number": number}
        yield from run.said(
            end, f"message {number}", message, native=native, at=moment(message.get("created_at"))
        )
    if (usage := usage_of(facts.get("usage"))) is not None:
        call = {
            "model": name_text(facts.get("model")),
            "usage": usage,
            "response_id": name_text(facts.get("id")),
        }
        yield run.event(end, "execution.model_call", "model call", call, at=at)
    if whole:
        ended = {"native": {"said": "the file says no more than that the chat ends here"}}
        yield run.event(end, "execution.run_completed", "end", ended, origin="system", at=at)


def _answer(facts: Mapping[str, Any]) -> list[Any]:
    """The message of the first choice, of a request that was written down with its completion."""
    choices = facts.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        message = choices[0].get("message")
        return [message] if isinstance(message, Mapping) else []
    return []
