"""A look into a ledger that answers, fails or hangs."""

from __future__ import annotations

import threading

import pytest

from chatsnapshot.adapters.looking import looked


def test_what_is_found_is_given_and_it_is_found_in_another_thread() -> None:
    assert looked(10, threading.get_ident) != threading.get_ident()


def test_a_look_that_fails_finds_nothing_and_says_why_to_whom_it_may_concern() -> None:
    def fail() -> str:
        raise ValueError("no such ledger")

    noted: list[Exception] = []
    assert looked(10, fail) is None
    assert looked(10, fail, noted.append) is None
    assert [str(error) for error in noted] == ["no such ledger"]


def test_a_look_that_hangs_is_left_alone() -> None:
    answers = threading.Event()
    try:
        assert looked(0.01, lambda: answers.wait(60)) is None
    finally:
        answers.set()


def test_where_no_thread_begins_any_more_it_looks_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert looked(10, threading.get_ident) == threading.get_ident()
