"""What it costs to start: the command line's help beside a bare click program, and what an import loads."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.measure import interleave, ratio

BARE = """import click
@click.group()
def main(): pass
@main.command()
def one(): "The only one."
main(prog_name="bare")
"""

HEAVY = ("apsw", "sqlite3", "asyncio", "click", "ssl", "http", "ag2", "autogen", "pydantic", "starlette")


def run(folder: str, rounds: int) -> None:
    print("Start-up (chatsnapshot --help ≤ 3 times a bare click program)")
    bare = os.path.join(folder, "bare.py")
    with open(bare, "w") as file:
        file.write(BARE)

    def start(*command: str) -> int:
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
        return 1

    found = interleave(
        {
            "bare": lambda: start(bare, "--help"),
            "us": lambda: start("-m", "chatsnapshot", "--help"),
            "python": lambda: start("-c", "pass"),
        },
        rounds * 3,
    )
    times = ratio(found["bare"], found["us"])
    print(
        f"  chatsnapshot --help {1000 / found['us'].median:.0f} ms, bare click {1000 / found['bare'].median:.0f} ms, "
        f"python alone {1000 / found['python'].median:.0f} ms: {times:.2f} times{'  ok' if times <= 3 else '  ABOVE 3'}"
    )
    code = f"import sys, chatsnapshot; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    print(f"  import chatsnapshot loads of {', '.join(HEAVY)}: {', '.join(loaded) or 'none'}")
