"""Record an AG2 group chat of the classic line with one line, then read back what it did.

Runs offline: the models are a script on the loopback. Needs `autogen[openai]` (or `ag2[openai]` below 1.0).
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from autogen import ConversableAgent
from autogen.agentchat import run_group_chat
from autogen.agentchat.group import AgentNameTarget, ContextVariables, ReplyResult, TerminateTarget
from autogen.agentchat.group.patterns import DefaultPattern

import chatsnapshot
from chatsnapshot.adapters.ag2 import AG2Recorder
from chatsnapshot.projections.render import render_text

SCRIPT = {
    "desk": {"name": "look_up", "arguments": json.dumps({"order": "A-17"})},
    "refunds": "Order A-17 is refunded: 12.50 EUR.",
}


class Models(BaseHTTPRequestHandler):
    """Speaks the OpenAI wire format and says what the script tells the model of that name."""

    def log_message(self, *args: object) -> None: ...

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = SCRIPT[asked["model"]]
        message = {"role": "assistant", "content": said}
        if isinstance(said, dict):
            call = {"id": "call-1", "type": "function", "function": said}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        usage = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        answer = {"id": "1", "object": "chat.completion", "created": 0, "model": asked["model"]}
        body = json.dumps({**answer, "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("127.0.0.1", 0), Models)
threading.Thread(target=server.serve_forever, daemon=True).start()


def model(name: str) -> dict:
    """The configuration of an agent that asks the script."""
    url = f"http://127.0.0.1:{server.server_port}/v1"
    entry = {
        "model": name,
        "api_type": "openai",
        "base_url": url,
        "api_key": "sk-" + "a" * 48,
        "price": [0, 0],
    }
    return {"config_list": [entry], "cache_seed": None}


def look_up(order: str, context_variables: ContextVariables) -> ReplyResult:
    """Look up an order and hand it to whom it concerns."""
    context_variables["order"] = order
    target = AgentNameTarget("refunds")
    return ReplyResult(
        message="paid 12.50 EUR, came back", target=target, context_variables=context_variables
    )


desk = ConversableAgent("desk", llm_config=model("desk"), functions=[look_up])
refunds = ConversableAgent("refunds", llm_config=model("refunds"))
refunds.handoffs.set_after_work(TerminateTarget())
customer = ConversableAgent("customer", human_input_mode="NEVER", llm_config=False)
pattern = DefaultPattern(initial_agent=desk, agents=[desk, refunds], user_agent=customer)

with chatsnapshot.open("group.db") as ledger:
    recorder = AG2Recorder(ledger, correlation_id="case-7")
    response = recorder.watch(run_group_chat(pattern=pattern, messages="Where is my money?"))  # the one line
    seen = [event.type for event in response.events]  # your own loop, which sees what it saw before
    server.shutdown()
    server.server_close()

    print(render_text(ledger.view("transcript", "case-7")))
    for entry in ledger.read(event_type="execution.handoff"):
        print("handoff:", entry.payload["from"], "->", entry.payload["to"], f"({entry.payload['kind']})")
    print(len(seen), "events of AG2 are", ledger.head, "in the ledger, with the start and the variables")
    print(ledger.verify().ok)
