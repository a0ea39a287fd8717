"""The PostgreSQL store (psycopg): many threads, processes and machines; a function of the server decides each commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from chatsnapshot.clock import Clock, Entropy
from chatsnapshot.errors import ReadOnly, StoreUnavailable
from chatsnapshot.limits import Limits
from chatsnapshot.stores.base import (
    POSITION,
    Checkpoint,
    Draft,
    Finding,
    Group,
    Head,
    Outcome,
    Page,
    Query,
    Row,
    Traits,
)
from chatsnapshot.stores.clockwatch import ClockWatch
from chatsnapshot.stores.imports import check_rows, named_positions
from chatsnapshot.stores.planning import Plan, known_ids, plan
from chatsnapshot.stores.postgresql import looking
from chatsnapshot.stores.postgresql import states as stored
from chatsnapshot.stores.postgresql.connections import Connection, Connections
from chatsnapshot.stores.postgresql.driver import psycopg
from chatsnapshot.stores.postgresql.errors import is_lost, uncertain
from chatsnapshot.stores.postgresql.examining import examine
from chatsnapshot.stores.postgresql.listening import Listener
from chatsnapshot.stores.postgresql.reading import archived, known_of, read_page, rows_by_id
from chatsnapshot.stores.postgresql.schema import find
from chatsnapshot.stores.postgresql.writing import HeadOnly, Writer

if TYPE_CHECKING:
    from chatsnapshot.stores.open import Location

__all__ = ["PostgresqlStore"]


class PostgresqlStore:
    """A ledger in a PostgreSQL database.

    An ordinary commit is one call of ``chatsnapshot.append``, which holds the ledger's lock for that call. What needs a
    look first (known ids, ``expected_sequence``, blobs, erasing, importing) takes the lock in a transaction of its own.
    """

    traits = Traits(
        name="postgresql",
        durable=True,
        processes=True,
        guarded=True,
        erases_in_commit=True,
        look_seconds=1.0,
    )

    def __init__(
        self,
        location: Location,
        *,
        create: bool,
        read_only: bool,
        clock: Clock,
        entropy: Entropy,
        limits: Limits,
    ) -> None:
        self.url = location.url
        self._read_only = read_only
        self._limits = limits
        self._watch = ClockWatch(clock, entropy)
        self._seen = 0
        """A head that was committed: it never goes back."""
        self._connections = Connections(location.target, location.url, read_only=read_only)
        try:
            with self._connections.lent() as db:
                found = find(
                    db,
                    location.url,
                    location.ledger,
                    create=create,
                    read_only=read_only,
                    identity=location.identity,
                )
        except BaseException:
            self._connections.close()
            raise
        self._number, self.ledger_id = found
        self._writer = Writer(self._number, limits)
        listen_url = dict(location.options).get("listen_url")
        self._listen_connections = (
            Connections(listen_url, location.url, read_only=True) if listen_url else self._connections
        )
        self._listener = Listener(self._listen_connections, self._number)

    # --- writing ---

    def watch(self, wake: Callable[[], None]) -> None:
        """Wake for commits of every process, by NOTIFY."""
        self._listener.add(wake)

    def append(self, groups: Sequence[Group]) -> list[Outcome]:
        """Commit the groups; see the contract."""
        self._expect_writable()
        now, noted = self._watch.glance()
        drafts = [draft for group in groups for draft in group.drafts]
        if drafts and _is_plain(groups, drafts):
            with self._connections.lent() as db:
                try:
                    outcome, recorded_at, rows = self._writer.append(db, drafts, now, noted)
                except psycopg.errors.UniqueViolation:
                    outcome = "known"  # an id that was taken for new: rolled back, and decided below
                except psycopg.Error as error:
                    if is_lost(error):
                        raise uncertain(error, self.url) from error
                    raise
            if outcome == "stored":
                self._watch.settle(now, recorded_at)
                self._see(rows)
                return _split(groups, rows)
        return self._decide(groups, now)

    def erase(self, positions: Sequence[int], record: Draft) -> Row:
        """Store the record and remove the payloads in one transaction."""
        self._expect_writable()
        now, _ = self._watch.glance()
        outcome = self._decide([Group([record])], now, lambda db: self._remove(db, positions))[0]
        if not isinstance(outcome, list):
            raise outcome
        return outcome[0]

    def _remove(self, db: Connection, positions: Sequence[int]) -> None:
        missing = self._writer.erase(db, positions) if positions else []
        if missing:
            raise archived(missing)

    def _decide(
        self, groups: Sequence[Group], now: str, also: Callable[[Connection], None] | None = None
    ) -> list[Outcome]:
        """Decide here, in a transaction that holds the lock; ``also`` is done in it when a group was taken."""
        with self._transaction() as db:
            head = self._writer.head(db)
            recorded_at, stamped = self._watch.stamp(head.recorded_at, groups, now)
            known, gone = rows_by_id(db, self._number, known_ids(stamped))
            refused = {
                at: archived([known[draft.columns[0]][POSITION]])
                for at, group in enumerate(stamped)
                for draft in group.drafts
                if gone and draft.columns[0] in known and known[draft.columns[0]][POSITION] in gone
            }
            made = plan(
                [group for at, group in enumerate(stamped) if at not in refused],
                HeadOnly(head.size),
                recorded_at,
                known,
                lambda correlation: self._writer.last_sequence(db, correlation),
                {},
            )
            if made.rows:
                self._write(db, made, recorded_at)
            answers = iter(made.outcomes)
            outcomes: list[Outcome] = [refused.get(at) or next(answers) for at in range(len(stamped))]
            if also is not None and isinstance(outcomes[0], list):
                also(db)
            self._commit(db)
        if made.rows:
            self._watch.committed()
            self._see(made.rows)
        return outcomes[: len(groups)]

    def _write(self, db: Connection, made: Plan, recorded_at: str) -> None:
        """What was planned, through the one function that appends."""
        blobs = {blob.digest: blob.data for draft in made.drafts for blob in draft.blobs}
        self._writer.put_blobs(db, blobs)
        answer = self._writer.append(db, made.drafts, recorded_at, True, unknown=True)
        if answer.rows != made.rows:
            raise StoreUnavailable(
                f"the server of {self.url} would store other entries than planned; nothing was stored, run chatsnapshot "
                "verify and report this"
            )
        users = {
            row[POSITION]: [blob.digest for blob in draft.blobs]
            for row, draft in zip(made.rows, made.drafts, strict=True)
            if draft.blobs
        }
        self._writer.use_blobs(db, users)

    def import_rows(self, rows: Sequence[Row], blobs: Mapping[bytes, bytes]) -> None:
        """Take whole entries at head + 1 and on."""
        self._expect_writable()
        if not rows:
            return
        with self._transaction() as db:
            head = self._writer.head(db)
            if rows[0][0] != head.size + 1:
                raise StoreUnavailable(
                    f"the next position of {self.url} is {head.size + 1}, not {rows[0][0]}; import from the head on"
                )
            users = check_rows(
                rows,
                head.recorded_at,
                lambda correlation: self._writer.last_sequence(db, correlation),
                lambda ids: known_of(db, self._number, ids),
            )
            self._writer.put_blobs(db, blobs)
            self._writer.import_rows(db, rows)
            self._writer.use_blobs(db, users)
            self._remove(db, [position for row in rows for position in named_positions(row)])
            self._commit(db)
        self._see(rows)

    def save_states(
        self,
        name: str,
        version: int,
        before: Checkpoint | None,
        after: Checkpoint,
        states: Mapping[str, bytes | None],
    ) -> bool:
        """Store states and checkpoint together, with compare-and-set."""
        self._expect_writable()
        with self._transaction(lock=False) as db:
            saved = stored.save_states(db, self._number, name, version, before, after, states)
            self._commit(db)
        return saved

    def drop_states(self, name: str, version: int) -> None:
        """Forget a projection's states and checkpoint."""
        self._expect_writable()
        with self._transaction(lock=False) as db:
            stored.drop_states(db, self._number, name, version)
            self._commit(db)

    def _expect_writable(self) -> None:
        if self._read_only:
            raise ReadOnly(f"{self.url} was opened read-only; open it with read_only=False to record")

    @contextmanager
    def _transaction(self, lock: bool = True) -> Iterator[Connection]:
        """A transaction, with the ledger's lock; what is not committed inside is rolled back."""
        with self._connections.lent() as db:
            db.execute("BEGIN")
            try:
                if lock:
                    self._writer.lock(db)
                yield db
            finally:
                _roll_back(db)

    def _commit(self, db: Connection) -> None:
        """Make the transaction durable; when the connection is lost here, it is open whether it is."""
        try:
            db.execute("COMMIT")
        except psycopg.Error as error:
            if is_lost(error):
                raise uncertain(error, self.url) from error
            raise

    def _see(self, rows: Sequence[Row]) -> None:
        if rows:
            self._seen = max(self._seen, rows[-1][POSITION])

    # --- reading ---

    def head(self) -> Head:
        """The committed head."""
        head = self._connections.ask(self._writer.head)
        self._seen = max(self._seen, head.size)
        return head

    def read(
        self, query: Query, *, after: int, until: int, limit: int, reverse: bool, hint: int | None
    ) -> Page:
        """One page of matching rows; see the contract."""

        def page(db: Connection) -> Page:
            if until > self._seen:
                self._seen = max(self._seen, self._writer.head(db).size)
            return read_page(
                db, self._number, self._limits, query, self._seen, after, until, limit, reverse, hint
            )

        return self._connections.ask(page)

    def get(self, event_ids: Sequence[bytes]) -> dict[bytes, Row]:
        """The rows of known ids."""

        def rows(db: Connection) -> dict[bytes, Row]:
            found, missing = rows_by_id(db, self._number, event_ids)
            if missing:
                raise archived(missing)
            return found

        return self._connections.ask(rows)

    def last_sequence(self, correlation_id: str) -> int:
        """The last sequence of a correlation."""
        return self._connections.ask(lambda db: self._writer.last_sequence(db, correlation_id))

    def children(self, correlation_id: str) -> list[str]:
        """Correlations that hang under this one."""
        return self._connections.ask(lambda db: looking.children(db, self._number, correlation_id))

    def tile(self, level: int, index: int) -> bytes | None:
        """A full tile."""
        return self._connections.ask(lambda db: looking.tile(db, self._number, level, index))

    def blob(self, digest: bytes) -> Iterable[bytes] | None:
        """The parts of a blob."""
        return self._connections.ask(lambda db: looking.blob(db, self._number, digest))

    def blobs(self) -> Iterable[tuple[bytes, int, int]]:
        """Every blob: digest, bytes, number of unerased entries that name it."""
        return self._connections.ask(lambda db: looking.blobs(db, self._number))

    def examine(self) -> Iterable[Finding]:
        """Rows, payloads and tiles beyond the head, blobs and their uses."""
        with self._connections.lent() as db, db.transaction():
            db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            return list(examine(db, self._number, self._writer.head(db).size))

    def checkpoint(self, name: str, version: int) -> Checkpoint | None:
        """Where a projection stands."""
        return self._connections.ask(lambda db: stored.checkpoint(db, self._number, name, version))

    def load_state(self, name: str, version: int, key: str) -> bytes | None:
        """A projection's state for one key."""
        return self._connections.ask(lambda db: stored.load_state(db, self._number, name, version, key))

    def keys(
        self, name: str, version: int, *, prefix: str = "", after: str = "", limit: int, reverse: bool = False
    ) -> list[str]:
        """Keys of a projection in order."""
        return self._connections.ask(
            lambda db: stored.state_keys(db, self._number, name, version, prefix, after, limit, reverse)
        )

    # --- end ---

    def after_fork(self) -> None:
        """In a forked child: leave the parent's connections alone and open others at the next use."""
        self._connections.leave()
        self._listener.leave()

    def close(self) -> None:
        """Close the connections and end the listener."""
        self._listener.close()
        self._connections.close()


def _roll_back(db: Connection) -> None:
    """End what was not committed; an error of it must not stand in the place of the one that led here."""
    try:
        if not db.closed and db.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            db.execute("ROLLBACK")
    except psycopg.Error:
        db.close()


def _is_plain(groups: Sequence[Group], drafts: Sequence[Draft]) -> bool:
    """Whether the function of the server can decide alone: nothing expected, no blob, no id given twice."""
    given = [draft.columns[0] for draft in drafts if not draft.fresh]
    return (
        len(set(given)) == len(given)
        and not any(draft.blobs for draft in drafts)
        and all(group.expected_sequence is None for group in groups)
    )


def _split(groups: Sequence[Group], rows: list[Row]) -> list[Outcome]:
    """The rows of each group."""
    if len(groups) == 1:
        return [rows]
    outcomes: list[Outcome] = []
    start = 0
    for group in groups:
        end = start + len(group.drafts)
        outcomes.append(rows[start:end])
        start = end
    return outcomes
