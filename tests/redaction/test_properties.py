"""For any text that is put together from secrets, names and noise."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from chatsnapshot.limits import DEFAULTS
from chatsnapshot.redaction import SECRETS, Redactor

SOURCE = '{"origin":"agent","runtime":"none"}'
PIECES = st.sampled_from(
    [
        "password", "token", "api_key", "Authorization", "Cookie", "secret", "--", "=", ": ", ":", '"',
        "'", '\\"', "\\", "\n",
        " ", "&", "://", "@", "[", "]", "[redacted:password]", "[redacted:x", "Bearer ", "Basic ",
        "<password>", "</password>",
        "hunter2", "AK" + "IAQ2W3E4R5T6Y7U2I3", "gh" + "p_" + "aB3x" * 9, "eyJhbGci" + "OiJ.eyJhbGciOiJ.x1", "x", "is ",
        "curl -u a:", "password=", 'password": "', "{", "}", "é", "1", "aB3dE5gH7jK9mN2pQ",
    ]
)  # fmt: skip
TEXT = st.lists(PIECES, max_size=14).map("".join)
VALUES = st.recursive(
    TEXT | st.none() | st.integers(-5, 5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
REDACTOR = Redactor(errors="raise")


def redacted(payload_json: bytes) -> bytes:
    return REDACTOR.apply("a.b", "c", payload_json, (), None, SOURCE, DEFAULTS).payload_json


@settings(max_examples=300)
@given(VALUES)
def test_redacting_twice_gives_what_redacting_once_gave(value: object) -> None:
    once = redacted(msgspec.json.encode({"value": value}))
    assert redacted(once) == once


@settings(max_examples=300)
@given(TEXT)
def test_a_token_of_a_known_form_between_blanks_never_passes(text: str) -> None:
    token = "gh" + "p_" + "Zq9w" * 9
    assert token.encode() not in redacted(msgspec.json.encode({"value": f"{text} {token} {text}"}))


def test_a_token_of_a_known_form_among_ids_never_passes() -> None:
    token = "gh" + "p_" + "Zq9w" * 9
    ids = {"run_id": "01a22e07-fd60-72a4-9664-cf3b7504a770", "digest": "0a1b2c3d" * 8}
    assert token.encode() not in redacted(msgspec.json.encode({**ids, "value": token}))


def test_no_hint_of_a_built_in_pattern_is_a_piece_of_an_id() -> None:
    """Words of hexadecimal digits and dashes are passed over."""
    assert all(hint.strip("0123456789abcdef-") for pattern in SECRETS for hint in pattern.hints)
