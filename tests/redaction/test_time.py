"""Hostile text costs time that grows with its length and no faster."""

from __future__ import annotations

import time

import pytest

from chatsnapshot.redaction import SECRETS
from chatsnapshot.redaction.text import compiled, redacted_text

MIB = 1024 * 1024
LITERALS = sorted({hint for pattern in SECRETS for hint in pattern.hints})
NAMED = [
    "password=", "password: '", 'password=\\"', "'password':'", "--password ", "<password>", "token=", "cookie: ",
    "Authorization: ", "Authorization: Digest ", "secret is \"", "curl -u a:", "sshpass -p ", "x=", "a.b-c_",
    "[redacted:x]", "password x", "ENV a ", "define('a',", 'key="a" value="',
]  # fmt: skip
TAILS = ["", "a1-"]


def seconds(text: str, finders, names: bool) -> float:
    begin = time.process_time()
    redacted_text(text, finders, names)
    return time.process_time() - begin


def grows_linearly(seed: str, size: int, finders, names: bool) -> bool:
    """Twice the text takes about twice the time; generous, for machines that do other things too."""
    half, whole = (seed * (length // len(seed) + 1) for length in (size // 2, size))
    return any(
        (long := seconds(whole, finders, names)) < 0.1 or long < 3.2 * seconds(half, finders, names)
        for _ in range(3)
    )


@pytest.mark.parametrize("pattern", SECRETS, ids=lambda pattern: f"{pattern.kind}:{pattern.hints[0]}")
def test_a_built_in_pattern_runs_in_linear_time_over_a_megabyte(pattern):
    finder = compiled(pattern)
    assert pattern.linear and pattern.hints
    for seed in sorted({hint + tail for hint in pattern.hints for tail in TAILS}):
        assert grows_linearly(seed, MIB, [finder], False), seed


def test_a_private_key_that_never_ends_runs_in_linear_time():
    (finder,) = [compiled(one) for one in SECRETS if one.hints == ("PRIVATE KEY",)]
    for tail in ("", "\n" + "A" * 16, "\nProc-Type: 4\n", "\n" * 8):
        assert grows_linearly("-----BEGIN PRIVATE KEY-----" + tail, MIB, [finder], False), tail


@pytest.mark.parametrize("seed", NAMED)
def test_values_behind_names_are_found_in_linear_time(seed):
    assert grows_linearly(seed, MIB // 8, [], True)


def test_a_megabyte_of_hostile_text_is_done_within_seconds():
    finders = [compiled(pattern) for pattern in SECRETS]
    assert seconds("".join(LITERALS) * (MIB // len("".join(LITERALS))), finders, True) < 10
