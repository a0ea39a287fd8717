from __future__ import annotations

import pytest

import chatsnapshot
from chatsnapshot import InvalidEvent
from chatsnapshot.projections.judged import Condition, parse
from chatsnapshot.projections.views import list_runs


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("correctness", Condition("correctness")),
        (" tone of voice = rude ", Condition("tone of voice", "=", "rude")),
        ("score>=0.8", Condition("score", ">=", "0.8")),
        ("x!=1e3", Condition("x", "!=", "1e3")),
        ("x<=-2", Condition("x", "<=", "-2")),
    ],
)
def test_a_condition_is_read(text: str, condition: Condition) -> None:
    assert parse(text) == condition


@pytest.mark.parametrize("text", ["", ">=3", "x>=good", "x<nan", "x>", "=", "!"])
def test_a_condition_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidEvent):
        parse(text)


@pytest.mark.parametrize(
    ("conditions", "kept"),
    [
        (["correctness"], ["good", "parent", "child", "bad"]),
        (["correctness>=0.8"], ["good", "parent", "child"]),
        (["correctness<0.5"], ["bad"]),
        (["tone=kind"], ["good"]),
        (["tone!=kind"], ["bad"]),
        (["correctness>0.5", "tone=kind"], ["good"]),
        (["correctness=0.9"], ["good"]),
        ("tone", ["good", "bad"]),
        (["nothing"], []),
    ],
)
def test_runs_are_kept_by_the_latest_judgement_of_a_name(
    conditions: list[str] | str, kept: list[str]
) -> None:
    with chatsnapshot.open("memory:") as snapshot:
        for name in ("good", "parent", "bad"):
            with snapshot.run(name):
                if name == "parent":
                    with snapshot.run("child"):
                        pass
        snapshot.evaluate("good", name="correctness", score=0.1)
        snapshot.evaluate("good", name="correctness", score=0.9)
        snapshot.evaluate("child", name="correctness", score=1)
        snapshot.evaluate("bad", name="correctness", score=0.2)
        snapshot.evaluate("good", name="tone", label="kind")
        snapshot.evaluate("bad", name="tone", label="rude")
        found = list_runs(snapshot, evaluation=conditions)
        names = [name for run in found for name in (run.run_id, *(child.run_id for child in run.children))]
        assert names == kept
        last = list_runs(snapshot, evaluation=conditions, last=1)
        assert [run.run_id for run in last] == [run.run_id for run in found[-1:]]
