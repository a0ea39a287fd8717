"""A question goes through three processes and two runtimes; what they recorded is one graph. ``run.py [LEDGER]``."""

import os
import subprocess
import sys
from pathlib import Path

import httpx

import chatsnapshot
from chatsnapshot.projections.graphdiagram import render_mermaid

HERE = Path(__file__).parent


def started(name: str, *arguments: str) -> tuple[subprocess.Popen, str]:
    """A service in a process of its own, and its address."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / name), *arguments], stdout=subprocess.PIPE, text=True
    )
    return process, process.stdout.readline().strip()


def main() -> None:
    """Start the services, ask, end them, and show what is recorded."""
    os.environ["CHATSNAPSHOT_LEDGER"] = sys.argv[1] if len(sys.argv) > 1 else "three_processes.db"
    processes = []
    try:
        tools, tools_url = started("tools.py")
        processes.append(tools)
        agent, agent_url = started("agent.py", tools_url)
        processes.append(agent)
        web, web_url = started("web.py", agent_url)
        processes.append(web)
        answer = httpx.post(f"{web_url}/ask", json={"question": "Where is order 1042?"}, timeout=60)
        print(answer.json()["answer"])
    finally:
        for process in reversed(processes):
            process.terminate()
            process.communicate(timeout=30)

    with chatsnapshot.open() as snapshot:
        request = snapshot.get(snapshot.view("runs", answer.json()["run"]).runs[0].cause)
        graph = snapshot.view("graph", request.correlation_id)
        print(render_mermaid(graph))
        services = {entry.source.name for entry in snapshot.read(event_type="integration.api_triggered")}
        print(
            f"{len(graph.nodes)} events of {', '.join(sorted(services))}; nothing dangles: {not graph.dangling}"
        )


if __name__ == "__main__":
    main()
