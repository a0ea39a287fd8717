"""Verifies a JSONL ledger by docs/format.md §8 alone, with the standard library: python stranger_reader.py runs.jsonl

Prints size and root, or what is wrong first; exit code 0 or 3.
"""

import base64
import hashlib
import json
import os
import re
import sys
import uuid
import zlib

NUL = bytes(8)


class Wrong(Exception):
    pass


def need(true, what):
    if not true:
        raise Wrong(what)


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def root_of(leaves):
    if not leaves:
        return sha()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return sha(b"\x01", root_of(leaves[:k]), root_of(leaves[k:]))


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def check_of(line):
    front, mark, rest = line.partition(b',"check":"')
    need(mark and rest[:8].decode() == f"{zlib.crc32(front):08x}", "check")


def after(text, line):
    need(text in line, f"{text.decode()} is missing")
    return line.index(text) + len(text)


def entry_of(line):
    check_of(line)
    entry = json.loads(line)
    event, size = entry["event"], entry["payload_bytes"]
    start = after(b'"payload":', line[line.index(b',"event":') :]) + line.index(b',"event":')
    payload = salt = None
    if entry["salt"] is not None:
        salt = base64.b64decode(entry["salt"], validate=True)
        data = bytearray(line[start : start + size])
        for key, byte in (("line_feeds", 10), ("returns", 13)):
            for place in entry.get(key, ()):
                data[place] = byte
        payload = bytes(data)
        need(json.loads(payload) == event["payload"] and len(payload) == size, "payload")
        commitment = sha(b"\x02", salt, payload)
        need(base64.b64encode(commitment).decode() == entry["commitment"] and len(salt) == 16, "commitment")
    else:
        need(event["payload"] is None, "erased payload")
    source = line[after(b'"source":', line) :]
    need(source.startswith(canonical(event["source"])), "source is not canonical")
    keys = ["event_id", "event_type", "timestamp", "source", "correlation_id", "causation_id", "payload"]
    optional = [key for key in ("schema_version", "attributes") if key in event]
    need(list(event) == keys + optional, "keys of the event")
    for key in ("event_id", "causation_id"):
        need(event[key] is None or event[key] == str(uuid.UUID(event[key])), f"{key} is not as it is written")
    header = {
        "v": 1,
        "event_id": event["event_id"],
        "event_type": event["event_type"],
        "timestamp": event["timestamp"],
        "source": event["source"],
        "correlation_id": event["correlation_id"],
        "recorded_at": entry["recorded_at"],
        "payload": {"alg": "salted-sha256", "commit": entry["commitment"], "len": size},
    }
    for key in ("causation_id", "schema_version", "attributes"):
        if event.get(key) is not None:
            header[key] = event[key]
    if "attributes" in header:
        need(line.endswith(b'"attributes":' + canonical(event["attributes"]) + b"}}"), "attributes")
    need(sha(b"\x00", canonical(header)).hex() == entry["leaf"], "leaf")
    return entry


def committed(lines):
    """The lines of a last segment without what was never acknowledged."""
    if lines and not lines[-1].endswith(b"\n"):
        lines = lines[:-1]
    whole, batch = 0, []
    for number, line in enumerate(lines):
        batch.append(line)
        found = re.search(rb'"position":(\d+),.*?"batch":\[(\d+),(\d+)\]', line)
        if found and int(found[1]) == int(found[2]) + int(found[3]) - 1:
            if any(NUL in one for one in batch):
                break
            whole, batch = number + 1, []
    if any(
        line.startswith(b"{") and NUL not in line and not line.endswith(b"}}\n") for line in lines[whole:]
    ):
        raise Wrong("a damaged line at the end")
    return lines[:whole]


def verify(path):
    leaves, sequences, ids, batch, last, erased, named = [], {}, set(), [0, 0], "", set(), set()
    names = [path]
    while os.path.exists(f"{path}.{len(names) + 1:06d}"):
        names.append(f"{path}.{len(names) + 1:06d}")
    ledger = None
    for number, name in enumerate(names, 1):
        with open(name, "rb") as file:
            head, *lines = file.readlines()
        check_of(head)
        header = json.loads(head)
        ledger = ledger or header["ledger_id"]
        wanted = ("ledger", 1, ledger, number, len(leaves) + 1, root_of(leaves).hex())
        keys = ("chatsnapshot", "format", "ledger_id", "segment", "first", "root")
        need(tuple(header[key] for key in keys) == wanted, f"header of segment {number}")
        for line in committed(lines) if number == len(names) else lines:
            position = len(leaves) + 1
            try:
                entry = entry_of(line[:-1])
                event = entry["event"]
                need(line.endswith(b"\n") and b"\r" not in line, "line end")
                need(entry["position"] == position, "position")
                if position == sum(batch) or position == 1:
                    batch = entry["batch"]
                    need(batch[0] == position, "batch")
                need(entry["batch"] == batch, "batch")
                correlation = event["correlation_id"]
                sequences[correlation] = sequences.get(correlation, 0) + 1
                need(entry["sequence"] == sequences[correlation], "sequence")
                need(event["event_id"] not in ids, "event_id")
                need(entry["recorded_at"] >= last, "recorded_at")
            except (Wrong, ValueError, KeyError, TypeError) as error:
                raise Wrong(f"position {position}: {error}") from None
            last = entry["recorded_at"]
            ids.add(event["event_id"])
            leaves.append(bytes.fromhex(entry["leaf"]))
            if entry["salt"] is None:
                erased.add(position)
            elif event["event_type"] == "ledger.payload_erased" and correlation == "ledger":
                named |= set(event["payload"]["positions"])
    need(len(leaves) + 1 == sum(batch) or not leaves, "the last batch is not whole")
    need(erased == named, f"erased {sorted(erased)}, recorded {sorted(named)}")
    return len(leaves), root_of(leaves).hex()


if __name__ == "__main__":
    try:
        print(*verify(sys.argv[1]))
    except (Wrong, ValueError, KeyError, OSError) as wrong:
        print(f"wrong: {wrong}")
        sys.exit(3)
