"""Two agents of AG2's classic line that talk twice, once each way of starting; it knows nothing of any recording."""

from autogen import ConversableAgent

alpha = ConversableAgent("alpha", llm_config=False, human_input_mode="NEVER", default_auto_reply="from alpha")
beta = ConversableAgent("beta", llm_config=False, human_input_mode="NEVER", default_auto_reply="from beta")
result = alpha.initiate_chat(beta, message="hello", max_turns=1)
print("summary:", result.summary)
response = alpha.run(beta, message="again", max_turns=1)
response.process()
print("summary:", response.summary)
