"""The lines of docs/remote.md that other languages start from do what the page says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chatsnapshot.testing.servers.http import HttpServer

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "remote.md").read_text(encoding="utf-8")
LINES = re.findall(r"<!-- run -->\n```console\n(.*?)```", PAGE, re.DOTALL)[0].splitlines()


def test_the_curl_lines_record_and_read(
    place: str, server: HttpServer, require: Callable[[object, str], None], kit: Any
) -> None:
    require(shutil.which("curl"), "curl")
    name = place.rpartition("=")[2]
    kit.direct(place).close()
    answers = []
    for line in LINES:
        here = line.replace("http://127.0.0.1:8420", server.address).replace(
            "/ledgers/main/", f"/ledgers/{name}/"
        )
        done = subprocess.run(["sh", "-c", here], capture_output=True, text=True, timeout=30, check=True)
        answers.append(json.loads(done.stdout))
    event, lines, page, transcript, head = answers
    assert event["position"] == 1
    assert (lines["stored"], lines["last_position"]) == (1, 2)
    assert [entry["position"] for entry in page["entries"]] == [1, 2]
    assert "Hello" in json.dumps(transcript)
    assert head["position"] == 2


def test_the_python_lines_run(place: str, kit: Any) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(code.replace("http://127.0.0.1:8420?ledger=main", place), {})
    with kit.direct(place) as ledger:
        assert ledger.head == 1


def test_every_option_of_the_url_is_on_the_page() -> None:
    from chatsnapshot.stores.http import address

    named = set(re.findall(r"^\| `(\w+)=", PAGE, re.MULTILINE))
    assert named == {"ledger", *address._KNOWN}
