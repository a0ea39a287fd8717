"""What is used of Google ADK, found at first use, with one clear sentence where a version lacks it."""

from __future__ import annotations

import importlib
from typing import Any

from chatsnapshot.adapters.requiring import need
from chatsnapshot.errors import MissingExtra

__all__ = ["RUNTIME", "adk"]

RUNTIME = "google_adk"
_EXTRA = "google-adk"
_VERSIONS = "google-adk>=2.13"


def adk(module: str, *names: str) -> Any:
    """The module ``google.adk.MODULE``, which has these names.

    Raises :class:`MissingExtra` without ADK, and :class:`LedgerError` where its version lacks one of them.
    """
    try:
        importlib.import_module("google.adk")
    except ModuleNotFoundError as error:
        # Other packages of Google share the first half of the name.
        if error.name in ("google", "google.adk"):
            raise MissingExtra("recording Google ADK", _EXTRA) from error
        raise
    return need(f"google.adk.{module}", *names, extra=_EXTRA, versions=_VERSIONS, what="Google ADK")
