"""docs/format.md against the code: the vectors are what the code makes, the schema that of a new ledger."""

import base64
import hashlib
import json
import re
import sqlite3
import uuid
from pathlib import Path

import apsw
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from chatsnapshot import clock
from chatsnapshot.integrity import (
    PAYLOAD_ALG,
    TILE_BYTES,
    TILE_HASHES,
    Tree,
    canonical_json,
    commit,
    consistency_proof,
    header_bytes,
    inclusion_proof,
    leaf_hash,
    root,
    subtree_root,
    verify_consistency,
    verify_inclusion,
)
from chatsnapshot.limits import DEFAULTS
from chatsnapshot.stores import sqlite_schema

PAGE = (Path(__file__).parents[2] / "docs" / "format.md").read_text("utf-8")
VECTORS = {
    name: json.loads(text)
    for name, text in re.findall(r"<!-- vector: ([a-z-]+) -->\n```json\n(.*?)\n```\n", PAGE, re.DOTALL)
}


def test_every_marked_vector_is_read_and_checked_here():
    marked = re.findall(r"<!-- vector: (\S+) -->", PAGE)
    assert marked == list(VECTORS)
    assert set(VECTORS) == {
        "named-ids",
        "canonical-json",
        "entries",
        "roots",
        "tiles",
        "proofs",
        "ledger",
        "blob",
        "jsonl",  # checked in tests/stores/jsonl/test_lines.py
    }


# --- ids and canonical JSON ---


def test_ids_made_from_names_are_those_on_the_page():
    vector = VECTORS["named-ids"]
    assert vector["namespace"] == str(clock.NAMESPACE)
    assert len(vector["cases"]) == 4
    for case in vector["cases"]:
        first, second = case["name"]
        for made in (clock.idempotent_uuid(first, second), clock.foreign_uuid(first, second)):
            assert clock.uuid_text(made) == case["uuid"]
        assert rfc8785.dumps(case["name"]).decode() == case["json"]
        assert str(uuid.uuid5(uuid.UUID(vector["namespace"]), case["json"])) == case["uuid"]


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_an_id_made_from_a_name_is_uuid5_of_the_rfc_8785_array(correlation_id, key):
    wanted = uuid.uuid5(clock.NAMESPACE, rfc8785.dumps([correlation_id, key]).decode())
    assert clock.idempotent_uuid(correlation_id, key) == wanted.bytes


def test_canonical_json_is_that_on_the_page():
    assert len(VECTORS["canonical-json"]) == 5
    for case in VECTORS["canonical-json"]:
        made = canonical_json(case["value"])
        assert made.decode() == case["canonical"]
        assert hashlib.sha256(made).hexdigest() == case["sha256"]


# --- entries ---


def made_entry(entry):
    """An entry's derived fields, from its own."""
    commitment = commit(bytes.fromhex(entry["salt"]), bytes.fromhex(entry["payload"]))
    attributes = entry["attributes"]
    header = header_bytes(
        entry["event_id"],
        entry["event_type"],
        entry["timestamp"],
        canonical_json(entry["source"]).decode(),
        entry["correlation_id"],
        entry["causation_id"],
        entry["schema_version"],
        None if attributes is None else canonical_json(attributes).decode(),
        commitment,
        len(entry["payload"]) // 2,
        entry["recorded_at"],
    )
    return {
        "payload_text": bytes.fromhex(entry["payload"]).decode(),
        "commitment": commitment.hex(),
        "commitment_base64": base64.b64encode(commitment).decode(),
        "header_text": header.decode(),
        "header": header.hex(),
        "leaf": leaf_hash(header).hex(),
    }


ENTRIES = [*VECTORS["entries"], VECTORS["ledger"]["entry_3"]]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["event_type"])
def test_a_whole_entry_is_that_on_the_page_byte_for_byte(entry):
    made = made_entry(entry)
    assert {name: entry[name] for name in made} == made
    assert json.loads(entry["header_text"])["payload"]["alg"] == PAYLOAD_ALG


def test_the_page_shows_one_entry_with_all_and_one_with_no_optional_fields():
    bare, full = VECTORS["entries"]
    optional = ("causation_id", "schema_version", "attributes")
    assert [bare[name] for name in optional] == [None, None, None]
    assert None not in [full[name] for name in optional]
    assert "name" not in bare["source"]
    assert "name" in full["source"]


def test_the_ledger_of_three_entries_is_that_on_the_page():
    vector = VECTORS["ledger"]
    assert [entry["position"] for entry in ENTRIES] == [1, 2, 3]
    leaves = [bytes.fromhex(entry["leaf"]) for entry in ENTRIES]
    assert [leaf.hex() for leaf in leaves] == vector["leaves"]
    tree = Tree()
    tree.extend(leaves)
    size, frontier = tree.head()
    recorded_at = ENTRIES[-1]["recorded_at"]
    assert vector["head"] == {"size": size, "frontier": frontier.hex(), "recorded_at": recorded_at}
    assert vector["root"] == tree.root().hex() == root(leaves).hex()


# --- tree ---

REFERENCE = [leaf_hash(bytes.fromhex(data)) for data in VECTORS["roots"]["leaf_data"]]


def reference_node(height, index):
    return subtree_root(REFERENCE[index << height : (index + 1) << height])


def test_roots_are_those_on_the_page():
    assert [root(REFERENCE[:size]).hex() for size in range(9)] == VECTORS["roots"]["root_of_size"]


def test_proofs_are_those_on_the_page():
    vector = VECTORS["proofs"]
    for case in vector["inclusion"]:
        proof = inclusion_proof(case["index"], case["size"], reference_node)
        assert [item.hex() for item in proof] == case["proof"]
        leaf, top = bytes.fromhex(case["leaf"]), bytes.fromhex(case["root"])
        assert verify_inclusion(leaf, case["index"], case["size"], proof, top)
    for case in vector["consistency"]:
        proof = consistency_proof(case["size1"], case["size2"], reference_node)
        assert [item.hex() for item in proof] == case["proof"]
        root1, root2 = bytes.fromhex(case["root1"]), bytes.fromhex(case["root2"])
        assert verify_consistency(case["size1"], root1, case["size2"], root2, proof)
    assert len(vector["inclusion"]) == len(vector["consistency"]) == 5


def test_tiles_are_those_on_the_page():
    vector = VECTORS["tiles"]
    leaves = [leaf_hash(b"%d" % number) for number in range(vector["size"])]
    tree = Tree()
    tiles = {(tile.level, tile.index): tile.data for tile in tree.extend(leaves)}
    assert tree.root().hex() == vector["root"]
    assert tree.head()[1].hex() == vector["frontier"]
    for level, count in vector["full_tiles"].items():
        assert [number for at, number in tiles if at == int(level)] == list(range(count))
    assert sum(vector["full_tiles"].values()) == len(tiles)
    for level, width in vector["after_the_last_full_tile"].items():
        assert (vector["size"] >> 8 * int(level)) % TILE_HASHES == width
    assert len(vector["sha256_of_tile"]) == 3
    for case in vector["sha256_of_tile"]:
        data = tiles[case["level"], case["number"]]
        assert len(data) == TILE_BYTES
        assert hashlib.sha256(data).hexdigest() == case["sha256"]


# --- blobs and the SQLite file ---


def test_the_blob_is_that_on_the_page():
    vector = VECTORS["blob"]
    data = b"0123456789abcdef" * 40_000
    assert vector["bytes"] == len(data) == sum(vector["part_bytes"])
    assert vector["part_bytes"][0] == DEFAULTS.blob_part_bytes
    assert vector["ref"] == "sha256:" + hashlib.sha256(data).hexdigest()


def shape(db):
    """Tables with their columns, and indexes with theirs, whatever the spelling of the SQL."""
    names = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").fetchall()
    tables = {}
    for (name,) in names:
        columns = db.execute(f"PRAGMA table_xinfo('{name}')").fetchall()
        kind = db.execute("SELECT wr, strict FROM pragma_table_list WHERE name = ?", (name,)).fetchall()
        indexes = db.execute(
            'SELECT i.name, i."unique", i.partial, c.seqno, c.name FROM pragma_index_list(?) AS i, '
            "pragma_index_info(i.name) AS c ORDER BY i.name, c.seqno",
            (name,),
        ).fetchall()
        tables[name] = [tuple(map(tuple, part)) for part in (columns, kind, indexes)]
    return tables


@pytest.fixture
def made():
    db = apsw.Connection(":memory:")
    sqlite_schema.create(db, "main", 0)
    yield db
    db.close()


@pytest.mark.skipif(sqlite3.sqlite_version_info < (3, 37), reason="STRICT tables need SQLite 3.37")
def test_the_page_has_the_schema_of_a_new_ledger(made):
    (sql,) = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    page = sqlite3.connect(":memory:")
    try:
        page.executescript(sql)
        assert shape(page) == shape(made)
    finally:
        page.close()


def test_the_page_has_the_numbers_that_mark_a_ledger_file(made):
    application_id = made.execute("PRAGMA application_id").get
    assert f"`PRAGMA application_id` is {application_id} (`{application_id:#x}`" in PAGE
    assert made.execute("PRAGMA user_version").get == 1
    assert "# Ledger format 1\n" in PAGE


def test_a_second_ledger_of_a_file_has_the_table_names_that_the_page_says(made):
    sqlite_schema.create(made, "other", 0)
    tables = shape(made)
    assert "`entry@other`, `head@other`" in PAGE
    for name in ("entry", "head", "tile", "blob", "blob_part", "blob_use"):
        assert name in tables
        assert tables[f"{name}@other"][0] == tables[name][0]
