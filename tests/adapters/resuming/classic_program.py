"""Programs of the classic line that are killed on the way, and the agents as their successors make them.

Annotations are no texts here: AG2 reads those of tools.
"""

import json
import logging
import sys
import threading
from pathlib import Path
from typing import Any

from autogen import ConversableAgent, GroupChat, GroupChatManager
from autogen.agentchat import run_group_chat_iter
from autogen.agentchat.group import AgentTarget, ContextVariables, ReplyResult, TerminateTarget
from autogen.agentchat.group.patterns import DefaultPattern

import chatsnapshot
from chatsnapshot.adapters.ag2 import AG2Recorder


def model(url: str, name: str = "desk-model") -> dict[str, Any]:
    entry = {"model": name, "api_type": "openai", "api_key": "sk-" + "a" * 48, "base_url": url}
    return {"config_list": [{**entry, "price": [0.0, 0.0]}], "cache_seed": None}


def calls(*tools: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """A message with tool calls, as a model would send it."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": f"c-{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for at, (name, given) in enumerate(tools, 1)
        ],
    }


class Tools:
    """Tools that write down that they ran, and stop for ever where they are told to."""

    def __init__(self, folder: Path, stop_at: str = "") -> None:
        self.folder = folder
        self.stop_at = stop_at

    def reached(self, name: str) -> None:
        if self.stop_at == name:
            print("here", flush=True)
            threading.Event().wait()

    def ran(self, name: str) -> None:
        with (self.folder / "executed").open("a") as file:
            file.write(f"{name}\n")
        self.reached(name)

    def all(self) -> list[Any]:
        def look_up(order: str) -> str:
            """Look an order up."""
            self.ran("look_up")
            return f"{order} is on its way"

        def refund(order: str) -> str:
            """Pay an order back."""
            self.ran("refund")
            return f"{order} is paid back"

        return [look_up, refund]


def scripted(name: str, *script: Any, **options: Any) -> ConversableAgent:
    """An agent that says one item of its script a turn."""
    made = ConversableAgent(
        name, **{"llm_config": False, "human_input_mode": "NEVER", "default_auto_reply": ""} | options
    )
    left = list(script)

    def reply(recipient: Any, messages: Any = None, sender: Any = None, config: Any = None) -> Any:
        return (True, left.pop(0)) if left else (False, None)

    if script:
        made.register_reply([ConversableAgent, None], reply, position=len(made._reply_func_list) - 1)
    return made


def ends(message: dict[str, Any]) -> bool:
    return "TERMINATE" in str(message.get("content"))


def pair(tools: Tools, *script: Any, url: str = "", **options: Any) -> tuple[Any, Any]:
    """An assistant and the user that executes its tools."""
    options = {"is_termination_msg": ends} | options
    user = scripted("user", **options)
    assistant = scripted("assistant", *script, llm_config=model(url) if url else False)
    for tool in tools.all():
        user.register_for_execution()(tool)
        if url:
            assistant.register_for_llm(description=tool.__doc__)(tool)
    return assistant, user


def group(tools: Tools, *script: Any) -> Any:
    """A round of three with a manager; the user has the tools."""
    desk, clerk = scripted("desk", *script), scripted("clerk", "The clerk agrees.")
    user = scripted("user", "Please do.")
    for tool in tools.all():
        user.register_for_execution()(tool)
    chat = GroupChat([desk, clerk, user], messages=[], max_round=8, speaker_selection_method="round_robin")
    return GroupChatManager(chat, llm_config=False, is_termination_msg=ends)


def pattern(tools: Tools, url: str) -> DefaultPattern:
    """A desk that hands orders on to refunds with a tool that counts."""
    refunds = ConversableAgent("refunds", llm_config=model(url, "refunds-model"), functions=tools.all()[1:])

    def hand_on(order: str, context_variables: ContextVariables) -> ReplyResult:
        """Hand an order on."""
        context_variables["handed_on"] = order
        tools.ran("hand_on")
        return ReplyResult(
            message=f"handed {order} on", target=AgentTarget(refunds), context_variables=context_variables
        )

    desk = ConversableAgent("desk", llm_config=model(url), functions=[hand_on])
    refunds.handoffs.set_after_work(TerminateTarget())
    return DefaultPattern(
        initial_agent=desk,
        agents=[desk, refunds],
        context_variables=ContextVariables({"customer": "Ann"}),
        group_after_work=TerminateTarget(),
    )


class Console:
    """AG2's default stream with a person who never answers."""

    def __init__(self, tools: Tools) -> None:
        self.tools = tools

    def send(self, message: Any) -> None:
        pass

    def print(self, *objects: Any, **options: Any) -> None:
        pass

    def input(self, prompt: str = "", *, password: bool = False) -> str:
        self.tools.reached("asked")
        return ""


def main(url: str, folder: str, case: str, stop_at: str, server: str = "") -> None:
    from autogen.io import IOStream

    logging.getLogger("autogen").setLevel(logging.ERROR)
    tools = Tools(Path(folder), stop_at)
    recorder = AG2Recorder(chatsnapshot.open(url), correlation_id="case-7")
    order = {"order": "A-17"}
    both = calls(("look_up", order), ("refund", order))
    with IOStream.set_default(Console(tools)):
        if case == "pattern":
            for _ in recorder.watch(run_group_chat_iter(pattern(tools, server), messages="Money back!")):
                pass
            return
        if case == "watched":
            assistant, user = pair(tools, both)
            for _ in recorder.watch(user.run_iter(assistant, message="Where is A-17?")):
                pass
            return
        with recorder.tee() as tee:
            if case == "group":
                manager = group(tools, "I look it up.", both)
                user = manager.groupchat.agents[2]
                tee.returned(user.initiate_chat(manager, message="Where is A-17?"))
                return
            options = {"human_input_mode": "ALWAYS"} if case == "person" else {}
            script = [] if server else ["Which colour?"] if case == "person" else [both]
            assistant, user = pair(tools, *script, url=server, **options)
            tee.returned(user.initiate_chat(assistant, message="Where is A-17?"))


if __name__ == "__main__":
    main(*sys.argv[1:])
