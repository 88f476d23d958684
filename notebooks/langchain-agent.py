"""A LangChain agent of your own, whose code runs in a sandbox, and whose run becomes a notebook: langchain-agent.ipynb.

    python langchain-agent.py

It needs no key: the model is a recording, the replies in replays/langchain-agent.jsonl, handed out whatever it is asked. All
else is live: the sandbox, the code in it, the table, the figure. With a model of your own, `MODEL` is a name such as
"openai:gpt-5.6", or any chat model of LangChain's.
"""

import asyncio
from importlib.resources import files
from pathlib import Path

from langchain.agents import create_agent

from nbagent import Session
from nbagent.agent import KernelMiddleware, kernel_tools
from nbagent.agent.providers.replay import ReplayModel

MODEL = ReplayModel.open(Path(__file__).parent / "replays" / "langchain-agent.jsonl")
PENGUINS = str(files("nbagent.faces") / "demo" / "penguins.csv")


async def main() -> None:
    # The sandbox with its data. It starts when an agent first needs it.
    session = Session(data=[PENGUINS])
    try:
        await ask_with_middleware(session)
        await ask_with_tools(session)
        session.rename("Do heavier penguins have longer flippers?")
        # Everything that the agents ran, with all outputs, their packages and the hash of the data.
        print(await session.export("langchain-agent.ipynb"))
    finally:
        await session.stop()


async def ask_with_middleware(session: Session) -> None:
    """One entry in `middleware` gives an agent the tool `python`, and tells it of the data.

    Your system prompt comes first; other middleware and tools of yours go beside it.
    """
    agent = create_agent(
        MODEL,
        system_prompt="You help biologists. Answer in one paragraph.",
        middleware=[KernelMiddleware(session)],
    )
    found = await agent.ainvoke({"messages": [("user", "Do heavier penguins have longer flippers, in each species?")]})
    for message in found["messages"]:
        # Short text for each call. `KernelMiddleware(session, images=True)` shows the model its figures, too.
        print(f"[{message.type}] {message.text}\n")


async def ask_with_tools(session: Session) -> None:
    """Tools alone, for a loop of your own, or where other middleware is in charge of the prompt.

    `programs=False` leaves out the tools for scripts. Agents that share a session share its variables.
    """
    agent = create_agent(MODEL, kernel_tools(session, programs=False))
    question = "What of my machine can you see, and can you fetch example.org?"
    found = await agent.ainvoke({"messages": [("user", question)]})
    print(found["messages"][-1].text)


if __name__ == "__main__":
    asyncio.run(main())
