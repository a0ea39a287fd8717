"""Trajectories of SWE-agent (``.traj``): the history of a run, the steps that it took, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from chatsnapshot.events.messages import Call, Result
from chatsnapshot.importers.base import Piece, Problem, name_text, title_of
from chatsnapshot.importers.chatrun import ChatRun, digest, usage_of
from chatsnapshot.importers.jsontext import Document, read_object

__all__ = ["SweAgentTrajectories"]

_STEP = frozenset({"action", "observation"})
_ACTORS = ("assistant", "tool")
_ENDED = "submitted"
_STOPPED = ("early_exit", "skipped", "exit_forfeit")


class SweAgentTrajectories:
    """Reads one trajectory into one run."""

    kind = "swe-agent"
    what = "a SWE-agent trajectory (.traj)"

    def looks_like(self, head: bytes) -> float:
        """By the steps of its trajectory, else by the kinds of the messages in its history."""
        members = read_object(head).members
        steps = [step for step in _list(members.get("trajectory")) if isinstance(step, Mapping)]
        if steps and steps[0].keys() >= _STEP:
            return 1.0
        items = [item for item in _list(members.get("history")) if isinstance(item, Mapping)]
        if not items:
            # The first step may be longer than the beginning.
            return 0.7 if "trajectory" in members and "environment" in members else 0.0
        marked = sum("agent" in item and ("message_type" in item or "action" in item) for item in items)
        return 0.95 if marked else 0.0

    def read(self, data: bytes) -> Iterator[Piece | Problem]:
        """The run: its start, each message with the tools it calls and their results, and how it ended."""
        document = read_object(data)
        if document.problem is not None:
            yield document.problem
        if not (document.members.keys() & {"history", "trajectory"}):
            if document.problem is None:
                yield Problem(0, "there is neither a 'history' nor a 'trajectory'")
            return
        yield from _Trajectory(document, len(data)).pieces()


class _Trajectory:
    def __init__(self, document: Document, end: int) -> None:
        self.facts = document.members
        self.whole = document.problem is None
        self.end = end
        self.history = _list(self.facts.get("history"))
        self.places = document.offsets.get("history", [])
        self.steps = _list(self.facts.get("trajectory"))
        self.step_places = document.offsets.get("trajectory", [])
        self.info = _mapping(self.facts.get("info"))
        self.config = _config(self.facts.get("replay_config"))
        self.task = name_text(_mapping(self.config.get("problem_statement")).get("id"), 80)
        parts = ("swe-agent", self.task, digest(self.facts), "" if self.whole else "partial")
        self.run = ChatRun("-".join(filter(None, parts)), "swe-agent")
        self.next_step = 0
        self.step: Mapping[str, Any] = {}
        """The step that the last action is."""
        self.waiting: str | None = None
        """The call id of an action without one, until what it gave is told."""

    def pieces(self) -> Iterator[Piece | Problem]:
        yield self._started()
        for key in ("history", "trajectory"):
            if not isinstance(self.facts.get(key, []), list):
                yield Problem(0, f"{key!r} is no list")
        for number, item in enumerate(self.history):
            if isinstance(item, Mapping):
                yield from self._item(self.places[number], number, item)
            else:
                yield Problem(self.places[number], f"message {number} is no object")
        yield from self._rest()
        yield from self._ended()

    def _started(self) -> Piece:
        problem = _mapping(self.config.get("problem_statement"))
        agent = _mapping(self.config.get("agent"))
        text = problem.get("text")
        known = ("environment", "replay_config")
        native = {"format": "swe-agent", **{key: self.facts[key] for key in known if key in self.facts}}
        if isinstance(self.facts.get("attempts"), list):
            native["attempts"] = len(self.facts["attempts"])
        system = next(
            (one for one in self.history if isinstance(one, Mapping) and one.get("role") == "system"), {}
        )
        asked = next(
            (one for one in self.history if isinstance(one, Mapping) and one.get("role") == "user"), {}
        )
        started = {
            "name": title_of(text) or title_of(asked.get("content")) or name_text(agent.get("name")),
            "input": text if text is not None else asked.get("content"),
            "instructions": system.get("content"),
            "session": self.task,
            "tags": ["swe-agent"] if self.whole else ["swe-agent", "partial"],
            "version": name_text(self.info.get("swe_agent_version")),
            "native": native,
        }
        return self.run.event(0, "execution.run_started", "start", started, origin="system")

    def _item(self, offset: int, number: int, item: Mapping[str, Any]) -> Iterator[Piece]:
        """One message of the history."""
        key = f"message {number}"
        native: dict[str, Any] = {"message_number": number}
        agent = name_text(item.get("agent")) if item.get("role") in _ACTORS else None
        waiting, self.waiting = self.waiting, None
        if waiting is not None and _is_observation(item):
            result = Result("shell", waiting, item.get("content"))
            native |= {"role": item.get("role"), **_seen(self.step)}
            yield self.run.result(
                offset, key, result, agent=name_text(item.get("agent")), native=native, more=_took(self.step)
            )
            return
        if item.get("role") == "tool":
            native |= _seen(self.step)
        elif _acts(item):
            self.step = self._step_of(item)
        plain = {one: value for one, value in item.items() if one != "agent" and not _repeated(item, one)}
        yield from self.run.said(
            offset, key, plain, name=agent, agent=agent, native=native, told=_took(self.step)
        )
        if _acts(item) and not isinstance(item.get("tool_calls"), list):
            self.waiting = f"message-{number}"
            call = Call("shell", self.waiting, {"command": item["action"]})
            yield self.run.call(offset, f"{key} call", call, name=agent, agent=agent, native=native)

    def _step_of(self, item: Mapping[str, Any]) -> Mapping[str, Any]:
        """The step of the trajectory that an action is: both are in order."""
        for number in range(self.next_step, len(self.steps)):
            step = self.steps[number]
            if isinstance(step, Mapping) and step.get("action") == item["action"]:
                self.next_step = number + 1
                return step
        return {}

    def _rest(self) -> Iterator[Piece | Problem]:
        """Steps that no message tells of: all where there is no history, else those after the last one."""
        for number in range(self.next_step, len(self.steps)):
            step, offset, key = self.steps[number], self.step_places[number], f"step {number}"
            if not isinstance(step, Mapping):
                yield Problem(offset, f"step {number} is no object")
                continue
            native = {"step": number}
            said = step.get("response") or step.get("thought")
            if said:
                message = {"role": "assistant", "content": said}
                yield from self.run.said(offset, key, message, name="main", native=native)
            if step.get("action"):
                call = Call("shell", f"step-{number}", {"command": step["action"]})
                yield self.run.call(offset, f"{key} call", call, name="main", native=native)
                result = Result("shell", call.call_id, step.get("observation"))
                native |= _seen(step)
                yield self.run.result(offset, f"{key} result", result, native=native, more=_took(step))

    def _ended(self) -> Iterator[Piece]:
        stats = _mapping(self.info.get("model_stats"))
        model = name_text(_mapping(_mapping(self.config.get("agent")).get("model")).get("name"))
        sent, received = stats.get("tokens_sent"), stats.get("tokens_received")
        usage = usage_of({"input_tokens": sent, "output_tokens": received})
        if usage is not None:
            call = {
                "model": model,
                "usage": usage,
                "purpose": "all calls of the run together: the file has no more",
                "native": {"model_stats": stats},
            }
            yield self.run.event(self.end, "execution.model_call", "model calls", call, follow=False)
        if not self.whole:
            return
        status = name_text(self.info.get("exit_status"))
        native = {key: value for key, value in self.info.items() if key not in ("submission", "model_stats")}
        submission = self.info.get("submission")
        if status is None or status.startswith(_ENDED):
            if status is None:
                native["said"] = "the file says no more than that the run ends here"
            payload = {"output": submission, "status": status, "native": native}
            event_type = "execution.run_completed"
        elif status.startswith(_STOPPED):
            payload = {"reason": status, "native": native}
            event_type = "execution.run_cancelled"
        else:
            payload = {"error": {"type": status, "message": f"the run ended with {status}"}, "native": native}
            event_type = "execution.run_failed"
        yield self.run.event(self.end, event_type, "end", payload, origin="system")


def _acts(item: Mapping[str, Any]) -> bool:
    return item.get("role") == "assistant" and isinstance(item.get("action"), str) and not item.get("is_demo")


def _is_observation(item: Mapping[str, Any]) -> bool:
    return item.get("role") in ("user", "tool") and item.get("message_type", "observation") == "observation"


def _repeated(item: Mapping[str, Any], key: str) -> bool:
    """Whether a field says again what another says."""
    return key == "thought" and item[key] == item.get("content")


def _seen(step: Mapping[str, Any]) -> dict[str, Any]:
    """What the environment was like after a step."""
    return {key: step[key] for key in ("state", "extra_info") if step.get(key)}


def _took(step: Mapping[str, Any]) -> dict[str, int]:
    """How long the action of a step ran."""
    seconds = step.get("execution_time")
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and 0 < seconds < 1e9:
        return {"duration_ns": round(seconds * 1e9)}
    return {}


def _config(given: object) -> Mapping[str, Any]:
    """The configuration of the run, which newer versions write as JSON text."""
    if isinstance(given, str):
        return read_object(given.encode("utf-8", "replace")).members
    return _mapping(given)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
