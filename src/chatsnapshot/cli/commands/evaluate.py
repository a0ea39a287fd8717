"""``chatsnapshot evaluate``: a judgement of a run or an event, recorded as an event."""

from __future__ import annotations

import click

from chatsnapshot.cli.opening import open_to_add
from chatsnapshot.cli.options import json_option, ledger_option
from chatsnapshot.cli.terminal import Terminal, cyan, dim, green
from chatsnapshot.projections.finding import correlation_of, find_event


@click.command("evaluate")
@click.argument("target", metavar="RUN|EVENT_ID")
@click.option("--name", metavar="NAME", required=True, help="What is judged, such as correctness.")
@click.option("--score", type=float, metavar="NUMBER", help="How well it did, as a number.")
@click.option("--label", metavar="TEXT", help="How well it did, as a word.")
@click.option("--comment", metavar="TEXT", help="What is to be said about it.")
@click.option("--evaluator", metavar="NAME", help="Who or what judged.")
@click.option(
    "--kind",
    type=click.Choice(["human", "model", "code"]),
    metavar="KIND",
    help="What kind of evaluator: human, model or code.",
)
@click.option("--idempotency-key", metavar="KEY", help="The same key in the same run records once.")
@json_option("the entry as a JSON object")
@ledger_option
def command(
    target: str,
    name: str,
    score: float | None,
    label: str | None,
    comment: str | None,
    evaluator: str | None,
    kind: str | None,
    idempotency_key: str | None,
    as_json: bool,
) -> None:
    """Say how well a run or an event did.

    That may be long after. At least one of --score and --label is needed. The judgement is an event of the run;
    'runs --evaluation' finds runs by it. Another judgement of the same name later counts instead of the first.
    """
    if score is None and label is None:
        raise click.UsageError("give --score NUMBER or --label TEXT")
    out = Terminal.stdout()
    with open_to_add() as ledger:
        event = find_event(ledger, target)
        options = {} if event is not None else {"correlation_id": correlation_of(ledger, target)}
        entry = ledger.evaluate(
            event if event is not None else target,
            name=name,
            score=score,
            label=label,
            comment=comment,
            evaluator=evaluator,
            kind=kind,
            idempotency_key=idempotency_key,
            **options,
        )
    if as_json:
        out.json_line(entry.to_json())
        return
    judged = f" {event.event_type} at position {event.position} of " if event is not None else " run "
    named = entry.correlation_id if event is not None else target
    out.line(green("evaluated"), judged, cyan(out.one_line(named)), f"; at position {entry.position}")
    out.line(dim(f"event_id {entry.event_id}"))
