"""A runtime of one's own in the stories of the contract: a tiny loop, recorded through ``RuntimeRecorder``."""

from __future__ import annotations

import itertools
from typing import Any

from chatsnapshot.adapters.custom import RuntimeRecorder
from chatsnapshot.adapters.observed import ObservedRun
from chatsnapshot.adapters.payloads import text, tool_call_part
from chatsnapshot.testing.adaptercontract.bench import AdapterBench, Outcome, in_tool
from chatsnapshot.testing.adaptercontract.loop import Agent, Ask, Call, HandOver, Loop, Waits

__all__ = ["CustomBench", "LoopRecorder"]

_USAGE = {"input_tokens": 11, "output_tokens": 7}


class LoopRecorder(RuntimeRecorder):
    """Records the loop: an observer of it, and all that an adapter must do."""

    runtime = "custom"

    def __init__(self, ledger: Any, **options: Any) -> None:
        super().__init__(ledger, **options)
        self._tokens: dict[tuple[str, str], Any] = {}

    def told(self, what: str, run_id: str, **facts: Any) -> None:
        """What the loop calls; it never raises."""
        with self.guarded():
            if what == "run began":
                self._begin(run_id, **facts)
            elif (run := self.run(run_id)) is not None:
                getattr(self, what.replace(" ", "_"))(run, **facts)

    def _begin(self, run_id: str, thread: str, agent: str, **begun: Any) -> None:
        resumed = "answer" in begun
        run = self.begin(agent, key=run_id, correlation_id=thread, resumed=resumed)
        if run is None:
            return  # another recorder of this ledger has it
        if resumed:
            self.record(run.answer(begun["call"].id, content=begun["answer"]), run.started())
        else:
            self.record(run.started(begun["text"]), run.message("user", [text(begun["text"])]))

    def model_said(self, run: ObservedRun, said: str | list[Call]) -> None:
        """One answer of the model."""
        asks = [tool_call_part(one.id, one.tool, one.arguments) for one in said if isinstance(one, Call)]
        self.record(
            run.model_call(model="scripted", usage=_USAGE),
            run.message("assistant", [text(said)] if isinstance(said, str) else asks),
        )

    def model_failed(self, run: ObservedRun, error: Exception) -> None:
        """A model that raised."""
        self.record(run.model_call(model="scripted", error=error))

    def tool_began(self, run: ObservedRun, call: Call) -> None:
        """From here on the tool runs: what it starts is caused by its call."""
        self.record(run.tool_call(call.id, call.tool, call.arguments))
        self._tokens[run.key, call.id] = run.enter(call.id)

    def tool_left(self, run: ObservedRun, call: Call) -> None:
        """The tool has returned or raised."""
        run.leave(self._tokens.pop((run.key, call.id), None))

    def tool_ended(self, run: ObservedRun, call: Call, result: Any) -> None:
        """What the model is given as the result."""
        failed = isinstance(result, Exception)
        given = f"to {result.agent.name}" if isinstance(result, HandOver) else result
        self.record(
            run.tool_result(call.id, call.tool, error=given)
            if failed
            else run.tool_result(call.id, call.tool, result=given)
        )

    def agent_changed(self, run: ObservedRun, to: str, call: Call) -> None:
        """Another agent goes on."""
        self.record(run.handoff(to, call_id=call.id))
        run.agent = to

    def person_asked(self, run: ObservedRun, call: Call, question: str) -> None:
        """A tool needs a person."""
        self.record(run.question(call.id, prompt=question, call_id=call.id))

    def run_waits(self, run: ObservedRun, end: Waits) -> None:
        """The run ends here, and another one goes on with the answer."""
        self.record(run.paused(end.question))
        self.end(run)

    def run_ended(self, run: ObservedRun, end: str) -> None:
        """The last answer is there."""
        self.record(run.completed(end))
        self.end(run)

    def run_failed(self, run: ObservedRun, error: BaseException) -> None:
        """The run raised."""
        self.record(run.failed(error))
        self.end(run)


class CustomBench(AdapterBench):
    """The loop with the observer above."""

    runtime = "custom"
    title = "a runtime of your own"
    usage = (_USAGE["input_tokens"], _USAGE["output_tokens"])

    def recorder(self, ledger: Any) -> LoopRecorder:
        """A ``LoopRecorder``."""
        return LoopRecorder(ledger)

    def play(self, scenario: str, recorder: Any | None) -> Outcome:
        """Run the story."""
        story = _Story(Loop(self.attached(recorder)))
        return Outcome.of(getattr(story, scenario))


class _Story:
    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self._ids = itertools.count(1)

    def call(self, tool: str, **arguments: Any) -> Call:
        return Call(tool, arguments, f"call-{next(self._ids)}")

    def sums(self) -> Agent:
        calls = [self.call("add", a=2, b=3), self.call("add", a=4, b=5)]
        return Agent("alpha", [calls, "5 and 9"], add)

    def plain(self) -> Any:
        return self.loop.run(Agent("alpha", ["Hi there"]), "Hello")

    def parallel_tools(self) -> Any:
        return self.loop.run(self.sums(), "What is 2+3 and 4+5?")

    def streaming(self) -> Any:
        return "".join(self.loop.stream(self.sums(), "What is 2+3 and 4+5?"))

    def sub_agent(self) -> Any:
        def ask_child(question: str) -> Any:
            return self.loop.run(Agent("beta", ["child says hi"]), question)

        alpha = Agent("alpha", [[self.call("ask_child", question="Who is there?")], "done"], ask_child)
        return self.loop.run(alpha, "Go")

    def handoff(self) -> Any:
        def hand_over() -> HandOver:
            return HandOver(Agent("beta", ["beta here"]))

        return self.loop.run(Agent("alpha", [[self.call("hand_over")]], hand_over), "Go")

    def interruption(self) -> Any:
        def ask_person() -> Ask:
            return Ask("May I?")

        waits = self.loop.run(Agent("alpha", [[self.call("ask_person")], "approved"], ask_person), "Do it")
        return self.loop.resume(waits, "yes")

    def tool_error(self) -> Any:
        return self.loop.run(Agent("alpha", [[self.call("fail")], "sorry"], fail), "Go")

    def model_error(self) -> Any:
        return self.loop.run(Agent("alpha", [RuntimeError("model is down")]), "Go")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    in_tool()
    return a + b


def fail() -> str:
    """Fail."""
    raise ValueError("no such city")
