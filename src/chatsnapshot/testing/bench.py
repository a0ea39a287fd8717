"""The bench that a check works on: fresh ledgers of the store under test, opened here or in worker processes."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import tempfile
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import chatsnapshot
from chatsnapshot.clock import Clock, Entropy
from chatsnapshot.envelope import Source
from chatsnapshot.ledger import Ledger
from chatsnapshot.limits import DEFAULTS, Limits
from chatsnapshot.policies import Opening
from chatsnapshot.stores.base import Store, Traits
from chatsnapshot.stores.open import Location, locate, open_store
from chatsnapshot.testing.expecting import Skipped
from chatsnapshot.testing.processes import Worker

__all__ = ["Bench", "OpenStore", "ServerControls", "Wrap", "store_of"]

W = TypeVar("W")

Wrap = Callable[[Store], Store]
"""Puts something between a ledger and its store; workers import it by name, so it lives in a module."""


class OpenStore(Protocol):
    """Opens a store, as :func:`chatsnapshot.stores.open.open_store` does."""

    def __call__(
        self,
        location: Location,
        /,
        *,
        create: bool,
        read_only: bool,
        durability: str,
        clock: Clock,
        entropy: Entropy,
        limits: Limits,
    ) -> Store:
        """The store of a location; raises ``NotFound`` when there is none and none may be made."""


class ServerControls(Protocol):
    """The server of a store under test, which checks may kill and start again: same address, same data."""

    def kill(self) -> None:
        """End it at once, as SIGKILL does; it is gone when this returns."""

    def start(self) -> object:
        """Start it again; it takes connections when this returns."""


class Bench:
    """Makes ledgers of one store.

    ``url`` says where: ``memory:``, a path (ledgers are made in a new folder beside it, which :meth:`close` removes), or
    a server (each ledger gets a name of its own, ``?ledger=conformance-…``, and stays there: what was recorded cannot be
    removed). ``opener`` opens a store that ``chatsnapshot.open`` does not know; ``wrap`` goes around every store.
    ``thorough`` multiplies the rounds of races; below 1 there are fewer, one at least. ``seed`` makes random choices
    repeatable. ``server`` gives control over the server at ``url``: with it the checks that kill it, and stand between it
    and its clients, are run too.
    """

    def __init__(
        self,
        url: str,
        *,
        opener: OpenStore = open_store,
        wrap: Wrap | None = None,
        thorough: float = 1,
        seed: int = 0,
        server: ServerControls | None = None,
        folder: str | None = None,
    ) -> None:
        self.url = url
        self.server = server
        self.opener = opener
        self.wrap = wrap
        self.thorough = thorough
        self.seed = seed
        self.hung = False
        """A check did not come back: threads of it may still be there."""
        self._location = _place(url, opener)
        self._owner = folder is None
        self._folder = folder
        self._numbers = itertools.count(1)
        self._session = uuid.uuid4().hex[:8]
        self._opened: list[weakref.ref[Ledger]] = []
        self._idle: list[Worker] = []
        self._traits: Traits | None = None
        if folder is None and self._location.path:
            beside = os.path.dirname(self._location.path)
            self._folder = tempfile.mkdtemp(prefix=".conformance-", dir=beside)

    def __reduce__(self) -> tuple[Any, ...]:
        return _bench, (self.url, self.opener, self.wrap, self.thorough, self.seed, self._folder or "")

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers, close what is still open, remove the folder."""
        for worker in self._idle:
            worker.end()
        self._idle.clear()
        if not self.hung:
            self.tidy()
        if self._owner and self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def tidy(self) -> None:
        """Close the ledgers that a check has left open."""
        opened, self._opened = self._opened, []
        for reference in opened:
            ledger = reference()
            if ledger is not None:
                ledger.close()

    # --- ledgers ---

    @property
    def traits(self) -> Traits:
        """What the store claims."""
        if self._traits is None:
            with self.open() as ledger:
                self._traits = ledger._store.traits
        return self._traits

    def place(self) -> str:
        """The URL of a ledger that is not there yet."""
        number = next(self._numbers)
        location = self._location
        if location.kind == "memory":
            return location.url
        if location.path:
            suffix = os.path.splitext(location.path)[1]
            path = os.path.join(str(self._folder), f"{number}{suffix}")
            return path if location.ledger == "main" else f"{path}?ledger={location.ledger}"
        return with_ledger(self.url, f"conformance-{self._session}-{number}")

    def beside(self, place: str, name: str) -> str:
        """The URL of another ledger in the database of ``place``; skips where a store keeps one ledger a file."""
        if self._location.kind in ("memory", "jsonl"):
            raise Skipped(f"a {self._location.kind} store keeps one ledger")
        return with_ledger(place, name)

    def path(self, place: str) -> str:
        """The path of the file at a place; empty when the store has none."""
        return _place(place, self.opener).path

    def files(self, place: str) -> list[str]:
        """The files that a ledger is kept in; none for a server."""
        path = self.path(place)
        if not path:
            return []
        folder, name = os.path.split(path)
        found: list[str] = []
        for entry in sorted(os.listdir(folder)):
            if entry == name or entry.startswith((name + ".", name + "-")):
                whole = os.path.join(folder, entry)
                if os.path.isdir(whole):
                    found += [os.path.join(root, file) for root, _, names in os.walk(whole) for file in names]
                else:
                    found.append(whole)
        return found

    def open(
        self,
        place: str | None = None,
        *,
        create: bool = True,
        read_only: bool = False,
        durability: str = "full",
        source: Source | Mapping[str, Any] | None = None,
        limits: Limits = DEFAULTS,
        clock: Clock = time.time_ns,
        entropy: Entropy = os.urandom,
        wrap: Wrap | None = None,
        identity: str = "",
    ) -> Ledger:
        """A ledger at ``place``, or a fresh one; ``wrap`` goes around its store for this handle only.

        ``identity`` is what it is made with when it is not there.
        """
        location = _place(self.place() if place is None else place, self.opener)._replace(identity=identity)
        store = self.opener(
            location,
            create=create,
            read_only=read_only,
            durability=durability,
            clock=clock,
            entropy=entropy,
            limits=limits,
        )
        for around in (self.wrap, wrap):
            if around is not None:
                store = around(store)
        ledger = Ledger(
            Opening(
                location=location,
                create=create,
                read_only=read_only,
                durability=durability,
                source=source,
                limits=limits,
                clock=clock,
                entropy=entropy,
            ),
            store,
        )
        self._opened.append(weakref.ref(ledger))
        return ledger

    def open_with(
        self, wrapper: Callable[[Store], W], place: str | None = None, **options: Any
    ) -> tuple[Ledger, W]:
        """A ledger whose store is wrapped, and the wrapper; options as for :meth:`open`."""
        made: list[W] = []

        def wrap(store: Store) -> Any:
            made.append(wrapper(store))
            return made[0]

        return self.open(place, wrap=wrap, **options), made[0]

    def reference(self, **options: Any) -> Ledger:
        """A memory ledger of this project to compare with; options as for :func:`chatsnapshot.open`."""
        return chatsnapshot.open("memory:", **options)

    # --- amounts and chance ---

    def rounds(self, number: int) -> int:
        """So many rounds, times ``thorough``; one at least."""
        return max(1, round(number * self.thorough))

    def chance(self, name: str) -> random.Random:
        """Random numbers that the seed repeats."""
        return random.Random(f"{self.seed} {name}")

    # --- processes ---

    @contextmanager
    def workers(self, count: int) -> Iterator[Sequence[Worker]]:
        """So many processes that wait for jobs; those that are at rest afterwards are used again."""
        crew = [self._idle.pop() if self._idle else Worker() for _ in range(count)]
        try:
            yield crew
        except BaseException:
            for worker in crew:
                worker.kill()
            raise
        for worker in crew:
            if worker.at_rest:
                self._idle.append(worker)
            else:
                worker.kill()


def store_of(ledger: Ledger) -> Store:
    """The store behind a ledger, for duties that a ledger does not hand out."""
    return ledger._store


def _bench(url: str, opener: OpenStore, wrap: Wrap | None, thorough: float, seed: int, folder: str) -> Bench:
    """A bench as it arrives in a worker: it opens ledgers, and the parent makes and removes them."""
    return Bench(url, opener=opener, wrap=wrap, thorough=thorough, seed=seed, folder=folder)


def _place(url: str, opener: OpenStore) -> Location:
    """Where a ledger is; an opener of one's own may have URLs that ``locate`` does not know."""
    scheme = urlsplit(url).scheme
    if opener is open_store or len(scheme) < 2 or scheme in ("memory", "sqlite", "jsonl", "file"):
        return locate(url)
    query = dict(parse_qsl(urlsplit(url).query))
    return Location(scheme, "", query.get("ledger", "main"), url, url, url)


def with_ledger(url: str, name: str) -> str:
    """The URL with ``?ledger=NAME``, other options kept."""
    base, _, query = url.partition("?")
    options = [(key, value) for key, value in parse_qsl(query) if key != "ledger"]
    return f"{base}?{urlencode([*options, ('ledger', name)], quote_via=quote, safe='/')}"
