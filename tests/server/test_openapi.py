"""The description is what the service does: schemathesis sends what it allows and what it forbids."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from chatsnapshot.server.openapi import describe
from chatsnapshot.server.problems import Problem
from chatsnapshot.server.routes import ENDPOINTS
from chatsnapshot.server.settings import Settings

OTHERS = "/stream$|/store/|/traces|/logs|cloudevents"
"""A stream has no end; the others are tested by those who speak their formats."""
EXAMPLES = "CHATSNAPSHOT_OPENAPI_EXAMPLES"
"""So many of each operation, where it is set."""
TWINS = r"|\{ledger\}/(?!events$)"
"""Of a named ledger one path stands for all: the next test shows that each is described for both."""


@pytest.mark.parametrize(
    ("left_out", "examples"),
    [(OTHERS + TWINS, "10"), pytest.param(OTHERS, "15", marks=pytest.mark.faults)],
    ids=["one ledger", "every path"],
)
def test_the_service_answers_as_it_is_described(
    serve: Any, tmp_path: Path, left_out: str, examples: str
) -> None:
    served = serve("--ledger", "memory:")
    event = {"event_type": "execution.message", "correlation_id": "r", "payload": {"content": "x"}}
    served.client.post("/v1/events", json=event)
    found = subprocess.run(
        [
            sys.executable, "-m", "schemathesis.cli", "run", f"{served.url}/v1/openapi.json", "--checks", "all",
            "--exclude-path-regex", left_out, "--max-examples", os.environ.get(EXAMPLES) or examples,
            "--seed", "1", "--no-color",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout[-6_000:] + found.stderr[-2_000:]
    assert served.client.get("/healthz").text == "ok\n"


def test_every_endpoint_is_described_for_the_only_ledger_and_for_named_ones() -> None:
    paths = describe(ENDPOINTS, keyed=False)["paths"]
    for endpoint in ENDPOINTS:
        assert endpoint.method.lower() in paths["/v1/ledgers/{ledger}" + endpoint.path]
        if endpoint.path:
            assert endpoint.method.lower() in paths["/v1" + endpoint.path]


def test_every_reference_leads_somewhere_and_every_operation_has_a_name_of_its_own() -> None:
    described = msgspec.json.decode(msgspec.json.encode(describe(ENDPOINTS, keyed=True)))
    names: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, dict):
            reference = value.get("$ref")
            if isinstance(reference, str):
                assert reference.rpartition("/")[2] in described["components"]["schemas"]
            if "operationId" in value:
                names.append(value["operationId"])
            for key, one in value.items():
                if key != "links":
                    look(one)
        elif isinstance(value, list):
            for one in value:
                look(one)

    look(described)
    assert len(set(names)) == len(names) > 30


def test_the_longest_array_that_is_described_is_the_one_that_is_taken() -> None:
    description = msgspec.json.encode(describe(ENDPOINTS, keyed=False)).decode()
    assert f"{Settings().batch_events_max:,}" in description


def test_a_problem_has_the_members_that_are_described() -> None:
    body = Problem(409, "event-conflict", "what to do", fields=["payload"]).body()
    described = describe(ENDPOINTS, keyed=False)["components"]["schemas"]["Problem"]
    assert set(described["required"]) <= body.keys()
