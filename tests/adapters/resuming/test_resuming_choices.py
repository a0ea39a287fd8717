"""What becomes of open calls, and what is refused: on copies of a ledger as a kill would have left it."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ag2 import Agent, Context, MemoryStream
from ag2.events.alert import ObserverAlert, Severity
from ag2.testing import TestConfig, TrackingConfig
from streamed_program import call

import chatsnapshot
from chatsnapshot import Corrupt, InvalidEvent, Ledger, NotFound
from chatsnapshot.adapters.ag2 import AG2Recorder, aresume_run, resume_run
from chatsnapshot.adapters.ag2.resuming import ResumedRun


class Scene:
    """An agent with a tool, and the ledger as it was while the tool ran."""

    def __init__(self, folder: Path) -> None:
        self.ledger = chatsnapshot.open(str(folder / "runs.jsonl"))
        self.copy = folder / "copy.jsonl"
        self.folder = folder
        self.ran: list[str] = []
        self.copying = True

    def agent(
        self, recorder: AG2Recorder, *script: Any, name: str = "desk", tools: Any = (), **options: Any
    ) -> Agent:
        async def pay(order: str, ctx: Context) -> str:
            """Pay."""
            self.ran.append(order)
            ctx.variables["paid"] = order
            if self.copying:
                shutil.copy(self.folder / "runs.jsonl", self.copy)
            return f"{order} is paid"

        config = TrackingConfig(TestConfig(*script))
        self.model = config
        return Agent(name, config=config, tools=[pay, *tools], middleware=[recorder.middleware], **options)

    def stopped_in_a_tool(self, *script: Any, **options: Any) -> Ledger:
        """A ledger that holds what a process had recorded when it was killed in a tool."""
        recorder = AG2Recorder(self.ledger, correlation_id="case-7")
        script = script or (call("pay", "c-1", order="A-17"), "paid")
        asyncio.run(self.agent(recorder, *script, **options).ask("Pay A-17."))
        self.copying = False
        self.ran.clear()
        return chatsnapshot.open(str(self.copy))

    def resumed(self, ledger: Ledger, *script: Any, **options: Any) -> ResumedRun:
        async def main() -> ResumedRun:
            recorder = AG2Recorder(ledger)
            resumed = await recorder.aresume("case-7", self.agent(recorder, *script), **options)
            await resumed.go_on()
            assert recorder.safe.failures == 0
            return resumed

        return asyncio.run(main())

    @property
    def given(self) -> list[Any]:
        """The results that the model was given last."""
        (sent,) = self.model.mock.call_args.args
        return [(one.parent_id, one.result.parts[0].content) for one in sent.results]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.ledger.close()


def results(ledger: Ledger) -> list[tuple[str, Any]]:
    return [
        (entry.payload["call_id"], entry.payload["result"])
        for entry in ledger.read(event_type="execution.tool_result")
    ]


async def later(open_call: Any) -> str:
    return f"{open_call.name} by hand"


@pytest.mark.parametrize(
    ("policy", "given", "ran"),
    [
        ("execute", "A-17 is paid", ["A-17"]),
        ({"c-1": "paid by hand"}, "paid by hand", []),
        (lambda open_call: f"{open_call.name} by hand", "pay by hand", []),
        (later, "pay by hand", []),
        (lambda open_call: NotImplemented, "A-17 is paid", ["A-17"]),
    ],
)
def test_an_open_call_is_executed_or_answered(policy: Any, given: str, ran: list[str], scene: Scene) -> None:
    with scene.stopped_in_a_tool() as ledger:
        resumed = scene.resumed(ledger, "paid", open_calls=policy)
        assert (scene.given, scene.ran) == ([("c-1", given)], ran)
        assert results(ledger) == [("c-1", given)]
        assert resumed.open_calls == []


def test_a_closed_call_tells_the_model_that_nobody_knows(scene: Scene) -> None:
    with scene.stopped_in_a_tool() as ledger:
        scene.resumed(ledger, "I see.", open_calls="close")
        assert scene.ran == []
        assert "Nobody knows whether it did its work" in scene.given[0][1]


@pytest.mark.parametrize("policy", ["retry", {"c-9": "?"}, 7])
def test_another_policy_is_refused(policy: Any, scene: Scene) -> None:
    with scene.stopped_in_a_tool() as ledger, pytest.raises(InvalidEvent, match="open_calls"):
        scene.resumed(ledger, "?", open_calls=policy)


def test_a_run_that_is_killed_twice_goes_on_twice(scene: Scene) -> None:
    with scene.stopped_in_a_tool() as ledger:
        scene.resumed(ledger, "paid")
        assert scene.ran == ["A-17"]
    # Cut the record behind the result of the second execution: there the second process was killed.
    lines = scene.copy.read_text().splitlines(keepends=True)
    cut = max(at for at, line in enumerate(lines) if "execution.model_call" in line)
    scene.copy.with_name("again.jsonl").write_text("".join(lines[:cut]))
    scene.ran.clear()
    with chatsnapshot.open(str(scene.copy.with_name("again.jsonl"))) as ledger:
        resumed = scene.resumed(ledger, "paid")
        assert (scene.ran, scene.given) == ([], [("c-1", "A-17 is paid")])
        (run,) = ledger.view("runs", "case-7").runs
        assert [one.status for one in run.executions] == ["unfinished", "unfinished", "completed"]
        assert resumed.variables == {"paid": "A-17"}


def test_a_conversation_of_several_turns_is_built_again_whole(scene: Scene) -> None:
    async def turns() -> None:
        recorder = AG2Recorder(scene.ledger, correlation_id="case-7")
        stream = MemoryStream()
        await scene.agent(recorder, "Hello.").ask("Good morning", stream=stream)
        agent = scene.agent(recorder, call("pay", "c-1", order="A-17"), "paid")
        await agent.ask("Pay A-17.", stream=stream)

    asyncio.run(turns())
    scene.copying = False
    with chatsnapshot.open(str(scene.copy)) as ledger:
        resumed = scene.resumed(ledger, "paid")
        history = list(asyncio.run(resumed.reply.history.get_events()))
        said = [type(event).__name__ for event in history if "Request" in type(event).__name__]
        assert said == ["ModelRequest", "ModelRequest"]
        assert [run.status for run in ledger.view("runs", "case-7").runs] == ["completed", "completed"]


def test_the_next_turn_goes_on_after_a_resumed_one(scene: Scene) -> None:
    with scene.stopped_in_a_tool() as ledger:

        async def main() -> list[Any]:
            recorder = AG2Recorder(ledger)
            resumed = await recorder.aresume("case-7", scene.agent(recorder, "paid"))
            with pytest.raises(InvalidEvent, match="go_on"):
                await resumed.ask("Thanks")
            await resumed.go_on()
            with pytest.raises(InvalidEvent, match="has ended"):
                await resumed.go_on()
            reply = await resumed.ask("Thanks", config=TestConfig("You are welcome."))
            assert reply.body == "You are welcome."
            return list(await reply.history.get_events())

        history = asyncio.run(main())
        assert [type(one).__name__ for one in history].count("ModelRequest") == 2
        assert [run.status for run in ledger.view("runs", "case-7").runs] == ["completed"] * 2


def test_a_run_that_had_ended_is_asked_a_new_question(scene: Scene) -> None:
    scene.stopped_in_a_tool().close()
    with scene.ledger as ledger:

        async def main() -> Any:
            recorder = AG2Recorder(ledger)
            resumed = await recorder.aresume("case-7", scene.agent(recorder, "You are welcome."))
            assert resumed.ended
            assert resumed.variables == {"paid": "A-17"}
            return await resumed.ask("Thanks")

        assert asyncio.run(main()).body == "You are welcome."


def test_a_final_answer_without_an_end_becomes_the_reply_without_a_model_call(scene: Scene) -> None:
    scene.stopped_in_a_tool().close()
    lines = (scene.folder / "runs.jsonl").read_text().splitlines(keepends=True)
    cut = next(at for at, line in enumerate(lines) if "execution.run_completed" in line)
    scene.copy.write_text("".join(lines[:cut]))
    with chatsnapshot.open(str(scene.copy)) as ledger:
        before = ledger.head
        assert scene.resumed(ledger).reply.body == "paid"
        assert [entry.event_type for entry in ledger.read(after=before)] == [
            "execution.run_resumed",
            "execution.run_completed",
        ]


def test_a_sub_agent_that_was_killed_begins_anew_as_another_child(scene: Scene) -> None:
    recorder = AG2Recorder(scene.ledger, correlation_id="case-7")
    helper = scene.agent(recorder, call("pay", "c-1", order="A-17"), "paid", name="helper")
    task = call("task_helper", "t-1", objective="pay A-17")
    boss = Agent(
        "desk",
        config=TestConfig(task, "done"),
        tools=[helper.as_tool(description="Pay.")],
        middleware=[recorder.middleware],
    )
    asyncio.run(boss.ask("Pay A-17."))
    scene.copying = False
    scene.ran.clear()
    with chatsnapshot.open(str(scene.copy)) as ledger:

        async def main() -> Any:
            again = AG2Recorder(ledger)
            helper = scene.agent(again, call("pay", "c-2", order="A-17"), "paid", name="helper")
            boss = Agent(
                "desk",
                config=TestConfig("done"),
                tools=[helper.as_tool(description="Pay.")],
                middleware=[again.middleware],
            )
            resumed = await again.aresume("case-7", boss)
            assert [one.name for one in resumed.open_calls] == ["task_helper"]
            return await resumed.go_on()

        assert asyncio.run(main()).body == "done"
        assert scene.ran == ["A-17"]
        (run,) = ledger.view("runs", "case-7").runs
        assert run.status == "completed"
        assert sorted(child.status for child in run.children) == ["completed", "unfinished"]


def test_a_killed_sub_agent_is_gone_on_with_itself_and_its_reply_given_to_its_parent(scene: Scene) -> None:
    recorder = AG2Recorder(scene.ledger, correlation_id="case-7")
    helper = scene.agent(recorder, call("pay", "c-1", order="A-17"), "paid", name="helper")
    task = call("task_helper", "t-1", objective="pay A-17")
    child = [helper.as_tool(description="Pay.")]
    boss = Agent("desk", config=TestConfig(task, "done"), tools=child, middleware=[recorder.middleware])
    asyncio.run(boss.ask("Pay A-17."))
    scene.copying = False
    scene.ran.clear()
    with chatsnapshot.open(str(scene.copy)) as ledger:

        async def main() -> Any:
            again = AG2Recorder(ledger)
            started = next(ledger.read(event_type="execution.run_started", after=1))
            helper = await again.aresume(
                started.correlation_id, scene.agent(again, "paid now", name="helper")
            )
            answer = {"t-1": (await helper.go_on()).body}
            resumed = await again.aresume("case-7", scene.agent(again, "done"), open_calls=answer)
            return await resumed.go_on()

        assert asyncio.run(main()).body == "done"
        assert (scene.ran, scene.given) == (["A-17"], [("t-1", "paid now")])
        (run,) = ledger.view("runs", "case-7").runs
        assert [(run.status, child.status) for child in run.children] == [("completed", "completed")]


def test_what_came_of_a_model_call_that_never_ended_is_not_kept(scene: Scene) -> None:
    async def turn() -> None:
        recorder = AG2Recorder(scene.ledger, correlation_id="case-7")
        alert = ObserverAlert(source="model", severity=Severity.INFO, message="thinking")
        await scene.agent(recorder, alert, "Hello.").ask("Good morning")

    asyncio.run(turn())
    lines = (scene.folder / "runs.jsonl").read_text().splitlines(keepends=True)
    cut = next(at for at, line in enumerate(lines) if "execution.model_call" in line)
    assert "observer_alert" in lines[cut - 1]
    for again in range(2):
        scene.copy.write_text("".join(lines[:cut]))
        with chatsnapshot.open(str(scene.copy)) as ledger:
            resumed = scene.resumed(ledger, "Hello.")
            history = list(asyncio.run(resumed.reply.history.get_events()))
            assert [type(event).__name__ for event in history] == ["ModelRequest", "ModelResponse"], again
        lines = scene.copy.read_text().splitlines(keepends=True)
        cut = next(at for at, line in enumerate(lines) if "execution.model_call" in line)


def test_a_run_that_failed_is_gone_on_with(scene: Scene) -> None:
    async def turn() -> None:
        recorder = AG2Recorder(scene.ledger, correlation_id="case-7")
        alert = ObserverAlert(source="model", severity=Severity.INFO, message="thinking")
        with pytest.raises(OSError, match="gone"):
            await scene.agent(recorder, alert, OSError("the model is gone")).ask("Good morning")

    asyncio.run(turn())
    resumed = scene.resumed(scene.ledger, "Hello.")
    assert resumed.reply.body == "Hello."
    (run,) = scene.ledger.view("runs", "case-7").runs
    assert [one.status for one in run.executions] == ["failed", "completed"]


def test_a_run_that_fails_while_it_goes_on_is_resumed_anew(scene: Scene) -> None:
    with scene.stopped_in_a_tool() as ledger:

        async def main() -> None:
            recorder = AG2Recorder(ledger)
            resumed = await recorder.aresume("case-7", scene.agent(recorder, OSError("gone")))
            with pytest.raises(OSError, match="gone"):
                await resumed.go_on()
            with pytest.raises(InvalidEvent, match="resume it anew"):
                await resumed.go_on()

        asyncio.run(main())
        assert scene.resumed(ledger, "paid").reply.body == "paid"
        assert scene.ran == ["A-17"]


def test_a_tool_that_had_failed_is_not_executed_again(scene: Scene) -> None:
    async def fail() -> str:
        """Fail."""
        scene.ran.append("fail")
        raise ValueError("there is no money")

    both = [call("fail", "c-1"), call("pay", "c-2", order="A-17")]
    recorder = AG2Recorder(scene.ledger, correlation_id="case-7")
    agent = scene.agent(recorder, tools=[fail])
    asyncio.run(agent.ask("Pay.", config=TestConfig(both, "?", raise_tool_errors=False)))
    lines = (scene.folder / "runs.jsonl").read_text().splitlines(keepends=True)
    cut = max(at for at, line in enumerate(lines) if "execution.model_call" in line)
    scene.copy.write_text("".join(lines[:cut]))
    scene.ran.clear()
    scene.copying = False
    with chatsnapshot.open(str(scene.copy)) as ledger:

        async def main() -> None:
            again = AG2Recorder(ledger)
            resumed = await again.aresume("case-7", scene.agent(again, tools=[fail]))
            model = TrackingConfig(TestConfig("A pity.", raise_tool_errors=False))
            await resumed.go_on(config=model)
            (sent,) = model.mock.call_args.args
            assert [one.parent_id for one in sent.results] == ["c-1", "c-2"]
            assert "there is no money" in sent.results[0].result.parts[0].content

        asyncio.run(main())
        assert scene.ran == []


def test_what_was_redacted_stays_redacted(scene: Scene) -> None:
    secret = "sk-" + hashlib.sha256(b"a key").hexdigest()[:48]
    script = (call("pay", "c-1", order=secret), "paid")
    with scene.stopped_in_a_tool(*script) as ledger:
        scene.resumed(ledger, "paid")
        assert len(scene.ran) == 1
        assert secret not in scene.ran[0]


# --- what is refused ----------------------------------------------------------------------------------------


def test_erased_payloads_are_refused_with_their_positions(scene: Scene) -> None:
    with scene.stopped_in_a_tool() as ledger:
        asked = next(ledger.read(event_type="execution.message")).position
        ledger.erase([asked], reason="asked for")
        with pytest.raises(NotFound, match=f"positions {asked} of 'case-7' were erased"):
            scene.resumed(ledger, "?")
        assert scene.ran == []


def test_a_changed_entry_is_refused_with_its_position(scene: Scene) -> None:
    scene.stopped_in_a_tool().close()
    text = scene.copy.read_text()
    assert text.count('"content":"Pay A-17."') == 2
    scene.copy.write_text(text.replace('"content":"Pay A-17."', '"content":"Pay A-99."'))
    with chatsnapshot.open(str(scene.copy)) as ledger, pytest.raises((Corrupt, NotFound), match="position"):
        scene.resumed(ledger, "?")


def test_an_entry_changed_under_the_ledger_is_refused_with_its_position(scene: Scene) -> None:
    place = str(scene.folder / "runs.db")

    async def turn(ledger: Ledger) -> None:
        recorder = AG2Recorder(ledger, correlation_id="case-7")
        scene.copying = False
        await scene.agent(recorder, "Hello.").ask("Pay A-17.")

    with chatsnapshot.open(place) as ledger:
        asyncio.run(turn(ledger))
    with closing(sqlite3.connect(place)) as db, db:
        for (trigger,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            db.execute(f'DROP TRIGGER "{trigger}"')
        changed = "CAST(replace(CAST(payload AS TEXT), 'A-17', 'A-99') AS BLOB)"
        db.execute(f"UPDATE entry SET payload = {changed} WHERE position = 2")
    with chatsnapshot.open(place) as ledger, pytest.raises(Corrupt, match="position 2"):
        asyncio.run(aresume_run(ledger, "case-7", scene.agent(AG2Recorder(ledger))))


@pytest.mark.parametrize(("correlation_id", "run_id"), [("case-8", None), ("case-7", "other")])
def test_an_unknown_run_is_not_found(correlation_id: str, run_id: str | None, scene: Scene) -> None:
    with scene.stopped_in_a_tool() as ledger, pytest.raises(NotFound):
        recorder = AG2Recorder(ledger)
        asyncio.run(aresume_run(ledger, correlation_id, scene.agent(recorder), run_id=run_id))


def test_another_agent_has_no_run_there(scene: Scene) -> None:
    with scene.stopped_in_a_tool() as ledger, pytest.raises(NotFound, match=r"case-7 \(desk\)"):
        recorder = AG2Recorder(ledger)
        asyncio.run(aresume_run(ledger, "case-7", scene.agent(recorder, name="clerk")))


def test_the_lines_are_told_apart(scene: Scene) -> None:
    with scene.stopped_in_a_tool() as ledger:
        agent = scene.agent(AG2Recorder(ledger))
        with pytest.raises((InvalidEvent, NotFound)):
            resume_run(ledger, "case-7", [agent])


def test_a_conversation_without_its_beginning_is_refused_unless_that_is_given(scene: Scene) -> None:
    async def unrecorded() -> list[Any]:
        agent = Agent("desk", config=TestConfig("Hello."))
        reply = await agent.ask("Good morning")
        return list(await reply.history.get_events())

    before = asyncio.run(unrecorded())

    async def turn() -> None:
        recorder = AG2Recorder(scene.ledger, correlation_id="case-7")
        stream = MemoryStream()
        await stream.history.replace(before)
        agent = scene.agent(recorder, call("pay", "c-1", order="A-17"), "paid")
        await agent.ask("Pay A-17.", stream=stream)

    asyncio.run(turn())
    scene.copying = False
    with chatsnapshot.open(str(scene.copy)) as ledger:
        with pytest.raises(InvalidEvent, match="before="):
            scene.resumed(ledger, "paid")
        resumed = scene.resumed(ledger, "paid", before=before)
        history = list(asyncio.run(resumed.reply.history.get_events()))
        assert history[:2] == before[:2]
