"""The page for everybody: structure for screen readers, contrast in both colour schemes, links that lead somewhere."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from chatsnapshot.exporters.html.style import DARK, LIGHT, STYLE

TEXTS = ("text", "dim", "link", "good", "bad", "warn")
BARS = ("run", "task", "tool", "model", "person", "bad", "warn", "dim")


@pytest.fixture(params=["one event", "a story", "a long run"])
def page(request: pytest.FixtureRequest, ledger: Any, tell: Any, page_of: Any) -> Any:
    """The page of a run of one event, of a small one and of one that is gathered."""
    if request.param == "one event":
        tell("custom.thing", {})
        return page_of(ledger)
    if request.param == "a story":
        return page_of(request.getfixturevalue("story"))
    return page_of(request.getfixturevalue("survey")(320))


def test_the_page_has_a_language_a_title_and_the_landmarks(page: Any) -> None:
    names = Counter(name for name, _, _ in page.elements)
    assert page.elements[0][1] == {"lang": "en"}
    assert names["main"] == names["h1"] == names["nav"] == 1
    assert any("title" in around and text.strip() for around, _, text in page.texts)
    top = [(name, around) for name, _, around in page.elements if name in ("header", "footer", "main", "nav")]
    assert {around for _, around in top} == {("html", "body")}


def test_headings_go_down_one_level_at_a_time(page: Any) -> None:
    levels = [1]
    for level, text in page.headings:
        assert text.strip()
        assert level <= levels[-1] + 1
        levels.append(level)


def test_no_id_stands_twice_and_every_reference_leads_somewhere(page: Any) -> None:
    ids = Counter(given["id"] for _, given, _ in page.elements if "id" in given)
    assert [one for one, many in ids.items() if many > 1] == []
    for _, given, _ in page.elements:
        for target in [*given.get("aria-labelledby", "").split(), *given.get("href", "#main")[1:].split()]:
            assert target in ids
        for target in re.findall(r"url\(#([\w-]+)\)", " ".join(given.values())):
            assert target in ids
    for target in re.findall(r"url\(#([\w-]+)\)", STYLE):
        assert target in ids or target == "waiting"


def test_every_position_of_the_run_has_its_place_and_links_to_it(page: Any) -> None:
    places = [given["id"] for name, given, _ in page.elements if name == "li" and "id" in given]
    assert places == sorted(places, key=lambda one: int(one[1:])) and places
    links = {given["href"][1:] for name, given, _ in page.elements if name == "a" and "href" in given}
    assert set(places) <= links


def test_pictures_have_names_and_their_rows_are_links_in_words(page: Any) -> None:
    pictures = [given for name, given, _ in page.elements if name == "svg" and "role" in given]
    assert len(pictures) >= 1
    for given in pictures:
        assert given["role"] == "group" and len(given["aria-labelledby"].split()) == 2
    small = [given for name, given, around in page.elements if name == "svg" and "svg" not in around]
    assert all("aria-labelledby" in given or given.get("aria-hidden") == "true" for given in small)


def test_what_scrolls_can_be_reached_by_keyboard_and_has_a_name(page: Any) -> None:
    regions = [given for _, given, _ in page.elements if given.get("class") in ("scroll", "picture")]
    names = [given["aria-label"] for given in regions]
    assert regions and all(given["tabindex"] == "0" and given["role"] == "region" for given in regions)
    sections = [text for level, text in page.headings if level == 2]
    assert len({*names, *sections}) == len(names) + len(sections)


def test_tables_have_captions_and_headings_for_rows_and_columns(page: Any) -> None:
    names = Counter(name for name, _, _ in page.elements)
    assert names["table"] == names["caption"] >= 1
    scopes = Counter(
        (around[-2], given.get("scope")) for name, given, around in page.elements if name == "th"
    )
    assert set(scopes) == {("thead", "col"), ("tbody", "row")}


def test_every_fold_says_what_it_holds_and_no_link_stands_in_its_handle(page: Any) -> None:
    for name, _, around in page.elements:
        assert not (name == "a" and "summary" in around)
    names = Counter(name for name, _, _ in page.elements)
    assert names["details"] == names["summary"]


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("field", ["page", "panel", "mark"])
def test_text_has_a_contrast_of_at_least_four_and_a_half(colours: dict[str, str], field: str) -> None:
    poor = {name: contrast(colours[name], colours[field]) for name in TEXTS}
    assert {name: ratio for name, ratio in poor.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_what_is_drawn_has_a_contrast_of_at_least_three(colours: dict[str, str]) -> None:
    poor = {name: contrast(colours[name], colours["panel"]) for name in BARS}
    assert {name: ratio for name, ratio in poor.items() if ratio < 3} == {}


def test_the_style_takes_its_colours_from_the_two_schemes_alone() -> None:
    rules = STYLE.partition("}}")[2]
    assert set(re.findall(r"#[0-9a-f]{3,8}\b", rules)) <= {"#fff", "#000"}  # paper
    assert set(re.findall(r"var\(--([a-z]+)\)", rules)) <= set(LIGHT) == set(DARK)
    assert "prefers-color-scheme:dark" in STYLE and ":focus-visible" in STYLE and "@media print" in STYLE
    assert "animation" not in STYLE and "transition" not in STYLE


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2.2."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    """The relative luminance of ``#rrggbb``."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
