"""The checks of the suite, a module for each promise and duty; importing this makes the whole list."""

from chatsnapshot.testing.checks import (
    append_only,
    batches,
    blobs,
    clock,
    concurrency,
    copying,
    durable,
    erasing,
    failing,
    following,
    identity,
    opening,
    order,
    projections,
    reading,
    replay,
)

__all__ = [
    "append_only",
    "batches",
    "blobs",
    "clock",
    "concurrency",
    "copying",
    "durable",
    "erasing",
    "failing",
    "following",
    "identity",
    "opening",
    "order",
    "projections",
    "reading",
    "replay",
]
