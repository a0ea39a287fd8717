"""What is used of Google ADK, found at first use, with one clear sentence where a version lacks it."""

from __future__ import annotations

from typing import Any

from chatsnapshot.adapters.requiring import need

__all__ = ["RUNTIME", "adk"]

RUNTIME = "google_adk"
_EXTRA = "google-adk"
_VERSIONS = "google-adk>=2.13"


def adk(module: str, *names: str) -> Any:
    """The module ``google.adk.MODULE``, which has these names.

    Raises :class:`MissingExtra` without ADK, and :class:`LedgerError` where its version lacks one of them.
    """
    return need(f"google.adk.{module}", *names, extra=_EXTRA, versions=_VERSIONS, what="Google ADK")
