"""``GET /v1/events``: the filters of ``read``, pages that miss nothing, and what cannot be read said by name."""

from __future__ import annotations

from typing import Any

import pytest

import chatsnapshot


@pytest.fixture(scope="module")
def filled(module_served: Any) -> Any:
    """The tests of this file only read."""
    with chatsnapshot.open(module_served.path) as ledger:
        for number in range(25):
            ledger.record(
                "execution.message" if number % 2 else "ui.interaction",
                {"number": number},
                correlation_id=f"run-{number % 3}",
                attributes={"tag": "odd" if number % 2 else "even", "n": number},
            )
    return module_served


def pages(client: Any, **wanted: Any) -> list[Any]:
    found: list[Any] = []
    bound = "next_until" if wanted.get("reverse") else "next_after"
    while True:
        answer = client.get("/v1/events", params=wanted)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page["entries"]
        if page[bound] is None:
            return found
        wanted[bound.removeprefix("next_")] = page[bound]


@pytest.mark.parametrize("limit", [1, 4, 5, 25, 26, 1_000])
@pytest.mark.parametrize("reverse", ["false", "true"])
def test_pages_of_any_size_give_every_entry_once_in_order(filled: Any, limit: int, reverse: str) -> None:
    wanted: dict[str, Any] = {"limit": limit}
    if reverse == "true":
        wanted["reverse"] = "true"
    positions = [entry["position"] for entry in pages(filled.client, **wanted)]
    assert positions == (list(range(25, 0, -1)) if reverse == "true" else list(range(1, 26)))


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        ({"correlation_id": "run-0"}, 9),
        ({"event_type": "ui.*"}, 13),
        ({"event_type": "ui.interaction,execution.message"}, 25),
        ({"origin": "agent"}, 12),
        ({"attribute.tag": "odd"}, 12),
        ({"attribute.n": "7"}, 1),
        ({"attribute.n": '"7"'}, 0),
        ({"after": "20"}, 5),
        ({"until": "5"}, 5),
        ({"start": "2000-01-01T00:00:00Z"}, 25),
        ({"end": "2000-01-01T00:00:00Z"}, 0),
        ({"correlation_id": "run-0", "event_type": "execution.*"}, 4),
    ],
)
def test_the_filters_are_those_of_read(filled: Any, wanted: dict[str, str], count: int) -> None:
    assert len(pages(filled.client, limit=3, **wanted)) == count


def test_an_entry_is_what_the_ledger_holds(filled: Any) -> None:
    with chatsnapshot.open(filled.path, read_only=True) as ledger:
        entries = list(ledger.read(limit=3))
    for entry in entries:
        answer = filled.client.get(f"/v1/events/{entry.event_id}")
        assert answer.content == entry.to_json()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/events?limit=0", 400),
        ("/v1/events?limit=1001", 400),
        ("/v1/events?limit=x", 400),
        ("/v1/events?after=-1", 400),
        ("/v1/events?until=yesterday", 400),
        ("/v1/events?origin=mars", 400),
        ("/v1/events?event_type=Not%20A%20Type", 400),
        ("/v1/events?color=red", 400),
        ("/v1/events?after=1&after=2", 400),
        ("/v1/events?causation_id=x", 400),
        ("/v1/events?event_type=" + ",".join(f"a.b{n}" for n in range(1_200)), 400),
        ("/v1/stream?event_type=" + ",".join(f"a{n}.*" for n in range(1_200)), 400),
        ("/v1/events?" + "&".join(f"attribute.a{n}=1" for n in range(1_000)), 400),
        ("/v1/events?correlation_id=" + "x" * 300, 400),
        ("/v1/events/not-a-uuid", 400),
        ("/v1/events/00000000-0000-4000-8000-000000000000", 404),
    ],
)
def test_what_cannot_be_read_is_a_problem(filled: Any, path: str, status: int) -> None:
    answer = filled.client.get(path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
