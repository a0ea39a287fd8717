"""``chatsnapshot restore``: a backup in the place of the ledger."""

from __future__ import annotations

import click

from chatsnapshot.cli.copies import make_copy
from chatsnapshot.cli.options import json_option, ledger_option, ledger_url


@click.command("restore")
@click.argument("source", metavar="SOURCE")
@click.option(
    "--force",
    is_flag=True,
    help="Replace the ledger that is there; it is kept beside, as NAME.replaced-TIME.",
)
@json_option("one JSON object: path, bytes, kept, and head, root and id of each ledger")
@ledger_option
def command(source: str, force: bool, as_json: bool) -> int:
    """Put a backup in the place of the ledger.

    SOURCE is verified first, then copied, and the copy is verified before it gets the ledger's name. SOURCE stays as it
    is. Stop what records to the ledger before.
    """
    from chatsnapshot.backup import restore

    url = ledger_url()
    return make_copy(lambda progress: restore(source, url, force=force, progress=progress.show), as_json)
