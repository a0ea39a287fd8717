"""Tells when a program has imported a module, whatever way it does that."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["ImportWatch"]


class ImportWatch(importlib.abc.MetaPathFinder):
    """Calls ``imported(name)`` once for each of the modules, right after it was imported, or at once where it was before.

    Finds no module itself: it asks the finders behind it, and wraps the loader that they name. ``imported`` must not
    raise.
    """

    def __init__(self, names: Sequence[str], imported: Callable[[str], None]) -> None:
        self._waiting = set(names)
        self._imported = imported
        self._looking = threading.local()

    def begin(self) -> None:
        """Begin to watch."""
        sys.meta_path.insert(0, self)
        for name in sorted(self._waiting):
            module = sys.modules.get(name)
            # A module whose import is going on (this very call may come from inside of it) is told when it is done.
            if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
                self._tell(name)

    def end(self) -> None:
        """Stop watching."""
        self._waiting.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Let the other finders find the module, and be told when it has been executed."""
        if name not in self._waiting or getattr(self._looking, "name", None) == name:
            return None
        self._looking.name = name
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            return None
        finally:
            self._looking.name = None
        if spec is None or not isinstance(spec.loader, importlib.abc.Loader):
            return None
        _tell_after(spec.loader, lambda: self._tell(name))
        return spec

    def _tell(self, name: str) -> None:
        if name in self._waiting:
            self._waiting.discard(name)
            self._imported(name)


def _tell_after(loader: Any, tell: Callable[[], None]) -> None:
    """Have this loader (made for one import) tell when it has executed its module; nothing else about it changes."""
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        tell()

    try:
        loader.exec_module = exec_module
    except AttributeError:
        pass  # a loader of a kind of its own: the program goes on unrecorded
