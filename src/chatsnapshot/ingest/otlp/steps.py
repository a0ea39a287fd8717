"""Runs, tasks, tools, searches and calls of services: a rule for each kind of span."""

from __future__ import annotations

from typing import Any

from chatsnapshot.ingest.otlp.event import Event
from chatsnapshot.ingest.otlp.flat import taken_list
from chatsnapshot.ingest.otlp.messages import call_without_id, parsed
from chatsnapshot.ingest.otlp.reading import Reading
from chatsnapshot.ingest.otlp.records import Facts

__all__ = ["agent", "client", "guardrail", "handoff", "memory", "other", "retrieval", "server"]
__all__ += ["task", "tool", "workflow"]

_INPUTS = ("input.value", "gen_ai.input.messages", "traceloop.entity.input")
_OUTPUTS = ("output.value", "gen_ai.output.messages", "final_result", "traceloop.entity.output")
_CANCELLED = ("CancelledError", "Cancelled", "KeyboardInterrupt", "GeneratorExit")


def agent(reading: Reading) -> list[Event]:
    """A run of an agent. Inside of another, and without a conversation of its own, it is a child run elsewhere."""
    span = reading.span
    run_id = reading.take("gen_ai.agent.call.id") or f"{span.trace}/{span.id}"
    if span.parent is not None and "gen_ai.conversation.id" not in reading.facts:
        reading.correlation = f"{span.trace}/{span.id}"
    begun: Facts = {"name": reading.agent or span.name.removeprefix("invoke_agent "), "run_id": str(run_id)}
    if reading.agent is not None:
        begun["agent"] = reading.agent
    user = reading.take("user.id", "enduser.id")
    if user is not None:
        begun["user"] = str(user)
    version = reading.take("gen_ai.agent.version")
    if version is not None:
        begun["version"] = str(version)
    if (said := reading.take("gen_ai.system_instructions")) is not None:
        begun["instructions"] = parsed(said)
    tags = reading.take("tag.tags")
    if isinstance(tags, list):
        begun["tags"] = tags
    ended: Facts = {"run_id": str(run_id)}
    return _spanned(reading, "execution.run", begun, ended, _input(reading), _output(reading), 0)


def workflow(reading: Reading) -> list[Event]:
    """A workflow: the root of a trace that is no agent, or what says that it is one."""
    name = reading.take("gen_ai.workflow.name", "traceloop.workflow.name") or reading.span.name
    workflow_id = f"{reading.span.trace}/{reading.span.id}"
    begun = {"workflow_id": workflow_id, "name": str(name)}
    ended = {"workflow_id": workflow_id, "name": str(name)}
    return _spanned(reading, "system.workflow", begun, ended, _input(reading), _output(reading), 0)


def task(reading: Reading) -> list[Event]:
    """A step between: a node of a graph, a chain, a plan."""
    span = reading.span
    begun = {"task_id": span.id, "name": span.name}
    ended = {"task_id": span.id, "name": span.name}
    return _spanned(reading, "system.task", begun, ended, _input(reading), _output(reading), 1)


def tool(reading: Reading) -> list[Event]:
    """A tool call; its cause is the message that asked for it where that is known, else the span around it."""
    span, take = reading.span, reading.take
    name = take("gen_ai.tool.name", "tool.name", "traceloop.entity.name") or span.name.removeprefix(
        "execute_tool "
    )
    call_id = take("gen_ai.tool.call.id", "tool_call.id", "tool.id")
    arguments = take("gen_ai.tool.call.arguments", "tool_arguments", "input.value", "traceloop.entity.input")
    result = take("gen_ai.tool.call.result", "tool_response", "output.value", "traceloop.entity.output")
    failed = False
    if type(result) is str and '"tool_call_id"' in result and (answer := _answer_of(result)) is not None:
        # LangChain's message: its text is the result, and the whole stays with the rest.
        reading.plain = False
        reading.facts["output.value"] = result
        result, call_id, failed = (
            answer["content"],
            call_id or answer["tool_call_id"],
            answer.get("status") == "error",
        )
    begun: Facts = {"name": str(name)}
    ended: Facts = {"name": str(name)}
    if call_id is not None:
        begun["call_id"] = ended["call_id"] = str(call_id)
    if arguments is not None:
        begun["arguments"] = arguments
    if reading.agent is not None:
        begun["agent"] = ended["agent"] = reading.agent
    start = reading.event("execution.tool_call", begun)
    if reading.memory.asks(reading.correlation):
        wanted = str(call_id) if call_id is not None else call_without_id(str(name), arguments)
        start.cause = reading.memory.asked(reading.correlation, wanted) or start.cause
    error = reading.error() or ({"message": result} if failed else None)
    if error is not None:
        ended["is_error"], ended["error"] = True, error
    if result is not None or error is None:
        ended["result"] = result
    if (took := reading.duration_ns) is not None:
        ended["duration_ns"] = took
    return [start, reading.event("execution.tool_result", ended, end=True, rank=3)]


def _answer_of(result: str) -> Facts | None:
    """The tool message of LangChain that a result is, if it is one."""
    found = parsed(result)
    data = found.get("data", found) if isinstance(found, dict) else None
    if isinstance(data, dict) and data.get("type") == "tool" and isinstance(data.get("tool_call_id"), str):
        return data if "content" in data else None
    return None


def handoff(reading: Reading) -> list[Event]:
    """One agent gave the work to another."""
    given, taken = reading.take("input.value"), reading.take("output.value")
    payload: Facts = {"to": str(taken or reading.span.name.removeprefix("handoff to "))}
    if given is not None:
        payload["from"] = str(given)
    if (error := reading.error()) is not None:
        reading.facts["error"] = error
    return [reading.event("execution.handoff", payload, end=True, key=reading.first)]


def retrieval(reading: Reading) -> list[Event]:
    """A search, with what was found."""
    payload: Facts = {
        "name": str(
            reading.take("gen_ai.data_source.id", "db.collection.name", "reranker.model_name")
            or reading.span.name
        )
    }
    query = reading.take("gen_ai.retrieval.query.text", "reranker.query", "input.value")
    if query is not None:
        payload["query"] = query
    found = parsed(reading.take("gen_ai.retrieval.documents"))
    for prefix in ("retrieval.documents", "reranker.output_documents"):
        if not isinstance(found, list):
            found = [_document(one) for one in taken_list(reading.facts, prefix)] or None
    if isinstance(found, list):
        payload["documents"], payload["count"] = found, len(found)
        reading.leave_out("output.value")
    if (took := reading.duration_ns) is not None:
        payload["duration_ns"] = took
    if (error := reading.error()) is not None:
        payload["error"] = error
    return [reading.event("execution.retrieval", payload, end=True, key=reading.first)]


def _document(item: Any) -> Any:
    found = item.get("document") if isinstance(item, dict) else None
    if not isinstance(found, dict):
        return item
    if "metadata" in found:
        found["metadata"] = parsed(found["metadata"])
    return found


def memory(reading: Reading) -> list[Event]:
    """Something was remembered or recalled."""
    payload: Facts = {"operation": str(reading.facts.get("gen_ai.operation.name")).removesuffix("_memory")}
    if (store := reading.take("gen_ai.memory.store.id", "gen_ai.memory.store.name")) is not None:
        payload["store"] = str(store)
    if (key := reading.take("gen_ai.memory.id", "gen_ai.memory.key")) is not None:
        payload["key"] = str(key)
    if (query := reading.take("gen_ai.memory.query.text", "gen_ai.memory.query")) is not None:
        payload["query"] = query
    if (content := reading.take("gen_ai.memory.content", "gen_ai.memory.records")) is not None:
        payload["content"] = parsed(content)
    if (error := reading.error()) is not None:
        payload["error"] = error
    return [reading.event("execution.memory", payload, end=True, key=reading.first)]


def guardrail(reading: Reading) -> list[Event]:
    """What a guardrail judged."""
    payload: Facts = {"name": str(reading.take("guardrail.name") or reading.span.name)}
    if (value := reading.take("input.value")) is not None:
        payload["value"] = value
    if (outcome := reading.take("output.value")) is not None:
        payload["message"] = outcome
    triggered = reading.take("guardrail.triggered")
    if isinstance(triggered, bool):
        payload["triggered"] = triggered
        payload["outcome"] = "blocked" if triggered else "passed"
    if (error := reading.error()) is not None:
        payload["error"] = error
    return [reading.event("execution.guardrail", payload, end=True, key=reading.first)]


# --- services ---


def client(reading: Reading) -> list[Event]:
    """A call of another service: MCP, HTTP, a database, RPC, a queue."""
    span = reading.span
    begun = {"call_id": span.id, **_service(reading)}
    ended = {"call_id": span.id, "operation": begun["operation"], **_answer(reading)}
    return [
        reading.event("integration.call", begun),
        reading.event("integration.response", ended, end=True, rank=3),
    ]


def server(reading: Reading) -> list[Event]:
    """A call of this program from outside."""
    payload = {"call_id": reading.span.id, **_service(reading), **_answer(reading)}
    user = reading.take("enduser.id", "user.id")
    if user is not None:
        payload["user"] = str(user)
    return [reading.event("integration.api_triggered", payload, end=True, key=reading.first)]


def other(reading: Reading) -> list[Event]:
    """A span that says nothing that is known here, kept whole."""
    payload: Facts = {"name": reading.span.name}
    if (took := reading.duration_ns) is not None:
        payload["duration_ns"] = took
    if (error := reading.error()) is not None:
        payload["error"] = error
    return [reading.event("otel.span", payload, end=True, key=reading.first)]


_WHO = (
    "server.address",
    "net.peer.name",
    "db.namespace",
    "db.name",
    "messaging.destination.name",
    "rpc.service",
)
_SYSTEMS = (
    "db.system.name",
    "db.system",
    "messaging.system",
    "rpc.system.name",
    "rpc.system",
    "gen_ai.provider.name",
)


def _service(reading: Reading) -> Facts:
    take, facts = reading.take, reading.facts
    made: Facts = {}
    method = facts.get("mcp.method.name")
    if method is not None:
        made["service"] = "mcp"
        about = take("gen_ai.tool.name", "mcp.tool.name", "mcp.resource.uri", "gen_ai.prompt.name")
        made["operation"] = (
            f"{take('mcp.method.name')} {about}" if about is not None else str(take("mcp.method.name"))
        )
        if (request := take("gen_ai.tool.call.arguments", "mcp.request.argument", "input.value")) is not None:
            made["request"] = request
        return made
    who = take(*_WHO) or take(*_SYSTEMS)
    if who is not None:
        made["service"] = str(who)
    made["operation"] = reading.span.name or "call"
    if (url := take("url.full", "http.url")) is not None:
        made["url"] = str(url)
    if (query := take("db.query.text", "db.statement", "input.value")) is not None:
        made["request"] = query
    return made


def _answer(reading: Reading) -> Facts:
    made: Facts = {}
    status = reading.take_all("http.response.status_code", "http.status_code")
    if status is None:
        status = reading.take("db.response.status_code", "rpc.response.status_code", "rpc.grpc.status_code")
    if isinstance(status, (int, str)):
        made["status"] = status
    if (took := reading.duration_ns) is not None:
        made["duration_ns"] = took
    if (response := reading.take("gen_ai.tool.call.result", "output.value")) is not None:
        made["response"] = response
    if (error := reading.error()) is not None:
        made["error"] = error
    return made


# --- what begins and ends ---


def _input(reading: Reading) -> Any:
    found = reading.take(*_INPUTS)
    reading.leave_out_list("llm.input_messages.")
    if reading.facts.get("input.mime_type") == "application/json":
        return parsed(found)
    return found


def _output(reading: Reading) -> Any:
    found = reading.take(*_OUTPUTS)
    reading.leave_out("pydantic_ai.all_messages", "all_messages_events")
    reading.leave_out_list("llm.output_messages.")
    if reading.facts.get("output.mime_type") == "application/json":
        return parsed(found)
    return found


def _spanned(
    reading: Reading, what: str, begun: Facts, ended: Facts, given: Any, output: Any, rank: int
) -> list[Event]:
    """The start of something and how it ended."""
    if given is not None:
        begun["input"] = given
    start = reading.event(f"{what}_started", begun, rank=rank)
    error = reading.error()
    if error is None:
        status = "completed"
        if output is not None:
            ended["output"] = output
    else:
        cancelled = str(error.get("type", "")).rpartition(".")[2] in _CANCELLED
        status = "cancelled" if cancelled else "failed"
        ended["error"] = error
        if output is not None:
            reading.facts["output.value"] = output
    return [start, reading.event(f"{what}_{status}", ended, end=True, rank=5 - rank)]
