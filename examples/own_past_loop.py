"""A plain loop whose model reads its own past out of the ledger. Runs offline: the model follows a script."""

import chatsnapshot


def model(messages: list[dict]) -> str:
    """Stands for a call of a provider: it answers from what the messages quote, and cites it."""
    question = messages[-1]["content"]
    for message in messages[:-1]:
        citation, _, quoted = message["content"].partition("\n")
        if "refund" in question and "30 days" in quoted and message["role"] == "tool":
            return f"30 days, as recorded: {citation}"
    return "I do not know yet."


with chatsnapshot.open("own-past.db") as ledger:
    with ledger.run(correlation_id="monday", name="desk") as run:  # an earlier run, which looked it up
        run.record("execution.message", {"role": "user", "content": "How long do refunds take?"})
        run.record(
            "execution.tool_call", {"name": "look_up", "call_id": "1", "arguments": {"topic": "refund"}}
        )
        run.record("execution.tool_result", {"call_id": "1", "result": "Refund policy: within 30 days."})

    with ledger.run(correlation_id="tuesday", name="desk") as run:
        for question in ("Good morning!", "What is our refund policy?"):
            own = ledger.context("tuesday", budget_tokens=500)  # what was said in this run so far
            past = ledger.context(search="refund policy", budget_tokens=500)  # what any run knows of it
            asked = {"role": "user", "content": question}
            run.record("execution.message", asked)
            answer = model([*past.messages, *own.messages, asked])
            run.record("execution.message", {"role": "assistant", "content": answer})
            print(question, "->", answer)
            print(
                f"  read {past.tokens} + {own.tokens} tokens, positions {past.positions} and {own.positions}"
            )

    print(ledger.context("tuesday", budget_tokens=300, format="markdown").text)
    print(ledger.verify().ok)
