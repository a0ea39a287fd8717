"""Keep a Parquet data set up to date from a ledger: resumable, every event in it exactly once.

Run it as often as you like, also after it was killed: python examples/parquet_dataset.py runs.db dataset/
To begin anew, delete the files in the folder; for a second data set, give its feed another name.
Needs pyarrow: pip install 'chatsnapshot[parquet]'
"""

import fcntl
import os
import sys
from pathlib import Path

import pyarrow
from pyarrow import parquet

import chatsnapshot
from chatsnapshot.feed import Feed

SCHEMA = pyarrow.schema(
    {
        "position": pyarrow.int64(),
        "event_id": pyarrow.string(),
        "event_type": pyarrow.string(),
        "timestamp": pyarrow.string(),
        "correlation_id": pyarrow.string(),
        "erased": pyarrow.bool_(),
        "payload": pyarrow.string(),
    }
)


def bounds(path: Path) -> tuple[int, int]:
    """The positions that a file holds: after the first number, up to the second."""
    after, last = map(int, path.stem.split("-"))
    return after, last


def row(entry: chatsnapshot.LedgerEntry) -> dict:
    """One event; the payload as JSON text, null when it was erased."""
    payload = None if entry.erased else entry.payload_json.decode()
    row = {name: getattr(entry, name) for name in SCHEMA.names if name != "payload"}
    return {**row, "payload": payload}


def put(path: Path, table: pyarrow.Table) -> None:
    """Write a file that appears whole and survives power loss, or not at all."""
    part = path.with_suffix(".part")
    with open(part, "wb") as out:
        parquet.write_table(table, out, compression="zstd")
        out.flush()
        os.fsync(out.fileno())
    os.replace(part, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def erase(folder: Path, positions: list[int]) -> None:
    """Take payloads that were erased in the ledger out of the files that hold them."""
    for path in folder.glob("*.parquet"):
        after, last = bounds(path)
        gone = {position for position in positions if after < position <= last}
        if gone:
            rows = parquet.read_table(path).to_pylist()
            for one in rows:
                if one["position"] in gone:
                    one.update(erased=True, payload=None)
            put(path, pyarrow.Table.from_pylist(rows, schema=SCHEMA))


def agree(feed: Feed, folder: Path) -> None:
    """Let files and cursor say the same: what is not committed is removed, what is missing comes again."""
    for part in folder.glob("*.part"):
        part.unlink()
    end = 0
    for path in sorted(folder.glob("*.parquet")):
        after, last = bounds(path)
        if after == end and last <= feed.position:
            end = last
        else:
            path.unlink()
    if end < feed.position:
        feed.reset(end)


def update(snapshot: chatsnapshot.Ledger, folder: Path, batch: int = 5_000) -> int:
    """Bring the data set up to the head; gives how many events were added."""
    folder.mkdir(parents=True, exist_ok=True)
    added = 0
    with open(folder / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"another process keeps {folder} up to date")
        feed = snapshot.feed("parquet", batch=batch)
        agree(feed, folder)
        for handed in feed:
            path = folder / f"{handed.after:012}-{handed.position:012}.parquet"
            put(path, pyarrow.Table.from_pylist([row(entry) for entry in handed], schema=SCHEMA))
            for entry in handed:
                if entry.event_type == "ledger.payload_erased" and not entry.erased:
                    erase(folder, entry.payload["positions"])
            handed.commit()
            added += len(handed)
    return added


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python parquet_dataset.py LEDGER FOLDER")
    with chatsnapshot.open(sys.argv[1], create=False) as ledger:
        print(update(ledger, Path(sys.argv[2])), "events added")
