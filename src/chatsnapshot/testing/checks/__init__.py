"""The checks of the suite, a module for each promise and duty; importing this makes the whole list."""

from chatsnapshot.testing.checks import (
    batches,
    concurrency,
    durable,
    identity,
    order,
)

__all__ = [
    "batches",
    "concurrency",
    "durable",
    "identity",
    "order",
]
