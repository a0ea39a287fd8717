"""The rules of the contract; importing this makes the whole list."""

from chatsnapshot.testing.adaptercontract.rules import (
    apart,
    contents,
    harmless,
    once,
    order,
    people,
    runs,
    tools,
)

__all__ = ["apart", "contents", "harmless", "once", "order", "people", "runs", "tools"]
