"""The places of Agno's code that every run comes through, and what is put around them."""

from __future__ import annotations

import functools
import inspect
import threading
import uuid
import weakref
from collections.abc import AsyncIterator, Callable, Generator
from typing import TYPE_CHECKING, Any

from chatsnapshot.adapters.agno.following import Piece, acalled, astreamed, called, streamed
from chatsnapshot.adapters.agno.pieces import ATTEMPTS, ModelPiece, RunPiece, ToolPiece
from chatsnapshot.adapters.agno.steps import ParallelPiece, StepPiece
from chatsnapshot.adapters.agno.watching import CURRENT, Watch
from chatsnapshot.adapters.requiring import need

if TYPE_CHECKING:
    from chatsnapshot.adapters.agno.recorder import AgnoRecorder

__all__ = ["attach", "needed", "put"]

_VERSIONS = "agno>=3.1"
_RUNS = ("run", "arun", "continue_run", "acontinue_run")
_FLOWS = (
    *("_execute", "_execute_stream", "_aexecute", "_aexecute_stream"),
    *("_continue_execute", "_continue_execute_stream", "_acontinue_execute", "_acontinue_execute_stream"),
)
_MODELS = (
    *("_process_model_response", "_aprocess_model_response"),
    *("process_response_stream", "aprocess_response_stream"),
)
_STEPS = ("execute", "aexecute", "execute_stream", "aexecute_stream")

_lock = threading.RLock()
_everywhere: list[AgnoRecorder] = []
_attached: dict[int, tuple[weakref.ref[Any], list[AgnoRecorder]]] = {}
_before: list[tuple[Any, str, Any, Any]] = []
"""What was put around Agno's code: the class, the name, what was there, and what is there now."""


def needed() -> None:
    """Make sure that Agno is there and has what recording needs; one clear error where not."""
    for module, name, parts in _places():
        need(module, name, *(f"{name}.{one}" for one in parts), extra="agno", versions=_VERSIONS, what="Agno")
    need("agno.run.background", "_execute_background", extra="agno", versions=_VERSIONS, what="Agno")


def attach(recorder: AgnoRecorder, owner: Any) -> None:
    """Record the runs of this agent, team or workflow from here on, and those inside of them."""
    kinds = tuple(getattr(need(module, extra="agno", versions=_VERSIONS), name) for module, name in _OWNERS)
    if not isinstance(owner, kinds):
        raise TypeError(
            f"attach() takes an Agent, Team or Workflow of agno (an object, not its class), "
            f"not {'the class ' + owner.__name__ if isinstance(owner, type) else type(owner).__name__}"
        )
    with _lock:
        _put_around()
        known = _attached.get(id(owner))
        if known is None or known[0]() is not owner:
            known = _attached[id(owner)] = (weakref.ref(owner, functools.partial(_forget, id(owner))), [])
        if not any(one is recorder for one in known[1]):
            known[1].append(recorder)


def put(recorder: AgnoRecorder) -> Callable[[], None]:
    """Record every run of the process from here on; gives what undoes it."""
    with _lock:
        _put_around()
        _everywhere.append(recorder)

    def undo() -> None:
        with _lock:
            if any(one is recorder for one in _everywhere):
                _everywhere.remove(recorder)
            _take_away()

    return undo


def _forget(known: int, gone: Any) -> None:
    if known in _attached and _attached[known][0] is gone:
        del _attached[known]


_OWNERS = (("agno.agent", "Agent"), ("agno.team", "Team"), ("agno.workflow", "Workflow"))


def _places() -> list[tuple[str, str, tuple[str, ...]]]:
    return [
        ("agno.agent", "Agent", _RUNS),
        ("agno.team", "Team", _RUNS),
        ("agno.workflow", "Workflow", _FLOWS),
        ("agno.workflow", "Step", _STEPS),
        ("agno.workflow", "Parallel", _STEPS),
        ("agno.models.base", "Model", _MODELS),
        ("agno.tools.function", "FunctionCall", ("execute", "aexecute")),
        ("agno.exceptions", "ModelProviderError", ("classify",)),
    ]


def _put_around() -> None:
    if _before:
        return
    for module, name, parts in _places():
        holder = getattr(need(module, extra="agno", versions=_VERSIONS), name)
        for part in parts:
            _replace(holder, part, _WRAPPERS[name](part, holder.__dict__[part]))
    background = need("agno.run.background", extra="agno", versions=_VERSIONS)
    _replace(background, "_execute_background", _settled(background._execute_background))


def _replace(holder: Any, name: str, now: Any) -> None:
    _before.append((holder, name, holder.__dict__[name], now))
    setattr(holder, name, now)


def _take_away() -> None:
    """Put back what was there, unless somebody is recorded still or others came around it since."""
    if _everywhere or _attached or any(holder.__dict__[name] is not now for holder, name, _, now in _before):
        return
    for holder, name, before, _ in _before:
        setattr(holder, name, before)
    _before.clear()


def _recorders_of(owner: Any) -> list[AgnoRecorder]:
    """Who records a run of this agent, team or workflow here: whoever is attached, and whoever records around it."""
    known = _attached.get(id(owner))
    found = list(known[1]) if known is not None and known[0]() is owner else []
    for one in (*(watch.recorder for watch in CURRENT.get()), *_everywhere):
        if not any(one is other for other in found):
            found.append(one)
    return found


def _run_of(owner: Any, given: dict[str, Any], *, goes_on: bool, kind: str) -> RunPiece | None:
    watches = []
    for recorder in _recorders_of(owner):
        with recorder.guarded():
            watches.append(Watch(recorder, owner, given, goes_on=goes_on, kind=kind))
    return RunPiece(tuple(watches)) if watches else None


@functools.cache
def _signature(before: Any) -> inspect.Signature:
    return inspect.signature(before)


def _given(before: Any, self: Any, args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by their names."""
    if not args:
        return options
    try:
        bound = _signature(before).bind_partial(self, *args, **options).arguments
    except TypeError:
        return options  # what is called says so itself
    return {**bound, **bound.get("kwargs", {})}


def _entry(kind: str, name: str, before: Any) -> Any:
    """Around a way to run an agent or a team: it gives an output, a coroutine or a stream."""
    goes_on = "continue" in name

    @functools.wraps(before)
    def enter(self: Any, *args: Any, **options: Any) -> Any:
        given = _given(before, self, args, options)
        if not goes_on and given.get("run_id") is None and _recorders_of(self):
            options = {**options, "run_id": str(uuid.uuid4())}  # as Agno would: known before it does anything
            given = {**given, **options}
        piece = _run_of(self, given, goes_on=goes_on, kind=kind)
        if piece is None:
            return before(self, *args, **options)
        piece.in_background = bool(given.get("background"))
        return called(piece, lambda: before(self, *args, **options))

    return enter


def _flow(name: str, before: Any) -> Any:
    def make(self: Any, given: dict[str, Any]) -> Piece | None:
        return _run_of(self, given, goes_on="continue" in name, kind="workflow")

    return _around(before, make)


def _step(_name: str, before: Any) -> Any:
    def make(self: Any, given: dict[str, Any]) -> Piece | None:
        watches = CURRENT.get()
        return StepPiece(watches, self, given) if watches else None

    return _around(before, make)


def _parallel(_name: str, before: Any) -> Any:
    def make(self: Any, given: dict[str, Any]) -> Piece | None:
        watches = CURRENT.get()
        return ParallelPiece(watches) if watches else None

    return _around(before, make)


def _model(_name: str, before: Any) -> Any:
    def make(self: Any, given: dict[str, Any]) -> Piece | None:
        watches = CURRENT.get()
        return ModelPiece(watches, self, given) if watches else None

    return _around(before, make)


def _tool(_name: str, before: Any) -> Any:
    def make(self: Any, given: dict[str, Any]) -> Piece | None:
        piece = ToolPiece(CURRENT.get(), self)
        return piece if piece.watches else None

    return _around(before, make)


def _classify(_name: str, before: Any) -> Any:
    """Agno sorts each error of a provider by this before it tries again."""

    @functools.wraps(before.__func__)
    def classify(cls: Any, error: Any) -> Any:
        found = before.__func__(cls, error)
        attempts = ATTEMPTS.get()
        if attempts is not None:
            attempts.append(found)
        return found

    return classmethod(classify)


_WRAPPERS: dict[str, Callable[[str, Any], Any]] = {
    "Agent": functools.partial(_entry, "agent"),
    "Team": functools.partial(_entry, "team"),
    "Workflow": _flow,
    "Step": _step,
    "Parallel": _parallel,
    "Model": _model,
    "FunctionCall": _tool,
    "ModelProviderError": _classify,
}


def _settled(before: Any) -> Any:
    """Around what runs in the background: the run is over when that is."""

    @functools.wraps(before)
    async def execute(run: Any, *args: Any, **options: Any) -> None:
        watches = CURRENT.get()
        if not watches:
            await before(run, *args, **options)
            return
        piece = RunPiece(watches)
        await acalled(_Background(piece, run), lambda: before(run, *args, **options))

    return execute


class _Background(Piece):
    """The end of a run that went on in the background."""

    def __init__(self, piece: RunPiece, run: Any) -> None:
        self.inside = piece.inside  # type: ignore[method-assign]
        self._piece, self._run = piece, run

    def over(self, result: Any, error: BaseException | None) -> Any:
        return self._piece.over(self._run, error)


def _around(before: Any, make: Callable[[Any, dict[str, Any]], Piece | None]) -> Any:
    """A function of the same kind that has a piece around it, where ``make`` gives one."""

    def piece_of(self: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Piece | None:
        return make(self, _given(before, self, args, options))

    if inspect.isasyncgenfunction(before):

        @functools.wraps(before)
        async def stream(self: Any, *args: Any, **options: Any) -> AsyncIterator[Any]:
            piece, items = piece_of(self, args, options), before(self, *args, **options)
            async for item in items if piece is None else astreamed(piece, items):
                yield item

        return stream
    if inspect.iscoroutinefunction(before):

        @functools.wraps(before)
        async def wait(self: Any, *args: Any, **options: Any) -> Any:
            piece = piece_of(self, args, options)
            if piece is None:
                return await before(self, *args, **options)
            return await acalled(piece, lambda: before(self, *args, **options))

        return wait
    if inspect.isgeneratorfunction(before):

        @functools.wraps(before)
        def go_through(self: Any, *args: Any, **options: Any) -> Generator[Any, None, Any]:
            piece, items = piece_of(self, args, options), before(self, *args, **options)
            return (yield from items if piece is None else streamed(piece, items))

        return go_through

    @functools.wraps(before)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        piece = piece_of(self, args, options)
        if piece is None:
            return before(self, *args, **options)
        return called(piece, lambda: before(self, *args, **options))

    return call
