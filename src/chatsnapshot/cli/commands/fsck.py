"""``chatsnapshot fsck``: what is the matter with a ledger's files, and its repair."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from chatsnapshot.cli.failures import CORRUPT, ERROR, OK, NoLedger, settle_stdout
from chatsnapshot.cli.options import json_option, ledger_option, ledger_url, shown_url
from chatsnapshot.cli.terminal import Terminal, bold, dim, green, red, yellow
from chatsnapshot.errors import NotFound

if TYPE_CHECKING:
    from chatsnapshot.fsck import Examined

MARKS = {"harmless": dim, "repair": yellow, "restore": red}


@click.command("fsck")
@click.option(
    "--repair-tail",
    is_flag=True,
    help="Set aside what a crash has left half written, and bring logs and indexes up to date.",
)
@click.option(
    "--sweep-blobs", is_flag=True, help="Remove blobs of a JSONL ledger that no entry names. They do no harm."
)
@json_option("the findings as a JSON object")
@ledger_option
def command(repair_tail: bool, sweep_blobs: bool, as_json: bool) -> int:
    """Look at the files of the ledger, and repair its end.

    Without an option nothing is changed: it is said what a repair would do. Nothing that was acknowledged is ever taken
    away. Exit codes: 0 sound, 1 something waits for --repair-tail, 3 damage that only a backup mends.
    """
    from chatsnapshot.fsck import fsck

    url = ledger_url()
    try:
        examined = fsck(url, repair_tail=repair_tail, sweep_blobs=sweep_blobs)
    except NotFound:
        raise NoLedger(
            f"no ledger at {shown_url(url)}; name another with --ledger or CHATSNAPSHOT_LEDGER"
        ) from None
    out = Terminal.stdout()
    try:
        if as_json:
            out.json_line(msgspec.json.encode(_document(examined)))
        else:
            _show(out, examined)
        out.flush()
    except BrokenPipeError:
        settle_stdout()  # whoever reads only the first lines must still learn the outcome
    return CORRUPT if examined.damaged else OK if examined.sound else ERROR


def _document(examined: Examined) -> dict[str, object]:
    return {
        "ledger": examined.path,
        "sound": examined.sound,
        "findings": [finding._asdict() for finding in examined.findings],
        "done": examined.done,
    }


def _show(out: Terminal, examined: Examined) -> None:
    verdict = (
        red("damaged") if examined.damaged else green("sound") if examined.sound else yellow("to be repaired")
    )
    out.line(bold(out.one_line(examined.path)), "  ", verdict)
    for line in examined.done:
        out.line("  ", green("done"), "  ", out.one_line(line))
    for finding in examined.findings:
        out.line(
            "  ",
            MARKS[finding.cure](finding.cure),
            "  ",
            f"{out.one_line(finding.path)}: {out.one_line(finding.what)}",
        )
    if examined.damaged:
        out.line("  ", "put the ledger back from a backup with 'chatsnapshot restore', or copy what is sound")
    elif not examined.sound:
        out.line("  ", "'chatsnapshot fsck --repair-tail' does it; so does the next process that records")
