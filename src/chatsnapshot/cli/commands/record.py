"""``chatsnapshot record``: one event, from the command line or standard input."""

from __future__ import annotations

import json
import sys
from typing import IO, Any

import click

from chatsnapshot.cli.opening import open_to_write
from chatsnapshot.cli.options import json_option, ledger_option
from chatsnapshot.cli.terminal import Terminal, cyan, dim, green


@click.command("record")
@click.argument("event_type")
@click.argument("payload", required=False)
@click.option("--payload-file", type=click.File("rb"), metavar="FILE", help="Read the payload from a file.")
@click.option("--correlation", metavar="ID", help="The run or conversation it belongs to. [required]")
@click.option("--cause", metavar="EVENT_ID", help="The event that led to it.")
@click.option("--source-origin", metavar="ORIGIN", help="Who says so: agent, system, ui or integration.")
@click.option("--source-runtime", metavar="NAME", help="The runtime of the source, such as ag2.")
@click.option("--source-name", metavar="NAME", help="The agent, service or user that acted.")
@click.option("--timestamp", metavar="TIME", help="When it happened, with a zone. [default: now]")
@click.option("--event-id", metavar="UUID", help="Its id. [default: a new one]")
@click.option("--idempotency-key", metavar="KEY", help="Make the id of this key: the same key records once.")
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Text that outlives an erased payload; KEY:=JSON for a number, true or false; "
    "a repeated key is a list.",
)
@click.option(
    "--schema-version", type=click.IntRange(min=1), metavar="N", help="Version of this type's payload."
)
@click.option(
    "--expected-sequence",
    type=click.IntRange(min=0),
    metavar="N",
    help="Record only when the correlation's last sequence is N (0: it is new).",
)
@click.option("--strict", is_flag=True, help="Refuse a payload that strict JSON cannot hold.")
@json_option("the entry as a JSON object")
@ledger_option
def command(
    event_type: str,
    payload: str | None,
    payload_file: IO[bytes] | None,
    correlation: str | None,
    cause: str | None,
    source_origin: str | None,
    source_runtime: str | None,
    source_name: str | None,
    timestamp: str | None,
    event_id: str | None,
    idempotency_key: str | None,
    attributes: tuple[str, ...],
    schema_version: int | None,
    expected_sequence: int | None,
    strict: bool,
    as_json: bool,
) -> None:
    """Record one event.

    EVENT_TYPE reads domain.name, such as execution.message. PAYLOAD is JSON; - reads it from standard
    input; without one it is empty. Makes the ledger when there is none. When this returns, the event is
    durable.
    """
    if not correlation:
        raise click.UsageError(
            "missing option '--correlation': which run or conversation does the event belong to?"
        )
    source = _source(event_type, source_origin, source_runtime, source_name)
    given = _payload(payload, payload_file)
    marks = _attributes(attributes)
    with open_to_write() as ledger:
        entry = ledger.record(
            event_type,
            given,
            correlation_id=correlation,
            causation_id=cause,
            source=source,
            timestamp=timestamp,
            event_id=event_id,
            idempotency_key=idempotency_key,
            attributes=marks or None,
            schema_version=schema_version,
            expected_sequence=expected_sequence,
            strict=strict,
        )
    out = Terminal.stdout()
    if as_json:
        out.json_line(entry.to_json())
        return
    out.line(
        green("recorded"),
        f" {entry.event_type} at position {entry.position}, sequence {entry.sequence} of ",
        cyan(entry.correlation_id),
    )
    out.line(dim(f"event_id {entry.event_id}"))


def _source(
    event_type: str, origin: str | None, runtime: str | None, name: str | None
) -> dict[str, str] | None:
    if origin is None and runtime is None and name is None:
        return None
    if origin is None:
        domain = event_type.partition(".")[0]
        origin = {"execution": "agent", "ui": "ui", "integration": "integration"}.get(domain, "system")
    source = {"origin": origin}
    if runtime is not None:
        source["runtime"] = runtime
    if name is not None:
        source["name"] = name
    return source


def _payload(argument: str | None, file: IO[bytes] | None) -> Any:
    """The payload from the argument, from standard input or from the file; none is an empty object."""
    if file is not None:
        if argument is not None:
            raise click.UsageError("give PAYLOAD or --payload-file, not both")
        return _json(file.read(), file.name)
    if argument is None:
        return {}
    if argument == "-":
        return _json(sys.stdin.buffer.read(), "standard input")
    return _json(argument, "PAYLOAD")


def _json(text: str | bytes, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise click.UsageError(f"{where} is not JSON: {reason}") from None


def _attributes(pairs: tuple[str, ...]) -> dict[str, Any]:
    """``k=v`` is text, ``k:=json`` a JSON value; a key given more than once becomes a list."""
    found: dict[str, list[Any]] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.UsageError(f"--attribute takes KEY=VALUE or KEY:=JSON, not {pair!r}")
        if key.endswith(":"):
            found.setdefault(key[:-1], []).append(_json(value, f"--attribute {key[:-1]}"))
        else:
            found.setdefault(key, []).append(value)
    return {key: values[0] if len(values) == 1 else values for key, values in found.items()}
