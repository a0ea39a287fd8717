"""The page in a real browser: its policy holds, it fits a narrow window, follows light and dark; axe finds nothing.

Run with ``python -m pytest -m browser tests/exporters/html``. axe is the file that ``CHATSNAPSHOT_AXE`` names
(``axe.min.js`` of axe-core 4).
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chatsnapshot.exporters.html import render_page
from chatsnapshot.exporters.html.facts import gather
from chatsnapshot.exporters.html.style import DARK, LIGHT

pytestmark = pytest.mark.browser

Browse = Callable[..., str]
SCHEMES = {"dark": "0", "light": "1"}


@pytest.fixture
def browse(require: Any, tmp_path: Path) -> Browse:
    """``browse(page, *options)``: what headless Chromium prints for a page that lies in a file."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    require(found, "Chromium (apt-get install chromium)")
    path = tmp_path / "page.html"

    def run(page: bytes, *options: str) -> str:
        path.write_bytes(page)
        command = [str(found), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={tmp_path / 'profile'}", *options, path.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(params=["story", "long run"])
def page(request: pytest.FixtureRequest) -> bytes:
    """The page of a small run, and of one of 5,000 events."""
    small = request.param == "story"
    ledger = request.getfixturevalue("story") if small else request.getfixturevalue("survey")(5_000)
    return render_page(gather(ledger, "run-1"))


def scripted(page: bytes, script: str) -> bytes:
    """The page without its policy and with a script, which a test may have."""
    free = re.sub(rb'<meta http-equiv="Content-Security-Policy"[^>]*>', b"", page)
    return free.replace(b"</body>", b"<script>" + script.encode() + b"</script></body>")


def noted(dom: str) -> str:
    found = re.search(r'<html[^>]* data-noted="([^"]*)"', dom)
    assert found is not None, dom[:500]
    return html.unescape(found[1])


def test_no_script_runs_under_the_policy_of_the_page(browse: Browse, page: bytes) -> None:
    script = b"<script>document.documentElement.dataset.noted = 'ran'</script></body>"
    assert 'data-noted="ran"' not in browse(page.replace(b"</body>", script), "--dump-dom")
    assert (
        noted(browse(scripted(page, "document.documentElement.dataset.noted = 'ran'"), "--dump-dom")) == "ran"
    )


@pytest.mark.parametrize("width", [320, 400, 1280])
def test_the_page_is_never_wider_than_the_window(browse: Browse, page: bytes, width: int) -> None:
    # Windows have a least width; a frame has none.
    frame = (
        f"<!doctype html><html><iframe id=f style='width:{width}px;height:900px;border:0' srcdoc=\""
        + html.escape(scripted(page, "").decode())
        + '"></iframe><script>document.getElementById("f").onload = event => {'
        "const inner = event.target.contentDocument.documentElement;"
        "document.documentElement.dataset.noted = inner.clientWidth + ' ' + inner.scrollWidth }</script></html>"
    )
    dom = browse(frame.encode(), "--dump-dom", "--window-size=1400,1000", "--virtual-time-budget=5000")
    shown, needed = map(int, noted(dom).split())
    assert shown == width and needed <= width


@pytest.mark.parametrize(("scheme", "colours"), [("light", LIGHT), ("dark", DARK)])
def test_the_page_follows_the_colour_scheme_of_the_reader(
    browse: Browse, story: Any, tmp_path: Path, scheme: str, colours: dict[str, str]
) -> None:
    picture = tmp_path / "page.png"
    options = f"--screenshot={picture}", f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}"
    browse(render_page(gather(story, "run-1")), *options)
    assert first_pixel(picture.read_bytes()) == colours["page"]


def first_pixel(png: bytes) -> str:
    """The colour of the first pixel of a PNG with 8 bits a channel: its row has nothing before it to differ from."""
    data, at = b"", 8
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + size]
        at += size + 12
    return "#" + zlib.decompressobj().decompress(data, 16)[1:4].hex()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browse: Browse, page: bytes, require: Any, scheme: str) -> None:
    source = os.environ.get("CHATSNAPSHOT_AXE", "")
    require(source and Path(source).is_file(), "axe-core (name its axe.min.js in CHATSNAPSHOT_AXE)")
    # With every fold open what is in it is looked at too; 5,000 events at once take axe minutes.
    opened = (
        "for (const one of document.querySelectorAll('details')) one.open = true;"
        if len(page) < 200_000
        else ""
    )
    script = (
        opened
        + Path(source).read_text(encoding="utf-8").replace("</script", "<\\/script")
        + (
            ";axe.run(document, {resultTypes: ['violations']}).then(found => {"
            "document.documentElement.dataset.noted = JSON.stringify(found.violations.map("
            "one => [one.id, one.nodes.slice(0, 3).map(node => node.html.slice(0, 200))])) })"
        )
    )
    options = f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}", "--virtual-time-budget=60000"
    dom = browse(scripted(page, script), "--dump-dom", *options)
    assert json.loads(noted(dom)) == []
