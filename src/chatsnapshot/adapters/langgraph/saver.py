"""``ChatSnapshotSaver``: LangGraph's checkpoints in a ledger."""

from __future__ import annotations

import asyncio
import builtins
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

from chatsnapshot.adapters.langgraph.checkpoints import keeping
from chatsnapshot.adapters.langgraph.checkpoints.adding import add_checkpoint, add_writes
from chatsnapshot.adapters.langgraph.checkpoints.index import SavedAt
from chatsnapshot.adapters.langgraph.checkpoints.thread import Loaded, Thread, Threads, Write
from chatsnapshot.adapters.langgraph.checkpoints.values import Value, dumped, join, split
from chatsnapshot.adapters.requiring import need

try:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        WRITES_IDX_MAP,
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        get_checkpoint_id,
        get_checkpoint_metadata,
    )
    from langgraph.checkpoint.serde.base import SerializerProtocol
except ImportError:
    # In one sentence, what is not installed or too old.
    need(
        "langgraph.checkpoint.base",
        "BaseCheckpointSaver",
        "WRITES_IDX_MAP",
        "get_checkpoint_id",
        "get_checkpoint_metadata",
        extra="langgraph",
        versions="langgraph-checkpoint>=4",
        what="the state of LangGraph",
    )
    raise

__all__ = ["ChatSnapshotSaver"]

_LISTED_AT_ONCE = 50


class ChatSnapshotSaver(BaseCheckpointSaver[str]):
    """A checkpointer that keeps the state of graphs in a ledger, for sync and async graphs.

    >>> graph = builder.compile(checkpointer=ChatSnapshotSaver(ledger))

    When a save returns, it survives kill -9 and power loss, as everything that the ledger acknowledges. Of a list or dict
    in the state only what changed is stored. Values go through ``serde`` (LangGraph's ``JsonPlusSerializer`` unless
    another is given), never through pickle. Errors of the ledger are raised: a graph does not go on without its state.

    Raises ``TypeError`` when ``ledger`` is none.
    """

    def __init__(self, ledger: Any, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        if not callable(getattr(ledger, "record_many", None)) or not callable(getattr(ledger, "read", None)):
            raise TypeError(
                f"ChatSnapshotSaver takes a ledger, as chatsnapshot.open() gives it, not {type(ledger).__name__}"
            )
        self.ledger = ledger
        self._threads = Threads(ledger)

    # --- saving -------------------------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; of the channels in ``new_versions`` their values too. Durable when it returns."""
        place = config["configurable"]
        ns = place.get("checkpoint_ns", "")
        rest = cast("dict[str, Any]", checkpoint.copy())
        held = rest.pop("channel_values")
        told = get_checkpoint_metadata(config, metadata)
        values: dict[str, tuple[Any, Value | None]] = {
            channel: (version, split(held[channel], self.serde.dumps_typed) if channel in held else None)
            for channel, version in new_versions.items()
        }
        facts = {
            "id": checkpoint["id"],
            "parent": place.get("checkpoint_id"),
            "run_id": told.get("run_id"),
            "versions": rest.pop("channel_versions"),
            "unstored": sorted(told.get("counters_since_delta_snapshot") or ()),
            "checkpoint": list(dumped(self.serde.dumps_typed, rest)),
            "metadata": list(dumped(self.serde.dumps_typed, told)),
        }
        add_checkpoint(self._thread(config), ns, facts, values)
        return _config(place["thread_id"], ns, checkpoint["id"])

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task wrote after a checkpoint. Durable when it returns."""
        place = config["configurable"]
        made = [
            Write(
                task_path,
                task_id,
                WRITES_IDX_MAP.get(channel, number),
                channel,
                dumped(self.serde.dumps_typed, value),
            )
            for number, (channel, value) in enumerate(writes)
        ]
        add_writes(self._thread(config), place.get("checkpoint_ns", ""), place["checkpoint_id"], made)

    def get_next_version(self, current: str | None, channel: None) -> str:
        """A version above ``current``, and never the same in two branches of a thread."""
        number = 0 if current is None else int(str(current).partition(".")[0])
        return f"{number + 1:012}.{secrets.token_hex(6)}"

    # --- reading ------------------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that ``config`` names, or else the newest of its thread and namespace."""
        thread = self._thread(config)
        ns = config["configurable"].get("checkpoint_ns", "")
        index = thread.catch_up()
        wanted = get_checkpoint_id(config) or index.newest(ns)
        found = None if wanted is None else thread.load(ns, wanted)
        return None if found is None else self._tuple(config["configurable"]["thread_id"], found)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first within their namespace; without ``config`` those of all threads."""
        found = self._listed(config, filter or {}, get_checkpoint_id(before) if before else None)
        return islice(found, None if limit is None else max(limit, 0))

    def _listed(
        self, config: RunnableConfig | None, filter: Mapping[str, Any], before: str | None
    ) -> Iterator[CheckpointTuple]:
        place: Mapping[str, Any] = config["configurable"] if config else {}
        threads = [place["thread_id"]] if config else keeping.threads_in(self.ledger)
        only, wanted = place.get("checkpoint_ns"), get_checkpoint_id(config) if config else None
        for thread_id in threads:
            thread = self._threads.of(str(thread_id))
            for ns, saves in list(thread.catch_up().checkpoints.items()):
                if only is not None and ns != only:
                    continue
                ids = sorted(
                    name for name in saves if wanted in (None, name) and (before is None or name < before)
                )
                while ids:
                    # Oldest first: a value is read on top of the one before it.
                    chunk, ids = ids[-_LISTED_AT_ONCE:], ids[:-_LISTED_AT_ONCE]
                    yield from reversed(list(self._chunk(thread, thread_id, ns, chunk, filter)))

    def _chunk(
        self, thread: Thread, thread_id: Any, ns: str, ids: builtins.list[str], filter: Mapping[str, Any]
    ) -> Iterator[CheckpointTuple]:
        for name in ids:
            found = thread.load(ns, name)
            if found is not None:
                made = self._tuple(thread_id, found)
                if all(made.metadata.get(key) == value for key, value in filter.items()):
                    yield made

    def _tuple(self, thread_id: Any, found: Loaded) -> CheckpointTuple:
        loads = self.serde.loads_typed
        rest = loads(_part(found.payload["checkpoint"]))
        versions = dict(found.payload["versions"])
        values = {channel: join(value, loads) for channel, value in found.values.items()}
        parent = found.at.parent
        return CheckpointTuple(
            config=_config(thread_id, found.ns, found.checkpoint_id),
            checkpoint=cast("Checkpoint", {**rest, "channel_versions": versions, "channel_values": values}),
            metadata=loads(_part(found.payload["metadata"])),
            parent_config=None if parent is None else _config(thread_id, found.ns, parent),
            pending_writes=[(write.task_id, write.channel, loads(write.part)) for write in found.writes],
        )

    # --- keeping ------------------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        """Let go of all checkpoints of a thread: their payloads are erased, the record of it stays."""
        keeping.delete(self._threads.of(str(thread_id)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Let go of the checkpoints that these runs made, in all threads."""
        gone = set(map(str, run_ids))
        if not gone:
            return

        def stays(_: str, __: str, one: SavedAt) -> bool:
            return one.run_id not in gone

        for thread_id in keeping.threads_in(self.ledger):
            thread = self._threads.of(thread_id)
            saves = [one for by_id in thread.catch_up().checkpoints.values() for one in by_id.values()]
            if any(one.run_id in gone for one in saves):
                keeping.keep(thread, lambda _: stays, "runs deleted")

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Record all checkpoints of a thread in another one as well."""
        keeping.copy(self._threads.of(str(source_thread_id)), self._threads.of(str(target_thread_id)))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest", keep: int = 1) -> None:
        """Keep the newest ``keep`` checkpoints of every namespace of these threads, or none (``"delete"``).

        Checkpoints that a kept one needs for a ``DeltaChannel`` stay too. Payloads of the others are erased.
        """
        if strategy not in ("keep_latest", "delete") or keep < 1:
            raise ValueError(
                f"strategy is 'keep_latest' or 'delete' and keep at least 1, not {strategy!r} and {keep}"
            )
        for thread_id in thread_ids:
            thread = self._threads.of(str(thread_id))
            if strategy == "delete":
                keeping.delete(thread)
            else:
                keeping.keep(thread, lambda index: keeping.newest(index, keep), "thread pruned")

    # --- the same, without blocking the event loop --------------------------------------------------------

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As :meth:`put`."""
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """As :meth:`put_writes`."""
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As :meth:`get_tuple`."""
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As :meth:`list`."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (made := await asyncio.to_thread(next, found, None)) is not None:
            yield made

    async def adelete_thread(self, thread_id: str) -> None:
        """As :meth:`delete_thread`."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As :meth:`delete_for_runs`."""
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As :meth:`copy_thread`."""
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(
        self, thread_ids: Sequence[str], *, strategy: str = "keep_latest", keep: int = 1
    ) -> None:
        """As :meth:`prune`."""
        await asyncio.to_thread(self.prune, thread_ids, strategy=strategy, keep=keep)

    def _thread(self, config: RunnableConfig) -> Thread:
        return self._threads.of(str(config["configurable"]["thread_id"]))


def _part(stored: Sequence[Any]) -> tuple[str, bytes]:
    return stored[0], stored[1]


def _config(thread_id: Any, ns: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}
