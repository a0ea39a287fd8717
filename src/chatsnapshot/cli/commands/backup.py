"""``chatsnapshot backup``: a verified copy of the ledger, while others write to it."""

from __future__ import annotations

import click

from chatsnapshot.cli.copies import make_copy
from chatsnapshot.cli.options import json_option, ledger_option, ledger_url


@click.command("backup")
@click.argument("target", metavar="TARGET")
@click.option("--force", is_flag=True, help="Replace an older file of that name, in one step.")
@json_option("one JSON object: path, bytes, and head, root and id of each ledger")
@ledger_option
def command(target: str, force: bool, as_json: bool) -> int:
    """Copy the ledger, verified, also while it is being written.

    The copy is the ledger as it is at one moment: whatever was acknowledged before is in it. It is verified and durable
    before it gets the name TARGET. All ledgers of an SQLite file are copied.
    """
    from chatsnapshot.backup import backup

    url = ledger_url()
    return make_copy(lambda progress: backup(url, target, force=force, progress=progress.show), as_json)
