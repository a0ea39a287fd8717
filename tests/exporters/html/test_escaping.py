"""What agents, tools and people say stays text: in every field of every event type, in attributes and in pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chatsnapshot.events.schemas import SCHEMAS
from chatsnapshot.exporters.html.markup import Anchors, element, isolated, joined, said, said_lines, void

HOSTILE = (
    "</bdi></code></pre></details></style></title></svg>\"'><script>steal()</script><img src=x onerror=steal()> "
    "<a href=javascript:steal()>x</a> &lt;b&gt; &#60;i&#62; ]]> --> \x1b[31m\x00\x85 \u202egnol\u202c \u2067i\u2066 "
    "\u200b\u2028\ufeff\U000e0041 onload=steal() style=x:expression(1)"
)
TURNING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2067\u206a-\u206f\ufeff]"
)
"""Controls that must not reach a page; the isolates 2068 and 2069 are the page's own."""

OURS = {
    "html", "head", "meta", "title", "style", "body", "a", "header", "p", "h1", "h2", "h3", "nav", "ul", "ol", "li",
    "main", "section", "span", "strong", "em", "bdi", "code", "pre", "div", "details", "summary", "dl", "dt", "dd",
    "time", "table", "caption", "thead", "tbody", "tr", "th", "td", "footer",
    "svg", "g", "desc", "defs", "pattern", "marker", "path", "rect", "line", "circle", "text",
}  # fmt: skip
GIVEN = {
    "lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "role", "tabindex", "open", "datetime",
    "scope", "style", "aria-label", "aria-labelledby", "aria-hidden", "width", "height", "x", "y", "x1", "x2", "y1", "y2",
    "cx", "cy", "r", "rx", "d", "text-anchor", "overflow", "patternunits", "viewbox", "refx", "refy", "markerwidth",
    "markerheight", "orient", "marker-end",
}  # fmt: skip


def poisoned(value: Any) -> Any:
    """The value with hostile text in the place of, or behind, every text in it."""
    if isinstance(value, str):
        return value + HOSTILE
    if isinstance(value, dict):
        return {key: poisoned(one) for key, one in value.items()} | {HOSTILE: HOSTILE}
    return [poisoned(one) for one in value] if isinstance(value, list) else value


def check(page: Any) -> None:
    """Nothing on the page came out of a text: no element, no attribute, no link, no control character."""
    assert {name for name, _, _ in page.elements} <= OURS
    for name, attributes, _ in page.elements:
        assert set(attributes) <= GIVEN, name
        assert re.fullmatch(r"#[a-z]+|#p[1-9][0-9]*", attributes.get("href", "#main"))
        assert re.fullmatch(r"[a-z-]+|p[1-9][0-9]*", attributes.get("id", "main"))
        assert re.fullmatch(r"[a-z -]*", attributes.get("class", ""))
        assert "style" not in attributes or re.fullmatch(r"min-width:\d+rem", attributes["style"])
    assert TURNING.search(page.html) is None
    for shown in (page.html, *(value for _, held, _ in page.elements for value in held.values())):
        assert shown.count("\u2068") == shown.count("\u2069")


def told(ledger: Any, tell: Any) -> Iterator[Any]:
    """Every event type with hostile text in every field, once as it is and once with ids that fit each other."""
    name = "".join(one for one in HOSTILE if one.isprintable())[:200]
    source = {"origin": "agent", "runtime": name, "name": name}
    for event_type, schema in sorted(SCHEMAS.items()):
        if event_type.startswith("ledger."):
            continue  # recorded by the ledger alone
        for payload in (poisoned(schema.example), HOSTILE, [HOSTILE], {"role": HOSTILE, "content": HOSTILE}):
            attributes = {"reason": HOSTILE, "actor": HOSTILE}
            yield tell(event_type, payload, name, source=source, attributes=attributes)


@pytest.fixture
def tell(ledger: Any) -> Any:
    """``tell(event_type, payload, correlation, **options)``."""
    return lambda event_type, payload, correlation="run-1", **options: ledger.record(
        event_type, payload, correlation_id=correlation, **options
    )


def test_hostile_text_in_every_field_of_every_event_type_stays_text(
    ledger: Any, tell: Any, page_of: Any
) -> None:
    entries = list(told(ledger, tell))
    assert len(entries) > 100
    page = page_of(ledger, entries[0].correlation_id)
    check(page)
    assert "<script>steal()</script>" in page.text
    assert "<U+202E>gnol<U+202C>" in page.text and "\u241b[31m" in page.text


def test_hostile_names_of_runs_agents_tools_and_children_stay_text(
    ledger: Any, tell: Any, page_of: Any
) -> None:
    name = "".join(one for one in HOSTILE if one.isprintable())[:180]
    source = {"origin": "agent", "runtime": "x", "name": name}
    start = tell(
        "execution.run_started", {"name": HOSTILE, "run_id": HOSTILE, "tags": [HOSTILE]}, source=source
    )
    call = tell(
        "execution.tool_call", {"name": HOSTILE, "call_id": HOSTILE, "arguments": HOSTILE}, causation_id=start
    )
    tell("execution.run_started", {"name": HOSTILE}, name, causation_id=call, source=source)
    tell("execution.run_failed", {"error": HOSTILE}, name, source=source)
    tell("execution.tool_result", {"call_id": HOSTILE, "error": HOSTILE}, causation_id=call)
    tell("execution.human_input_requested", {"question": HOSTILE, "kind": HOSTILE})
    tell("execution.model_call", {"model": HOSTILE, "provider": HOSTILE, "usage": {"input_tokens": 1}})
    judged = {"name": HOSTILE, "label": HOSTILE, "evaluator": HOSTILE, "kind": HOSTILE, "comment": HOSTILE}
    tell("execution.evaluation", {**judged, "run_id": HOSTILE})
    tell("execution.run_failed", {"error": HOSTILE, "reason": HOSTILE, "run_id": HOSTILE})
    page = page_of(ledger)
    check(page)
    for section in ("run", "runs", "time", "transcript", "graph", "metrics", "evaluations", "events"):
        assert "<script>" in page.section(section), section


def test_hostile_text_in_a_long_run_stays_text(ledger: Any, tell: Any, page_of: Any) -> None:
    for number in range(140):
        call = {"name": f"{HOSTILE} {number % 3}", "call_id": f"{HOSTILE} {number}"}
        tell(
            "execution.tool_call",
            call,
            source={"origin": "agent", "runtime": "x", "name": f"<b>{number % 30}"},
        )
        tell("execution.tool_result", {**call, "result": HOSTILE})
    page = page_of(ledger)
    check(page)
    assert "gathered by" in page.section("graph") and "rows with others" in page.section("time")


def test_the_policy_of_the_page_forbids_scripts_and_everything_from_elsewhere(
    story: Any, page_of: Any
) -> None:
    page = page_of(story)
    (policy,) = [one["content"] for name, one, _ in page.elements if one.get("http-equiv")]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
    assert not re.search(r"https?:|url\((?!#)|@import|<script|\bon\w+=", page.html)


def test_text_is_escaped_unless_it_is_finished_markup() -> None:
    assert element("p", "<b>", element("i", "&")) == "<p>&lt;b&gt;<i>&amp;</i></p>"
    assert element("a", "x", href='"><b>', class_="n", aria_label="l", title=None) == (
        '<a href="&quot;&gt;&lt;b&gt;" class="n" aria-label="l">x</a>'
    )
    assert void("rect", x=1, rx='"') == '<rect x="1" rx="&quot;"/>'
    assert said("<\u202e>") == "<bdi>&lt;&lt;U+202E&gt;&gt;</bdi>"
    assert joined(["a\x1b", said("b")]) == "a\u241b<bdi>b</bdi>"


def test_a_label_keeps_its_direction_to_itself_and_cannot_end_that_early() -> None:
    assert isolated("a\u2069\u202eb") == "\u2068a<U+2069><U+202E>b\u2069"
    assert element("i", title=isolated("a\u2069")) == '<i title="\u2068a&lt;U+2069&gt;\u2069"></i>'


def test_a_long_text_is_cut_and_the_rest_is_counted() -> None:
    assert said_lines("abcdef\nghi", 4) == '<bdi>abcd</bdi> <em class="dim">… 6 more characters</em>'
    assert said_lines("a\r\nb", 9) == "<bdi>a\nb</bdi>"


def test_a_position_that_is_not_listed_gets_no_link() -> None:
    anchors = Anchors({2})
    assert anchors(2) == '<a class="n" href="#p2">2</a>'
    assert anchors(3) == '<span class="n">3</span>' and anchors.href(3) is None


@given(st.text(max_size=60))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_gets_out_of_its_element(read_page: Any, text: str) -> None:
    made = element("p", text, said(text), said_lines(text, 40), title=isolated(text), class_=text)
    page = read_page(element("body", made).encode("utf-8", "replace"))
    assert [name for name, _, _ in page.elements] == [
        "body",
        "p",
        *(["bdi"] * 2),
        *(["em"] if len(text) > 40 else []),
    ]
    assert TURNING.search(page.html) is None
