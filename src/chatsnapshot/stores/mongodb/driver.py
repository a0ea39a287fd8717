"""The one place that imports the driver (pymongo, bson); without it, opening a ledger names the extra to install."""

from __future__ import annotations

from chatsnapshot.errors import MissingExtra

try:
    import bson
    import pymongo
    import pymongo.errors
    from pymongo import uri_parser
    from pymongo.client_session import ClientSession
    from pymongo.collection import Collection
    from pymongo.command_cursor import CommandCursor
    from pymongo.cursor import Cursor
    from pymongo.database import Database
    from pymongo.read_concern import ReadConcern
    from pymongo.write_concern import WriteConcern
except ImportError:
    raise MissingExtra("a mongodb:// ledger", "mongodb") from None

__all__ = [
    "ClientSession",
    "Collection",
    "CommandCursor",
    "Cursor",
    "Database",
    "ReadConcern",
    "WriteConcern",
    "bson",
    "pymongo",
    "uri_parser",
]
