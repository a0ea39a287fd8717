"""A verifier written from docs/format.md alone takes a real ledger file, and finds everything done to it."""

import hashlib
import importlib.util
import itertools
import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import chatsnapshot
from chatsnapshot.clock import uuid_text
from chatsnapshot.integrity import Tree, header_parts
from chatsnapshot.jsonvalue import Blob
from chatsnapshot.limits import DEFAULTS
from chatsnapshot.stores.base import Group
from chatsnapshot.stores.draft import ledger_draft, make_draft
from chatsnapshot.stores.open import locate, open_store

pytestmark = pytest.mark.skipif(
    sqlite3.sqlite_version_info < (3, 37), reason="STRICT tables need SQLite 3.37"
)

SCRIPT = Path(__file__).with_name("stranger_verifier.py")
TIME = "2026-11-30T02:26:03.123456Z"
SOURCES = [
    '{"origin":"agent","runtime":"ag2"}',
    '{"name":"Zo\u00eb \u201cZ\u201d","origin":"ui","runtime":"none"}',
]
ATTRIBUTES = '{"actor":"Zo\u00eb","approved":true,"links":["a","b"],"tries":3}'
BIG = Blob(hashlib.sha256(b"big" * 400_000).digest(), b"big" * 400_000, "application/octet-stream")
SHARED = Blob(hashlib.sha256(b"shared").digest(), b"shared", "text/plain;charset=utf-8")
LOST = Blob(hashlib.sha256(b"secret").digest(), b"secret", "application/octet-stream")
EMPTY = Blob(hashlib.sha256(b"").digest(), b"", "application/octet-stream")
OUTER = Blob(hashlib.sha256(b"[1]").digest(), b"[1]", "application/json")


def reference(blob, **more):
    return {
        "$blob": f"sha256:{blob.digest.hex()}",
        "bytes": len(blob.data),
        "media_type": blob.media_type,
        **more,
    }


PAYLOADS = {
    3: ({"file": reference(BIG), "again": [reference(BIG)]}, (BIG,)),
    4: ({"text": reference(SHARED), "none": reference(EMPTY)}, (SHARED, EMPTY)),
    5: ({"text": reference(SHARED), "secret": reference(LOST)}, (SHARED, LOST)),
    6: (reference(OUTER, holds=[f"sha256:{SHARED.digest.hex()}"]), (OUTER, SHARED)),
    7: ({"deep": {"$json": json.dumps({"x": reference(BIG)}), "depth": 61}}, (BIG,)),
}
ERASED = [2, 5, 250]


def draft(number, salts):
    payload, blobs = PAYLOADS.get(number, ({"role": "user", "content": f"gr\u00fc\u00dfe {number}"}, ()))
    return make_draft(
        (
            number.to_bytes(16, "big"),
            "execution.message" if number % 3 else "ui.input_received",
            TIME,
            SOURCES[number % 2],
            f"run-{number % 4}" if number % 7 else 'run "\u00e4\u00f6" / \\ 7',
            (number - 1).to_bytes(16, "big") if number % 5 == 0 else None,
            json.dumps(payload, ensure_ascii=False).encode(),
            2 if number % 11 == 0 else None,
            ATTRIBUTES if number % 9 == 0 else None,
        ),
        salts(16),
        False,
        (),
        blobs,
    )


def write_ledger(path, ledger="main", entries=600, erased=ERASED):
    """A ledger as a program makes it: single entries, batches, blobs, erased payloads, full tiles."""
    ticks = itertools.count(1_796_005_563_000_000_000, 1_000_000)
    salts = itertools.count(1)

    def entropy(length):
        return next(salts).to_bytes(length, "big")

    store = open_store(
        locate(f"{path}?ledger={ledger}"),
        create=True,
        read_only=False,
        durability="os",
        clock=lambda: next(ticks),
        entropy=entropy,
        limits=DEFAULTS,
    )
    try:
        number = 1
        for step in itertools.cycle([1, 2, 255, 40]):
            members = [draft(n, entropy) for n in range(number, min(number + step, entries + 1))]
            if not members:
                break
            (rows,) = store.append([Group(members)])
            assert [row[0] for row in rows] == list(range(number, number + len(members)))
            number += len(members)
        positions = [position for position in erased if position <= entries]
        if positions:
            record = ledger_draft("ledger.payload_erased", {"positions": positions}, entropy)
            store.erase(positions, record)
        return store.head()
    finally:
        store.close()


def load_stranger():
    spec = importlib.util.spec_from_file_location("stranger_verifier", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


STRANGER = load_stranger()


def verify(path, ledger="main", expect=None):
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return STRANGER.Verifier(db, ledger, expect).report()
    finally:
        db.close()


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """One file, closed and without a log beside it, with its head."""
    folder = tmp_path_factory.mktemp("ledger")
    head = write_ledger(folder / "live.db")
    write_ledger(folder / "live.db", "other", entries=3)
    source, copy = sqlite3.connect(folder / "live.db"), sqlite3.connect(folder / "runs.db")
    try:
        source.backup(copy)
    finally:
        source.close()
        copy.close()
    return folder / "runs.db", head


@pytest.fixture
def tampered(original, tmp_path):
    """Change a copy of the file with SQL, with the triggers out of the way, and verify it."""

    def change(*statements, expect=None):
        path = tmp_path / "tampered.db"
        shutil.copy(original[0], path)
        db = sqlite3.connect(path, isolation_level=None)
        try:
            for (trigger,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
                db.execute(f'DROP TRIGGER "{trigger}"')
            for statement in statements:
                sql, values = (statement, ()) if isinstance(statement, str) else statement
                changed = db.execute(sql, values).rowcount
                assert changed != 0, f"{sql} changed nothing"
        finally:
            db.close()
        return verify(path, expect=expect)

    return change


# --- sound ledgers ---


def test_a_real_ledger_is_accepted_with_its_size_root_and_erased_payloads(original):
    path, head = original
    report = verify(path)
    assert report["problems"] == []
    assert (report["ok"], report["level"], report["size"]) == (True, "A1", 601)
    assert report["erased"] == len(ERASED)
    tree = Tree.restore(head.size, head.frontier, last_leaves(path, head.size % 256), None)
    assert report["root"] == tree.root().hex()


def last_leaves(path, count):
    db = sqlite3.connect(path)
    try:
        found = db.execute("SELECT leaf FROM entry ORDER BY position DESC LIMIT ?", (count,)).fetchall()
    finally:
        db.close()
    return [leaf for (leaf,) in reversed(found)]


def test_a_second_ledger_in_the_file_is_verified_by_its_name(original):
    report = verify(original[0], "other")
    assert (report["ok"], report["size"], report["erased"]) == (True, 4, 1)
    assert not verify(original[0], "nobody")["ok"]


def test_the_verifier_runs_alone_and_tells_the_outcome_by_its_exit_code(original, tmp_path):
    def run(path):
        command = [sys.executable, "-I", "-S", SCRIPT, path]
        done = subprocess.run(command, capture_output=True, check=False, timeout=60)
        assert done.stderr == b""
        return done.returncode, json.loads(done.stdout)["ok"]

    assert run(original[0]) == (0, True)
    broken = tmp_path / "broken.db"
    broken.write_bytes(original[0].read_bytes()[:-4096])
    assert run(broken) == (3, False)


def test_the_verifier_imports_nothing_but_the_standard_library():
    imports = [line for line in SCRIPT.read_text("utf-8").splitlines() if line.startswith(("import", "from"))]
    assert imports
    for line in imports:
        assert line.split()[1].split(".")[0] in sys.stdlib_module_names


def test_a_ledger_written_through_the_public_api_is_accepted(tmp_path):
    deep = b"y" * 50_000
    for _ in range(70):
        deep = [deep]
    path = tmp_path / "runs.db"
    with chatsnapshot.open(path, durability="os") as ledger:
        first = ledger.record(
            "execution.message", {"file": b"x" * 40_000, "deep": deep}, correlation_id="run-1"
        )
        ledger.record("execution.output", "\u00fc" * 200_000, correlation_id="run-1", causation_id=first)
        ledger.record_many(
            {
                "event_type": "ui.interaction",
                "correlation_id": "run-2",
                "payload": {"n": n},
                "attributes": {"k": n},
            }
            for n in range(300)
        )
        ledger.record("system.error", {}, correlation_id="run-3", schema_version=4, idempotency_key="e\u0301")
        ledger.erase([2, 7], reason="asked for")
        root = ledger.verify().root
    report = verify(path)
    assert report["problems"] == []
    assert (report["size"], report["root"], report["erased"]) == (304, root, 2)


def test_an_empty_ledger_has_the_root_of_nothing(tmp_path):
    write_ledger(tmp_path / "empty.db", entries=0)
    report = verify(tmp_path / "empty.db")
    assert report["ok"]
    assert report["root"] == hashlib.sha256(b"").hexdigest()


# --- ledgers that somebody changed ---

LEAF = "the header does not hash to the leaf"
COLUMN_CHANGES = {
    "event_id": ("x'0000000000000000000000000000ffff'", LEAF),
    "event_type": ("'execution.output'", LEAF),
    "timestamp": ("'2026-11-30T02:26:03.123457Z'", LEAF),
    "source": ('\'{"origin":"agent","runtime":"ag3"}\'', LEAF),
    "correlation_id": ("'run-x'", LEAF),
    "causation_id": ("x'00000000000000000000000000000001'", LEAF),
    "schema_version": ("3", LEAF),
    "attributes": ('\'{"actor":"someone else"}\'', LEAF),
    "recorded_at": ("'2026-11-30T02:26:03.000001Z'", LEAF),
    "commitment": ("zeroblob(32)", LEAF),
    "payload_bytes": ("payload_bytes + 1", LEAF),
    "leaf": ("zeroblob(32)", LEAF),
    "salt": ("zeroblob(16)", "the payload is not the one committed to"),
    "payload": ("CAST(replace(payload, 'user', 'tool') AS BLOB)", "the payload is not the one committed to"),
    "sequence": ("9999", "sequence is not the next one"),
    "position": ("9999", "positions have a hole"),
}


@pytest.mark.parametrize("position", [1, 100, 600])
@pytest.mark.parametrize("column", COLUMN_CHANGES)
def test_a_change_to_any_column_of_an_entry_is_found_at_its_position(tampered, column, position):
    value, what = COLUMN_CHANGES[column]
    report = tampered(f"UPDATE entry SET {column} = {value} WHERE position = {position}")
    assert not report["ok"]
    found = {problem["what"]: problem["position"] for problem in reversed(report["problems"])}
    assert what in found
    assert found[what] == position or column == "position"


BLOB = f"x'{BIG.digest.hex()}'"
CHANGES = {
    "a payload removed without a record": (
        "UPDATE entry SET payload = NULL, salt = NULL WHERE position = 9",
        "payload and salt are gone without a record",
    ),
    "a payload removed and its salt left": (
        "UPDATE entry SET payload = NULL WHERE position = 9",
        "only one of payload and salt is there",
    ),
    "a salt removed and its payload left": (
        "UPDATE entry SET salt = NULL WHERE position = 9",
        "only one of payload and salt is there",
    ),
    "an entry removed": ("DELETE FROM entry WHERE position = 300", "positions have a hole"),
    "the first entry removed": ("DELETE FROM entry WHERE position = 1", "positions have a hole"),
    "the last entry removed": (
        "DELETE FROM entry WHERE position = 601",
        "the head does not follow from the entries",
    ),
    "a head of another size": ("UPDATE head SET size = 600", "the head does not follow from the entries"),
    "a head of another frontier": (
        "UPDATE head SET frontier = zeroblob(length(frontier))",
        "the head does not follow from the entries",
    ),
    "a head of another time": (
        "UPDATE head SET recorded_at = '2026-11-30T02:26:03.000001Z'",
        "the head does not follow from the entries",
    ),
    "no head": ("DELETE FROM head", "the head does not follow from the entries"),
    "a tile changed": (
        "UPDATE tile SET hashes = zeroblob(8192) WHERE number = 1",
        "tile 1 of level 0 does not follow from the entries",
    ),
    "a tile removed": (
        "DELETE FROM tile WHERE number = 0",
        "tile 0 of level 0 does not follow from the entries",
    ),
    "a tile too many": (
        "INSERT INTO tile VALUES (1, 0, zeroblob(8192))",
        "tile 0 of level 1 does not follow from the entries",
    ),
    "a part of a blob changed": (
        f"UPDATE blob_part SET data = zeroblob(length(data)) WHERE digest = {BLOB} AND part = 1",
        f"the blob {BIG.digest.hex()} is damaged",
    ),
    "a part of a blob removed": (
        f"DELETE FROM blob_part WHERE digest = {BLOB} AND part = 2",
        f"the blob {BIG.digest.hex()} is damaged",
    ),
    "the parts of a blob numbered otherwise": (
        f"UPDATE blob_part SET part = part + 1 WHERE digest = {BLOB} AND part = 2",
        f"the blob {BIG.digest.hex()} is damaged",
    ),
    "a blob of another length": (
        f"UPDATE blob SET bytes = bytes + 1 WHERE digest = {BLOB}",
        f"the blob {BIG.digest.hex()} is damaged",
    ),
    "the use of a blob removed": (
        f"DELETE FROM blob_use WHERE digest = {BLOB} AND position = 7",
        f"blob_use does not say who names {BIG.digest.hex()}",
    ),
    "a time that is no date": (
        "UPDATE entry SET timestamp = '2026-02-30T02:26:03.123456Z' WHERE position = 8",
        "timestamp is no time",
    ),
    "a file of another program": ("PRAGMA application_id = 7", "this is no ledger"),
    "a newer format": ("PRAGMA user_version = 2", "format 2 is not known here"),
    "a ledger that is not listed": (
        "DELETE FROM ledger WHERE name = 'main'",
        "the ledger main is not listed with format 1",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_damage_is_found_and_named(tampered, change):
    statement, what = CHANGES[change]
    report = tampered(statement)
    assert not report["ok"]
    assert what in [problem["what"] for problem in report["problems"]]


def test_a_blob_removed_with_all_its_traces_is_missed_where_it_is_named(tampered):
    report = tampered(
        f"DELETE FROM blob WHERE digest = {BLOB}",
        f"DELETE FROM blob_part WHERE digest = {BLOB}",
        f"DELETE FROM blob_use WHERE digest = {BLOB}",
    )
    assert {"position": 3, "what": f"the blob {BIG.digest.hex()} is missing"} in report["problems"]


def test_two_entries_that_change_places_are_found(tampered):
    report = tampered(
        "UPDATE entry SET position = -1 WHERE position = 10",
        "UPDATE entry SET position = 10 WHERE position = 11",
        "UPDATE entry SET position = 11 WHERE position = -1",
    )
    assert not report["ok"]


def test_an_erased_payload_that_is_put_back_is_found(tampered):
    report = tampered("UPDATE entry SET payload = CAST('{}' AS BLOB), salt = zeroblob(16) WHERE position = 2")
    what = "position 601 says this was erased, and it was not"
    assert {"position": 2, "what": what} in report["problems"]


def test_text_moved_from_one_column_into_another_is_found_though_the_header_is_the_same(tampered):
    cause = uuid_text((44).to_bytes(16, "big"))
    moved = f'{ATTRIBUTES},"causation_id":"{cause}"'

    def header(causation_id, attributes):
        return header_parts("id", "a.b", TIME, "{}", "run-1", causation_id, None, attributes, bytes(32), 2)

    assert header(None, moved) == header(cause, ATTRIBUTES)
    report = tampered(
        ("UPDATE entry SET attributes = ?, causation_id = NULL WHERE position = 45", (moved,)),
    )
    assert {"position": 45, "what": "attributes are not canonical attributes"} in report["problems"]


@pytest.mark.parametrize(
    "source",
    [
        '{"runtime":"ag2","origin":"agent"}',
        '{"origin": "agent","runtime":"ag2"}',
        '{"origin":"agent","origin":"agent","runtime":"ag2"}',
        '{"origin":"\\u0061gent","runtime":"ag2"}',
        '{"origin":"god","runtime":"ag2"}',
        "[]",
        "no JSON",
    ],
)
def test_a_source_that_is_not_canonical_is_found(tampered, source):
    report = tampered(("UPDATE entry SET source = ? WHERE position = 8", (source,)))
    assert "source is not a canonical source" in [problem["what"] for problem in report["problems"]]


# --- what only an outside copy of the head can show ---


def test_a_tail_cut_off_together_with_the_head_is_shown_only_by_a_root_kept_elsewhere(tmp_path):
    path = tmp_path / "runs.db"
    write_ledger(path, entries=20, erased=[])
    kept = verify(path)
    size, root = kept["size"], bytes.fromhex(kept["root"])
    assert verify(path, expect=(size, root))["ok"]
    tree = Tree()
    db = sqlite3.connect(path, isolation_level=None)
    try:
        entries = db.execute("SELECT leaf, recorded_at FROM entry ORDER BY position LIMIT 15").fetchall()
        tree.extend([leaf for leaf, _ in entries])
        db.executescript("DROP TRIGGER entry_kept; DROP TRIGGER head_forward")
        db.execute("DELETE FROM entry WHERE position > 15")
        db.execute("UPDATE head SET size = ?, frontier = ?, recorded_at = ?", (*tree.head(), entries[-1][1]))
    finally:
        db.close()
    report = verify(path)
    assert (report["ok"], report["size"]) == (True, 15)
    report = verify(path, expect=(size, root))
    assert [problem["what"] for problem in report["problems"]] == [
        "the tree of size 20 is not the one expected"
    ]
