"""The peer: the SQLite recorder of the ``eventsourcing`` library, used as its documentation does."""

from __future__ import annotations

import json
import uuid

from eventsourcing.persistence import StoredEvent
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore


class EventSourcing:
    """Appends with ``insert_events`` and reads with ``select_notifications``; durable at each call as by default."""

    def __init__(self, path: str) -> None:
        self.recorder = SQLiteApplicationRecorder(SQLiteDatastore(path))
        self.recorder.create_table()
        self.originator = uuid.uuid4()
        self.version = 0

    def events(self, payloads: list[dict[str, object]]) -> list[StoredEvent]:
        made = []
        for payload in payloads:
            self.version += 1
            made.append(
                StoredEvent(
                    originator_id=self.originator,
                    originator_version=self.version,
                    topic="app:Agent.Message",
                    state=json.dumps(payload, separators=(",", ":")).encode(),
                )
            )
        return made

    def append(self, payloads: list[dict[str, object]]) -> None:
        self.recorder.insert_events(self.events(payloads))

    def read_all(self) -> int:
        count, start = 0, 1
        while True:
            page = self.recorder.select_notifications(start=start, limit=1000)
            if not page:
                return count
            for notification in page:
                json.loads(notification.state)
            count += len(page)
            start = page[-1].id + 1

    def close(self) -> None:
        self.recorder.datastore.close()
