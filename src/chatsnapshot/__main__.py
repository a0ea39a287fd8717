"""``python -m chatsnapshot``: the same as the ``chatsnapshot`` command."""

from __future__ import annotations

from chatsnapshot.cli.main import main

if __name__ == "__main__":
    main()
