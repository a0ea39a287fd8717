"""Keeps objects from ever being finalised, for a forked child that must not close its parent's connections."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["leave_open"]


def leave_open(things: Iterable[object]) -> None:
    """Take one reference to each that is never given back, not even when the interpreter ends."""
    kept = list(things)
    if not kept:
        return
    import ctypes

    for thing in kept:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
