"""Runs when Python starts in a process of ``chatsnapshot run``: switches recording on, then the program's own way."""

import importlib
import os
import sys


def _own_way() -> None:
    """Be gone from the import path, and run the ``sitecustomize`` that would have run."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        if ours is not None:
            sys.modules.setdefault("sitecustomize", ours)


def _switch_on() -> None:
    try:
        from chatsnapshot.adapters.auto.recording import autorecord_child
    except ImportError:
        missing = "has no chatsnapshot, so only the process itself is recorded"
        sys.stderr.write(f"chatsnapshot: {sys.executable} {missing}\n")
    else:
        autorecord_child()


_switch_on()
_own_way()
