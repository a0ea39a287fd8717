"""The rules of the contract; importing this makes the whole list."""

from chatsnapshot.testing.adaptercontract.rules import contents, harmless, once, order, people, runs, tools

__all__ = ["contents", "harmless", "once", "order", "people", "runs", "tools"]
