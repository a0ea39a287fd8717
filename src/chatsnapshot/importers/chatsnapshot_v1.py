"""Chats that version 1 of ChatSnapshot saved, one JSON file a chat or a SQLite file of them: messages, then the state."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from chatsnapshot.importers.base import Piece, Problem, name_text
from chatsnapshot.importers.chatrun import ChatRun, digest, moment
from chatsnapshot.importers.jsontext import Document, read_object
from chatsnapshot.importers.sqlitefile import has_table, rows_of

__all__ = ["ChatSnapshotV1"]

_COLUMNS = ("chat_id", "chat_type", "timestamp", "data")
_AGENT = ("name", "system_message", "human_input_mode", "max_consecutive_auto_reply", "function_names")
"""What is told of an agent. Its ``llm_config`` is left where it is: it may hold an API key."""

_STATE = (
    *(
        "metadata",
        "speaker_selection_method",
        "max_round",
        "admin_name",
        "speaker_transitions",
        "last_speaker",
    ),
    *("round_count", "termination_reason", "is_terminated"),
)
_ZONE = "unknown: taken as UTC"


class ChatSnapshotV1:
    """Reads each chat into one run under the id of the chat; a later snapshot of a chat adds what is new in it."""

    kind = "chatsnapshot-v1"
    what = "chats saved by ChatSnapshot 1 (one JSON file each, or a SQLite file)"

    def looks_like(self, head: bytes) -> float:
        """By the table of the SQLite file, or the keys beside the messages."""
        if has_table(head, "chat_snapshots", _COLUMNS):
            return 1.0
        keys = read_object(head).members.keys()
        if keys >= {"chat_id", "chat_type", "messages"}:
            return 1.0
        return 0.8 if keys >= {"chat_id", "messages"} else 0.7 if keys >= {"chat_id", "chat_type"} else 0.0

    def read(self, data: bytes) -> Iterator[Piece | Problem]:
        """The chats of the file."""
        if not has_table(data[: 64 * 1024], "chat_snapshots", _COLUMNS):
            yield from _chat(read_object(data), len(data))
            return
        for row in rows_of(data, "chat_snapshots", _COLUMNS, ("chat_id", "chat_type")):
            if isinstance(row, Problem):
                yield row
                continue
            text = row.values["data"]
            document = read_object((text or "").encode("utf-8", "surrogateescape"))
            # Offsets inside of a row's text are none of the file: SQLite may keep it in pieces.
            offsets = {key: [row.offset] * len(places) for key, places in document.offsets.items()}
            problem = document.problem
            if problem is not None:
                told = f"data of chat {str(row.values['chat_id'])!r:.60}: {problem.reason}"
                problem = Problem(row.offset, told)
            given = {name: row.values[name] for name in _COLUMNS[:3]}
            found = Document({**given, **document.members}, offsets, problem, document.object, row.offset)
            yield from _chat(found, row.offset)


def _chat(document: Document, end: int) -> Iterator[Piece | Problem]:
    facts, whole = document.members, document.problem is None
    if document.problem is not None:
        yield document.problem
    chat, messages = name_text(facts.get("chat_id")), facts.get("messages")
    if chat is None or not isinstance(messages, list):
        if document.problem is None:
            yield Problem(document.start, "there is no 'chat_id' with a list of 'messages'")
        return
    places = document.offsets.get("messages", [])
    kept, copies = _once(messages, facts.get("chat_type") == "group")
    first = messages[kept[0]] if kept else None
    run_id = f"{chat[:200]}-{digest(first, 8)}{'' if whole else '-partial'}"
    run = ChatRun(chat, "ag2", run_id=run_id)
    kind = name_text(facts.get("chat_type"), 64)
    started = {
        "name": chat,
        "session": chat,
        "tags": [one for one in ("chatsnapshot-v1", kind, None if whole else "partial") if one],
        "native": {"format": "chatsnapshot-v1"},
    }
    yield run.event(document.start, "execution.run_started", "start", started, origin="system")
    place = 0
    for number in kept:
        message = messages[number]
        if not isinstance(message, Mapping):
            yield Problem(places[number], f"message {number} is no object")
            continue
        key = f"message {place} {digest(message)}"
        native = {"message_number": number}
        agent = message.get("name") if message.get("role") == "assistant" else None
        yield from run.said(places[number], key, message, agent=name_text(agent), native=native)
        place += 1
    if whole:
        yield from _state(run, facts, copies, end)


def _state(run: ChatRun, facts: Mapping[str, Any], copies: int, end: int) -> Iterator[Piece]:
    """What the chat was like when it was saved, and whether it was over."""
    at = moment(facts.get("timestamp"))
    native = {"timestamp": facts.get("timestamp"), "zone": _ZONE}
    state: dict[str, Any] = {key: facts[key] for key in _STATE if facts.get(key) is not None}
    agents = facts.get("agent_states")
    if isinstance(agents, Mapping):
        state["agents"] = {
            name: {key: one[key] for key in _AGENT if key in one}
            for name, one in agents.items()
            if isinstance(one, Mapping)
        }
    variables = facts.get("context_variables")
    state["context_variables"] = variables
    name = digest([state, facts.get("timestamp"), facts.get("messages")])
    told = {"name": "snapshot", "to": state, "native": {**native, "copies_left_out": copies}}
    yield run.event(end, "execution.state_change", f"state {name}", told, origin="system", at=at)
    reason = name_text(facts.get("termination_reason"), 2_000)
    if facts.get("is_terminated") in (True, 1):
        payload = {"status": reason or "terminated", "variables": variables, "native": native}
        yield run.event(end, "execution.run_completed", f"end {name}", payload, origin="system", at=at)
        return
    payload = {"reason": reason or "the chat was not over when it was saved", "native": native}
    yield run.event(end, "execution.run_paused", f"pause {name}", payload, origin="system", at=at)


def _once(messages: list[Any], group: bool) -> tuple[list[int], int]:
    """Places of the messages without the copies that each agent of a group chat keeps, and how many those were.

    Copies differ in nothing, or in the role. A message that was said again is told apart by its number of copies.
    """
    places = list(range(len(messages)))
    if not group:
        return places, 0
    keys = [_same(message) for message in messages]
    places = [place for place in places if place == 0 or keys[place] != keys[place - 1]]
    counts = Counter(keys[place] for place in places)
    often = Counter(counts.values())
    usual = min((count for count in often if often[count] == max(often.values())), default=1)
    left = {key: max(1, round(count / usual)) for key, count in counts.items()}
    kept = []
    for place in places:
        if left[keys[place]] > 0:
            left[keys[place]] -= 1
            kept.append(place)
    return kept, len(messages) - len(kept)


def _same(message: Any) -> str:
    if isinstance(message, Mapping) and message.get("name"):
        message = {key: value for key, value in message.items() if key != "role"}
    return json.dumps(message, sort_keys=True, default=str)
