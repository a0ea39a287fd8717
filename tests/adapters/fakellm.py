"""A model server on the loopback that speaks the OpenAI chat completions wire format and says what a script tells it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A tool call as one entry of a script; several in a list are made in parallel."""
    return {"name": name, "arguments": arguments}


class FakeModels:
    """Scripted models by name; ``requests`` keeps what each call sent.

    An entry of a script is a text, a tool call or a list of them, an int (answered with that HTTP status), or a
    function of the request body that gives one of these.
    """

    def __init__(self, scripts: Mapping[str, Sequence[Any]]) -> None:
        self.scripts = {model: list(script) for model, script in scripts.items()}
        self.requests: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> FakeModels:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def classic(self, model: str) -> dict[str, Any]:
        """An ``llm_config`` of the classic line."""
        entry = {
            "model": model,
            "api_type": "openai",
            "api_key": "sk-" + "a" * 48,
            "base_url": self.url,
            "price": [0.0, 0.0],
        }
        return {"config_list": [entry], "cache_seed": None}

    def reply(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        with self._lock:
            self.requests.append(body)
            number = len(self.requests)
            script = self.scripts.get(body["model"])
            item = script.pop(0) if script else 400
        if isinstance(item, Callable):  # type: ignore[arg-type]
            item = item(body)
        if isinstance(item, int):
            return item, {"error": {"message": f"scripted status {item}", "type": "scripted", "code": None}}
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if isinstance(item, str):
            message["content"] = item
        else:
            calls = item if isinstance(item, list) else [item]
            message["tool_calls"] = [
                {
                    "id": f"call_{number}_{index}",
                    "type": "function",
                    "function": {"name": one["name"], "arguments": json.dumps(one["arguments"])},
                }
                for index, one in enumerate(calls)
            ]
        return 200, {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": body["model"],
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "finish_reason": "stop" if message["content"] is not None else "tool_calls",
                }
            ],
            "usage": {"prompt_tokens": 10 * number, "completion_tokens": 5, "total_tokens": 10 * number + 5},
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        models = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = models.reply(body)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(data)

        return Handler
