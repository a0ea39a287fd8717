"""One step of a flow in a process of its own: ``waiting.py LEDGER FLOWS ask``, then the same with the flow's id."""

from __future__ import annotations

import os
import sys

for name, value in {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OTEL_SDK_DISABLED": "true",
    "CREWAI_STORAGE_DIR": os.path.dirname(sys.argv[2]),
}.items():
    os.environ[name] = value

import chatsnapshot  # noqa: E402 - CrewAI reads its environment when it is imported
from chatsnapshot.adapters.crewai import CrewAIRecorder  # noqa: E402
from chatsnapshot.testing.runtimes.crewai import waiting_flow  # noqa: E402


def main() -> None:
    from crewai.flow.persistence import SQLiteFlowPersistence

    kept = SQLiteFlowPersistence(sys.argv[2])
    with chatsnapshot.open(sys.argv[1]) as ledger, CrewAIRecorder(ledger):
        flow = waiting_flow(kept)
        if sys.argv[3] == "ask":
            flow.kickoff()
            print(f"flow {flow.flow_id}")
        else:
            print("said", type(flow).from_pending(sys.argv[3], kept).resume("send it"))


main()
