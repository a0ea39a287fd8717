"""A verifier for the SQLite form of ledger format 1, written from docs/format.md alone.

Usage: python stranger_verifier.py FILE [LEDGER] [--expect SIZE:ROOT]
Standard library only. Prints one JSON report; exit code 0 when the ledger is sound, 3 when it is not.
"""

import base64
import hashlib
import json
import re
import sqlite3
import sys
from datetime import datetime
from unicodedata import category, normalize

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", re.ASCII)
EVENT_TYPE = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+", re.ASCII)
ATTRIBUTE = re.compile(r"[a-z][a-z0-9_.]{0,63}", re.ASCII)
REFERENCE = re.compile(r"sha256:[0-9a-f]{64}", re.ASCII)
COLUMNS = (
    "position",
    "sequence",
    "recorded_at",
    "event_id",
    "event_type",
    "timestamp",
    "source",
    "correlation_id",
    "causation_id",
    "schema_version",
    "attributes",
    "payload",
    "payload_bytes",
    "salt",
    "commitment",
    "leaf",
)
PART_BYTES = 524_288
TILE_HASHES = 256


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def node(left, right):
    return sha256(b"\x01", left, right)


def canonical(value):
    """RFC 8785 for what a header may hold: keys are ASCII, numbers are integers."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def parsed(text):
    """A JSON object; refuses a key that comes twice, and NaN and its kin."""

    def once(pairs):
        made = dict(pairs)
        if len(made) != len(pairs):
            raise ValueError("a key comes twice")
        return made

    def no_constant(name):
        raise ValueError(f"{name} is not JSON")

    value = json.loads(text, object_pairs_hook=once, parse_constant=no_constant)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def is_id(text):
    return (
        isinstance(text, str)
        and 1 <= len(text) <= 256
        and normalize("NFC", text) == text
        and not any(category(char) == "Cc" for char in text)
    )


def uuid_text(raw):
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


class Edge:
    """The right edge of the tree, and the full tiles that came out of it."""

    def __init__(self):
        self.size = 0
        self.frontier = []
        self.open_tiles = []
        self.tiles = {}

    def append(self, leaf):
        self.collect(0, leaf)
        left = self.size
        while left & 1:
            leaf = node(self.frontier.pop(), leaf)
            left >>= 1
        self.frontier.append(leaf)
        self.size += 1

    def collect(self, level, item):
        if level == len(self.open_tiles):
            self.open_tiles.append([])
        hashes = self.open_tiles[level]
        hashes.append(item)
        if len(hashes) == TILE_HASHES:
            number = (self.size >> 8 * level) // TILE_HASHES
            self.tiles[level, number] = b"".join(hashes)
            self.open_tiles[level] = []
            while len(hashes) > 1:
                hashes = [node(*hashes[i : i + 2]) for i in range(0, len(hashes), 2)]
            self.collect(level + 1, hashes[0])

    def root(self):
        if not self.frontier:
            return sha256()
        top = self.frontier[-1]
        for left in reversed(self.frontier[:-1]):
            top = node(left, top)
        return top


def header(entry):
    """The header as parsed JSON."""
    made = {
        "v": 1,
        "event_id": uuid_text(entry["event_id"]),
        "event_type": entry["event_type"],
        "timestamp": entry["timestamp"],
        "source": parsed(entry["source"]),
        "correlation_id": entry["correlation_id"],
        "recorded_at": entry["recorded_at"],
        "payload": {
            "alg": "salted-sha256",
            "commit": base64.b64encode(entry["commitment"]).decode(),
            "len": entry["payload_bytes"],
        },
    }
    if entry["causation_id"] is not None:
        made["causation_id"] = uuid_text(entry["causation_id"])
    if entry["schema_version"] is not None:
        made["schema_version"] = entry["schema_version"]
    if entry["attributes"] is not None:
        made["attributes"] = parsed(entry["attributes"])
    return made


class Verifier:
    def __init__(self, db, ledger, expect):
        self.db = db
        self.suffix = "" if ledger == "main" else f"@{ledger}"
        self.ledger = ledger
        self.expect = expect
        self.problems = []
        self.level = None

    def wrong(self, position, what):
        self.problems.append({"position": position, "what": what})

    def check(self, sound, position, what):
        if not sound:
            self.wrong(position, what)

    def rows(self, table, columns, order):
        return self.db.execute(f'SELECT {columns} FROM "{table}{self.suffix}" ORDER BY {order}')

    # --- A0 ---

    def file(self):
        pragma = {
            name: self.db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version")
        }
        if pragma["application_id"] != 0x43534C31:
            self.wrong(None, "this is no ledger")
        elif pragma["user_version"] != 1:
            self.wrong(None, f"format {pragma['user_version']} is not known here")
        else:
            listed = self.db.execute("SELECT format FROM ledger WHERE name = ?", (self.ledger,)).fetchall()
            self.check(listed == [(1,)], None, f"the ledger {self.ledger} is not listed with format 1")
            found = self.db.execute("PRAGMA integrity_check").fetchall()
            self.check(found == [("ok",)], None, f"integrity_check: {found[0][0]}")
        return not self.problems

    def time(self, position, name, text):
        try:
            if TIME.fullmatch(text):
                datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ")
                return
        except ValueError:
            pass
        self.wrong(position, f"{name} is no time")

    def source(self, position, text):
        try:
            source = parsed(text)
            sound = (
                canonical(source) == text
                and {"origin", "runtime"} <= set(source) <= {"origin", "runtime", "name"}
                and source["origin"] in ("agent", "system", "ui", "integration")
                and all(map(is_id, source.values()))
            )
        except ValueError:
            sound = False
        self.check(sound, position, "source is not a canonical source")

    def attributes(self, position, text):
        if text is None:
            return

        def allowed(value):
            if isinstance(value, list):
                return all(isinstance(item, str) for item in value)
            return isinstance(value, (str, bool)) or (isinstance(value, int) and abs(value) < 2**53)

        try:
            attributes = parsed(text)
            sound = (
                canonical(attributes) == text
                and attributes != {}
                and all(ATTRIBUTE.fullmatch(key) and allowed(value) for key, value in attributes.items())
            )
        except ValueError:
            sound = False
        self.check(sound, position, "attributes are not canonical attributes")

    def payload(self, position, payload, payload_bytes):
        """The references to blobs in a payload: digest and length."""
        if payload is None:
            return {}
        self.check(len(payload) == payload_bytes, position, "payload_bytes is not the length of the payload")
        references = {}

        def visit(value):
            if isinstance(value, dict):
                named, nested = value.get("$blob"), value.get("$json")
                if isinstance(named, str) and REFERENCE.fullmatch(named):
                    for digest in value.get("holds", []):
                        references.setdefault(bytes.fromhex(digest[7:]), None)
                    references[bytes.fromhex(named[7:])] = value["bytes"]
                elif isinstance(nested, str):
                    visit(json.loads(nested))
                value = list(value.values())
            if isinstance(value, list):
                for item in value:
                    visit(item)

        try:
            visit(parsed(payload.decode()))
        except ValueError:
            self.wrong(position, "the payload is not a JSON object")
        return references

    def well_formed(self, entry):
        position = entry["position"]
        lengths = {"event_id": 16, "causation_id": 16, "leaf": 32, "commitment": 32, "salt": 16}
        for name, wanted in lengths.items():
            sound = entry[name] is None or len(entry[name]) == wanted
            self.check(sound, position, f"{name} has not {wanted} bytes")
        self.time(position, "timestamp", entry["timestamp"])
        self.time(position, "recorded_at", entry["recorded_at"])
        sound = EVENT_TYPE.fullmatch(entry["event_type"]) and len(entry["event_type"]) <= 256
        self.check(sound, position, "event_type is not a type")
        self.check(is_id(entry["correlation_id"]), position, "correlation_id is not an id")
        sound = entry["schema_version"] is None or entry["schema_version"] > 1
        self.check(sound, position, "schema_version is 1 or less")
        self.source(position, entry["source"])
        self.attributes(position, entry["attributes"])

    # --- A1 ---

    def entries(self):
        edge, sequences, ids, last_time = Edge(), {}, set(), ""
        erased, records, named, uses = set(), {}, {}, set()
        expected_root = None
        for row in self.rows("entry", ", ".join(COLUMNS), "position"):
            entry = dict(zip(COLUMNS, row, strict=True))
            position, correlation = entry["position"], entry["correlation_id"]
            self.well_formed(entry)
            references = self.payload(position, entry["payload"], entry["payload_bytes"])

            self.check(position == edge.size + 1, position, "positions have a hole")
            sequences[correlation] = sequences.get(correlation, 0) + 1
            self.check(entry["sequence"] == sequences[correlation], position, "sequence is not the next one")
            self.check(entry["event_id"] not in ids, position, "event_id comes twice")
            ids.add(entry["event_id"])
            self.check(entry["recorded_at"] >= last_time, position, "recorded_at goes back")
            last_time = entry["recorded_at"]

            found = sha256(b"\x00", canonical(header(entry)).encode())
            self.check(found == entry["leaf"], position, "the header does not hash to the leaf")
            edge.append(entry["leaf"])
            if self.expect and edge.size == self.expect[0]:
                expected_root = edge.root()

            payload, salt = entry["payload"], entry["salt"]
            if payload is None and salt is None:
                erased.add(position)
            elif payload is None or salt is None:
                self.wrong(position, "only one of payload and salt is there")
            else:
                sound = sha256(b"\x02", salt, payload) == entry["commitment"]
                self.check(sound, position, "the payload is not the one committed to")
                if correlation == "ledger" and entry["event_type"] == "ledger.payload_erased":
                    for target in parsed(payload.decode())["positions"]:
                        records[target] = position
                        self.check(target < position, position, "erases a position not below its own")
            for digest, length in references.items():
                named.setdefault(digest, (position, length))
                uses.add((digest, position))
        for position in erased - records.keys():
            self.wrong(position, "payload and salt are gone without a record")
        for target in records.keys() - erased:
            self.wrong(target, f"position {records[target]} says this was erased, and it was not")
        self.head(edge, last_time)
        self.tiles(edge)
        self.blobs(named, uses)
        if self.expect:
            sound = expected_root == self.expect[1]
            self.check(sound, None, f"the tree of size {self.expect[0]} is not the one expected")
        return edge, len(erased)

    def head(self, edge, last_time):
        head = self.rows("head", "size, frontier, recorded_at", "id").fetchall()
        wanted = [(edge.size, b"".join(edge.frontier), last_time)]
        self.check(head == wanted, edge.size, "the head does not follow from the entries")

    def tiles(self, edge):
        kept = {(level, number): hashes for level, number, hashes in self.rows("tile", "*", "level, number")}
        for at in sorted(kept.keys() | edge.tiles.keys()):
            sound = kept.get(at) == edge.tiles.get(at)
            self.check(sound, None, f"tile {at[1]} of level {at[0]} does not follow from the entries")

    def blobs(self, named, uses):
        kept = dict(self.rows("blob", "digest, bytes", "digest"))
        parts = {}
        for digest, part, data in self.rows("blob_part", "digest, part, data", "digest, part"):
            parts.setdefault(digest, []).append((part, data))
        for digest in kept.keys() | parts.keys():
            data = [data for _, data in parts.get(digest, [])]
            sound = (
                [part for part, _ in parts.get(digest, [])] == list(range(len(data)))
                and all(len(piece) == PART_BYTES for piece in data[:-1])
                and len(data) >= 1
                and (len(data) == 1 or 0 < len(data[-1]) <= PART_BYTES)
                and sha256(*data) == digest
                and kept.get(digest) == sum(map(len, data))
            )
            self.check(sound, None, f"the blob {digest.hex()} is damaged")
        for digest, (position, length) in named.items():
            sound = digest in kept and length in (None, kept[digest])
            self.check(sound, position, f"the blob {digest.hex()} is missing")
        found = set(self.rows("blob_use", "digest, position", "digest, position"))
        for digest, position in found ^ uses:
            self.wrong(position, f"blob_use does not say who names {digest.hex()}")

    def report(self):
        edge, erased = Edge(), 0
        try:
            if self.file():
                edge, erased = self.entries()
        except (sqlite3.Error, ValueError, TypeError, KeyError, AttributeError) as error:
            self.wrong(None, f"cannot be read: {type(error).__name__}: {error}")
        return {
            "ok": not self.problems,
            "level": "A1" if not self.problems else None,
            "size": edge.size,
            "root": edge.root().hex(),
            "erased": erased,
            "problems": self.problems[:20],
        }


def main(arguments):
    expect = None
    if "--expect" in arguments:
        at = arguments.index("--expect")
        size, root = arguments[at + 1].split(":")
        expect = int(size), bytes.fromhex(root)
        arguments = arguments[:at] + arguments[at + 2 :]
    path, ledger = arguments[0], arguments[1] if len(arguments) > 1 else "main"
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        report = Verifier(db, ledger, expect).report()
    finally:
        db.close()
    print(json.dumps(report))
    return 0 if report["ok"] else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
