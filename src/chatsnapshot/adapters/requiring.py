"""Finds what a runtime must have to be recorded, and says in one sentence what it lacks."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
from operator import attrgetter
from typing import Any

from chatsnapshot.errors import LedgerError, MissingExtra

__all__ = ["need", "version_of"]


def need(module: str, *names: str, extra: str, versions: str, what: str | None = None) -> Any:
    """Import a module of a runtime and make sure that it has what recording needs.

    ``names`` are attributes of the module, with dots for attributes of those. ``extra`` is the extra of this package
    that installs the runtime, ``versions`` what is supported (``langgraph>=1.2``), ``what`` the runtime in words.

    Raises :class:`MissingExtra` where the runtime is not installed, and :class:`LedgerError` with one sentence where
    the installed version lacks something.
    """
    root = module.partition(".")[0]
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != root or error.name == root:
            raise MissingExtra(f"recording {what or root}", extra) from error
        raise LedgerError(_lacks(root, extra, error.name, versions)) from None
    except ImportError as error:
        raise LedgerError(
            _lacks(root, extra, f"{module} that can be imported ({error})", versions)
        ) from error
    for name in names:
        try:
            attrgetter(name)(found)
        except AttributeError:
            raise LedgerError(_lacks(root, extra, f"{module}.{name}", versions)) from None
    return found


@functools.lru_cache(64)
def version_of(*distributions: str) -> str | None:
    """The installed version of the first of these distributions that there is."""
    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _lacks(root: str, extra: str, name: str, versions: str) -> str:
    distribution = extra if version_of(extra) else root
    version = version_of(extra, root.replace("_", "-"), root) or "(version unknown)"
    return f"{distribution} {version} has no {name}; recording needs {versions}"
