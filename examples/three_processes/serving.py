"""Runs one service on a port that is free, tells its address, and closes its ledger at the end."""

import socket

import uvicorn

import chatsnapshot


def serve(app, snapshot: chatsnapshot.Ledger) -> None:
    """Serve until SIGTERM; the first line that is printed is the address."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{sock.getsockname()[1]}", flush=True)
    try:
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[sock])
    finally:
        snapshot.close()
