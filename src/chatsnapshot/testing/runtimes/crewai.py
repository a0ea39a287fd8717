"""CrewAI as the contract of adapters drives it, with a scripted model that tells of its calls as CrewAI's own do."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from chatsnapshot.adapters.crewai import CrewAIRecorder
from chatsnapshot.testing.adapters import AdapterBench, Outcome, in_tool

__all__ = ["CrewAIBench", "agent", "call", "crew", "scripted", "waiting_flow"]

_OFFLINE = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_TRACKING": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OTEL_SDK_DISABLED": "true",
}


class CrewAIBench(AdapterBench):
    """Plays every story with crews of one or two agents, and the interruption with a flow.

    From the first story to :meth:`close` CrewAI sends no telemetry from this process: the contract uses no network,
    and what CrewAI stores goes to a folder that :meth:`close` removes.
    """

    runtime = "crewai"
    package = "crewai"
    title = "CrewAI"
    usage = (5, 2)

    _folder: tempfile.TemporaryDirectory[str] | None = None
    _before: Mapping[str, str | None] = {}

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plays = 0
        self._shown = sys.stdout

    def _opened(self) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="cs-crewai-")
            self._before = {name: os.environ.get(name) for name in (*_OFFLINE, "CREWAI_STORAGE_DIR")}
            os.environ.update(_OFFLINE, CREWAI_STORAGE_DIR=self._folder.name)
        return Path(self._folder.name)

    def close(self) -> None:
        """Put the environment back and remove the folder."""
        if self._folder is not None:
            for name, value in self._before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
            self._folder.cleanup()
            self._folder = None

    def recorder(self, ledger: Any) -> CrewAIRecorder:
        """A recorder of this runtime."""
        return CrewAIRecorder(ledger)

    def play(self, scenario: str, recorder: Any) -> Outcome:
        """One run; ``None`` as the recorder: not recorded at all."""
        with self._lock:
            folder = self._opened()
        recorders = self.attached(recorder)
        logging.getLogger("crewai").setLevel(logging.CRITICAL)
        with self._watched(recorders):
            return Outcome.of(lambda: _play(scenario, folder))

    @contextlib.contextmanager
    def _watched(self, recorders: list[Any]) -> Iterator[None]:
        """Attached, and quiet: CrewAI draws boxes. Plays at once share both, for the process has one of each."""
        with self._lock:
            self._plays += 1
            if self._plays == 1:
                self._shown, sys.stdout = sys.stdout, io.StringIO()
                for one in recorders:
                    one.attach()
        try:
            yield
        finally:
            with self._lock:
                self._plays -= 1
                if self._plays == 0:
                    sys.stdout = self._shown
                    for one in recorders:
                        one.detach()


def _play(scenario: str, folder: Path) -> Any:
    if scenario == "interruption":
        return _interruption(folder)
    team, asked = _story(scenario)
    if scenario == "streaming":
        team.stream = True
        output = team.kickoff(inputs={"asked": asked})
        chunks = [str(chunk.content) for chunk in output]
        return [output.result.raw, len(chunks) > 0]
    output = team.kickoff(inputs={"asked": asked})
    return [output.raw, [one.raw for one in output.tasks_output], output.token_usage.total_tokens]


def _interruption(folder: Path) -> Any:
    """A flow that waits for a person, and goes on in another object, as after a restart."""
    from crewai.flow.persistence import SQLiteFlowPersistence

    kept = SQLiteFlowPersistence(str(folder / "flows.db"))
    flow = waiting_flow(kept)
    pending = flow.kickoff()
    going_on = type(flow).from_pending(flow.flow_id, kept)
    return [type(pending).__name__, going_on.resume("approved")]


def _story(scenario: str) -> tuple[Any, str]:
    """The crew of a story and what it is asked."""
    if scenario in ("parallel_tools", "streaming"):
        both = [call("add", "call_1", a=2, b=3), call("add", "call_2", a=4, b=5)]
        return crew(agent("alpha", both, "5 and 9", tools=[_tool(_add)])), "What is 2+3 and 4+5?"
    if scenario == "sub_agent":
        asking = [call("ask_child", "call_1", question="hi")]
        return crew(agent("alpha", asking, "done", tools=[_tool(_ask_child)])), "Ask the child"
    if scenario == "handoff":
        over = [
            call("delegate_work_to_coworker", "call_1", task="Answer", context="A question", coworker="beta")
        ]
        alpha = agent("alpha", over, "beta here", allow_delegation=True)
        return crew(alpha, beside=[agent("beta", "beta here")]), "Let beta answer"
    if scenario == "tool_error":
        return crew(agent("alpha", [call("fail", "call_1")], "it failed", tools=[_tool(_fail)])), "Try"
    if scenario == "model_error":
        return crew(agent("alpha", RuntimeError("model is down"))), "Hello"
    return crew(agent("alpha", "Hi there")), "Hello"


def agent(role: str, *answers: Any, **options: Any) -> Any:
    """An agent whose model gives these answers, one a call: a text, a list of calls, or an exception to raise."""
    from crewai import Agent

    given = {"goal": "answer", "backstory": "a story", "max_retry_limit": 0, "llm": scripted(*answers)}
    return Agent(role=role, **{**given, **options})


def crew(alpha: Any, beside: Any = ()) -> Any:
    """A crew with one task, ``{asked}``, for its first agent."""
    from crewai import Crew, Task

    task = Task(description="{asked}", expected_output="an answer", agent=alpha)
    return Crew(agents=[alpha, *beside], tasks=[task], verbose=False)


def call(name: str, call_id: str, **arguments: Any) -> dict[str, Any]:
    """A call of a tool, as a model asks for it."""
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }


def scripted(*answers: Any, telling: bool = True) -> Any:
    """A model that gives these answers; with ``telling=False`` a plain one of one's own.

    Such a one tells nobody of its calls, and asks for tools in text (``Action: …``).
    """
    return _model()(model="scripted", answers=list(answers), telling=telling)


def waiting_flow(persistence: Any) -> Any:
    """A flow that waits for a person after its first step and gives back what was said."""
    return _flow()(persistence=persistence)


@functools.lru_cache(maxsize=1)
def _model() -> Any:
    from crewai import BaseLLM
    from crewai.events.types.llm_events import LLMCallType
    from crewai.llms.base_llm import llm_call_context

    class Scripted(BaseLLM):  # type: ignore[misc, unused-ignore]
        answers: list[Any] = []  # noqa: RUF012 - a field of a pydantic model
        telling: bool = True

        def call(
            self,
            messages: Any,
            tools: Any = None,
            callbacks: Any = None,
            available_functions: Any = None,
            from_task: Any = None,
            from_agent: Any = None,
            response_model: Any = None,
        ) -> Any:
            told = {"from_task": from_task, "from_agent": from_agent}
            with llm_call_context():
                if self.telling:
                    self._emit_call_started_event(messages=messages, tools=tools, **told)
                answer = self.answers.pop(0)
                if isinstance(answer, Exception):
                    if self.telling:
                        self._emit_call_failed_event(error=str(answer), **told)
                    raise answer
                usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
                if self.telling:
                    for word in (
                        answer.split() if isinstance(answer, str) and self._effective_stream() else ()
                    ):
                        self._emit_stream_chunk_event(chunk=word, **told)
                    kind = LLMCallType.LLM_CALL if isinstance(answer, str) else LLMCallType.TOOL_CALL
                    self._emit_call_completed_event(response=answer, call_type=kind, usage=usage, **told)
                self._track_token_usage_internal(usage)
                return answer

        def supports_function_calling(self) -> bool:
            return self.telling

        def supports_stop_words(self) -> bool:
            return True

        def get_context_window_size(self) -> int:
            return 100_000

    return Scripted


@functools.lru_cache(maxsize=1)
def _flow() -> Any:
    from crewai.flow.async_feedback import HumanFeedbackPending
    from crewai.flow.flow import Flow, listen, start
    from crewai.flow.human_feedback import human_feedback

    class Elsewhere:
        def request_feedback(self, context: Any, flow: Any) -> str:
            raise HumanFeedbackPending(context=context)

    def draft(self: Any) -> str:
        return "a draft"

    def send(self: Any, told: Any) -> str:
        return str(told.feedback)

    asked: Any = human_feedback(message="May it be sent?", provider=Elsewhere())  # type: ignore[arg-type, unused-ignore]
    first: Any = start()(asked(draft))
    second: Any = listen(first)(send)
    return type("Waiting", (Flow,), {"draft": first, "send": second, "__module__": __name__})


def _tool(function: Any) -> Any:
    from crewai.tools import tool

    return tool(function.__name__.lstrip("_"))(function)


def _add(a: int, b: int) -> str:
    """Add two numbers."""
    in_tool()
    return str(a + b)


def _ask_child(question: str) -> str:
    """Ask the child."""
    return str(agent("beta", "child says hi").kickoff(question).raw)


def _fail() -> str:
    """Fail."""
    raise ValueError("no such city")
