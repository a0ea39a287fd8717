"""Ctrl-C: the process ends as it does without us, and its run is cancelled in the ledger."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

import chatsnapshot

CHATS = Path(__file__).with_name("chats.py")

SCRIPT = """
import asyncio, importlib.util, sys, threading, time
spec = importlib.util.spec_from_file_location("chats", {chats!r})
chats = importlib.util.module_from_spec(spec)
spec.loader.exec_module(chats)
import chatsnapshot
from chatsnapshot.adapters.ag2 import AG2Recorder

def main_waits_for_an_event():
    frame = sys._current_frames()[threading.main_thread().ident]
    while frame is not None and frame.f_code.co_name != "get":
        frame = frame.f_back
    return frame is not None

def turn():
    while threading.current_thread() is not threading.main_thread() and not main_waits_for_an_event():
        time.sleep(0.01)
    print("ready", flush=True)
    threading.Event().wait(60)

def held(asynchronous):
    made = chats.agent("assistant", *([] if asynchronous else [turn]))
    async def reply(recipient, messages=None, sender=None, config=None):
        print("ready", flush=True)
        await asyncio.sleep(60)
    if asynchronous:
        made.register_reply(type(chats.agent("x")), reply, position=0, ignore_async_in_sync_chat=True)
    return made

with chatsnapshot.open("runs.db") as ledger:
    recorder = AG2Recorder(ledger, correlation_id="run-1")
    user = chats.agent("user")
    {body}
"""

BODIES = {
    "run": 'list(recorder.watch(user.run(held(False), message="go")).events)',
    "run_iter": 'list(recorder.watch(user.run_iter(held(False), message="go")))',
    "a_run": """
    async def main():
        response = await recorder.watch(user.a_run(held(True), message="go"))
        async for event in response.events:
            pass
    asyncio.run(main())""",
    "tee": """
    with recorder.tee():
        user.initiate_chat(held(False), message="go")""",
}


@pytest.mark.parametrize("way", list(BODIES))
def test_an_interrupted_process_leaves_a_cancelled_run(way: str, tmp_path: Path) -> None:
    code = SCRIPT.format(chats=str(CHATS), body=BODIES[way])
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert any(line.strip() == "ready" for line in process.stdout)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert "KeyboardInterrupt" in errors
    with chatsnapshot.open(str(tmp_path / "runs.db"), read_only=True) as ledger:
        types = [entry.event_type.removeprefix("execution.") for entry in ledger.replay("run-1")]
        assert types == ["run_started", "message", "run_cancelled"]
        assert ledger.verify().ok
