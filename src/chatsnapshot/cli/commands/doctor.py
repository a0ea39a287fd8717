"""``chatsnapshot doctor``: whether the ledger and what it stands on keep the promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from chatsnapshot.cli.failures import ERROR, OK, NoLedger, settle_stdout
from chatsnapshot.cli.options import json_option, ledger_option, ledger_url, shown_url
from chatsnapshot.cli.terminal import Terminal, bold, cyan, green, red, yellow
from chatsnapshot.errors import NotFound

if TYPE_CHECKING:
    from chatsnapshot.doctor import Diagnosis

MARKS = {"ok": green, "note": cyan, "warning": yellow, "problem": red}


@click.command("doctor")
@json_option("the findings as a JSON object")
@ledger_option
def command(as_json: bool) -> int:
    """Examine settings, file system, permissions, clock, space and files.

    Each finding is ok, a note, a warning or a problem, with what to do. Nothing is changed. Exit codes: 0 no problem, 1
    at least one problem, 2 no ledger.
    """
    from chatsnapshot.doctor import diagnose

    url = ledger_url()
    try:
        diagnosis = diagnose(url)
    except NotFound:
        raise NoLedger(
            f"no ledger at {shown_url(url)}; name another with --ledger or CHATSNAPSHOT_LEDGER"
        ) from None
    out = Terminal.stdout()
    try:
        if as_json:
            document = {
                "ledger": diagnosis.ledger,
                "healthy": diagnosis.healthy,
                "findings": diagnosis.findings,
            }
            out.json_line(msgspec.json.encode(document))
        else:
            _show(out, diagnosis)
        out.flush()
    except BrokenPipeError:
        settle_stdout()  # whoever reads only the first lines must still learn the outcome
    return OK if diagnosis.healthy else ERROR


def _show(out: Terminal, diagnosis: Diagnosis) -> None:
    out.line(bold(out.one_line(diagnosis.ledger)))
    grades = max(len(grade) for grade in MARKS)
    checks = max(len(finding.check) for finding in diagnosis.findings)
    for finding in diagnosis.findings:
        grade = MARKS[finding.grade](finding.grade)
        blanks = " " * (grades - len(finding.grade))
        out.line("  ", grade, blanks, "  ", finding.check.ljust(checks), "  ", out.one_line(finding.found))
        if finding.to_do:
            out.line(" " * (grades + checks + 6), "to do: ", out.one_line(finding.to_do))
