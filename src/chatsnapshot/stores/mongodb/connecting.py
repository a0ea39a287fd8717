"""The connection to MongoDB: the client, what its server must be, and what its user may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from chatsnapshot.errors import LedgerError, StoreUnavailable
from chatsnapshot.stores.mongodb.driver import (
    Collection,
    Database,
    ReadConcern,
    WriteConcern,
    pymongo,
    uri_parser,
)
from chatsnapshot.stores.mongodb.errors import scrubbed

__all__ = [
    "DATABASE",
    "Client",
    "Collections",
    "Document",
    "check_server",
    "collections_of",
    "connect",
    "is_guarded",
    "server_fault",
]

Document = dict[str, Any]
Client = pymongo.MongoClient[Document]

DATABASE = "chatsnapshot"
"""The database of a URL that names none."""

WIRE_VERSION_MIN = 9
"""MongoDB 4.4."""

_DEFAULTS: dict[str, Any] = {
    "serverSelectionTimeoutMS": 10_000,
    "connectTimeoutMS": 10_000,
    "socketTimeoutMS": 15_000,
    "appname": "chatsnapshot",
}
"""Bounds of every wait, unless the URL gives others."""


class Collections(NamedTuple):
    """The collections of one database, shared by its ledgers; acknowledged writes are journaled by a majority."""

    ledger: Collection[Document]
    head: Collection[Document]
    entry: Collection[Document]
    tile: Collection[Document]
    blob: Collection[Document]
    part: Collection[Document]
    projection: Collection[Document]
    state: Collection[Document]

    @property
    def database(self) -> Database[Document]:
        """The database that they are in."""
        return self.ledger.database


def connect(target: str, url: str) -> Client:
    """A client that connects when it is first used. Raises :class:`LedgerError` when the URL is none."""
    query = urlsplit(target).query
    named = [key.lower() for key, _ in parse_qsl(query, keep_blank_values=True)]
    given = set(named) - {"readpreferencetags"}  # which may come several times
    for option in given:
        if named.count(option) > 1:
            raise LedgerError(f"the option {option} is twice in {url}; give it once")
    options = {name: value for name, value in _DEFAULTS.items() if name.lower() not in given}
    try:
        if query:
            uri_parser.split_options(
                query, warn=False
            )  # the client would only warn of an option that it does not know
        return pymongo.MongoClient(target, **options)
    except (pymongo.errors.PyMongoError, ValueError, TypeError) as error:
        raise LedgerError(
            f"MongoDB's driver refuses {url} ({scrubbed(str(error), target)}); correct the URL"
        ) from None


def collections_of(client: Client) -> Collections:
    """The collections of the URL's database, read from and written to by majority."""
    database = client.get_default_database(
        DATABASE,
        read_preference=pymongo.ReadPreference.PRIMARY,
        read_concern=ReadConcern("majority"),
        write_concern=WriteConcern("majority", j=True, wtimeout=10_000),
    )
    return Collections(*(database[f"cs_{field}"] for field in Collections._fields))


def check_server(database: Database[Document], url: str) -> None:
    """Refuse a server that cannot keep the promises; raises :class:`StoreUnavailable` and driver errors."""
    fault = server_fault(database.command("hello"))
    if fault:
        raise StoreUnavailable(f"{url} {fault}")


def server_fault(hello: Mapping[str, Any]) -> str:
    """Why a server with this answer to ``hello`` cannot be used; empty when it can."""
    if "setName" not in hello and hello.get("msg") != "isdbgrid":
        return (
            "is a standalone server, which has neither transactions nor change streams; restart it with "
            "--replSet rs0, run rs.initiate() once in mongosh, and open the ledger again (one member is enough)"
        )
    wire = hello.get("maxWireVersion", 0)
    if wire < WIRE_VERSION_MIN:
        return f"is older than MongoDB 4.4 (wire version {wire}); upgrade the server"
    if hello.get("readOnly"):
        return "is a server that was started read-only; start it for writing"
    return ""


_CHANGES = frozenset({"update", "remove", "dropCollection", "renameCollectionSameDB", "collMod"})


def is_guarded(status: Mapping[str, Any], database: str, collection: str) -> bool:
    """Whether the server keeps this user from changing or removing documents of a collection.

    ``status`` is the answer to ``{connectionStatus: 1, showPrivileges: true}``. Without authentication nobody is kept,
    and of a server that does not tell the privileges it is not claimed.
    """
    told = status.get("authInfo", {})
    privileges = told.get("authenticatedUserPrivileges")
    if not told.get("authenticatedUsers") or not privileges:
        return False
    return not any(
        _covers(privilege.get("resource", {}), database, collection)
        and _CHANGES & set(privilege.get("actions", ()))
        for privilege in privileges
    )


def _covers(resource: Mapping[str, Any], database: str, collection: str) -> bool:
    if resource.get("anyResource"):
        return True
    return resource.get("db") in ("", database) and resource.get("collection") in ("", collection)
