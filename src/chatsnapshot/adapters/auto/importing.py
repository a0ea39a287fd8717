"""Tells when a program has imported a module, whatever way it does that."""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["ImportWatch"]


class ImportWatch:
    """Calls ``imported(name)`` once for each of the modules, when it was imported, or at once where it was before.

    Packages import their own modules in circles. So a module is told when the outermost import of its packages in that
    thread is done, and not in the middle of it: by then whoever is told may import from them. ``packages`` names the
    packages of a module; without it, its top-level package.

    Finds no module itself: it asks the finders behind it, and wraps the loader that they name. ``imported`` must not
    raise.
    """

    def __init__(
        self,
        names: Sequence[str],
        imported: Callable[[str], None],
        packages: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._waiting = set(names)
        self._imported = imported
        given = packages or {}
        self._packages = {name: tuple(given.get(name) or (name.partition(".")[0],)) for name in names}
        self._here = _Here()

    def begin(self) -> None:
        """Begin to watch."""
        sys.meta_path.insert(0, self)
        self._tell_what_is_there()

    def end(self) -> None:
        """Stop watching."""
        self._waiting.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Let the other finders find the module, and be told when it has been executed."""
        if self._here.looking == name or not any(_is_of(name, self._packages[one]) for one in self._waiting):
            return None
        self._here.looking = name
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            return None
        finally:
            self._here.looking = None
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return None
        self._follow(spec.loader, name)
        return spec

    def _follow(self, loader: Any, name: str) -> None:
        """Follow the import of a module by this loader; nothing else about it changes."""
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            if module.__name__ != name:  # of a loader that loads several
                execute(module)
                return
            self._here.going_on.append(name)
            try:
                execute(module)
            finally:
                self._here.going_on.remove(name)
            self._tell_what_is_there(name)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            pass  # a loader of a kind of its own: the program goes on, perhaps unrecorded

    def _tell_what_is_there(self, executed: str | None = None) -> None:
        for name in sorted(self._waiting):
            packages = self._packages[name]
            if name not in sys.modules or any(_is_of(one, packages) for one in self._here.going_on):
                continue
            # Begun before the watch, or by another thread: told when the next import of its packages is done.
            spec = getattr(sys.modules[name], "__spec__", None)
            if name == executed or not getattr(spec, "_initializing", False):
                self._waiting.discard(name)
                self._imported(name)


class _Here(threading.local):
    """What this thread is importing."""

    def __init__(self) -> None:
        self.looking: str | None = None
        self.going_on: list[str] = []


def _is_of(name: str, packages: Sequence[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)
