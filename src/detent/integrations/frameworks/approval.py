"""The questions that agents of frameworks ask before a tool is called, and what answers mean."""

from typing import Any

from detent.app.async_run_context import AsyncRun

APPROVE, DENY = "approve", "deny"
LONGEST_ARGUMENTS = 2_000


async def ask_approval(
    run: AsyncRun, name: str, agent: str, tool: str, arguments: str
) -> str | None:
    """Ask a person whether a tool may be called; None if it may, otherwise why it may not.

    An answer other than `approve` and `deny` is such a reason.
    """
    text = f"The agent {agent} wants to call {tool}({shortened(arguments)}). Approve the call?"
    answer = await run.ask(text, [APPROVE, DENY], name=name, other=True)
    if answer == APPROVE:
        return None
    return "The tool call was denied." if answer == DENY else str(answer)


async def ask_result(run: AsyncRun, name: str, agent: str, tool: str, arguments: str) -> Any:
    """Ask a person for the result of a tool that has no function."""
    return await run.ask(
        f"The agent {agent} calls {tool}({shortened(arguments)}). What is the result?", name=name
    )


def shortened(arguments: str) -> str:
    """The arguments as they are shown in a question."""
    if len(arguments) <= LONGEST_ARGUMENTS:
        return arguments
    return f"{arguments[:LONGEST_ARGUMENTS]}… ({len(arguments):,} characters)"
