"""The agent of the console's browser tests: a run with all that a page can show."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Sequence
from typing import Any

from stepwell_client import (
    Agent,
    Continue,
    Effect,
    Finish,
    NeedsAnswer,
    NonRetryable,
    PlanContext,
    QuestionKind,
    ReflectContext,
    Retry,
    SynthesizeContext,
    Task,
    TaskContext,
)
from stepwell_client.v1 import types_pb2

HOSTILE = "<img src=x onerror=\"window.hacked='yes'\"><script>window.hacked='yes'</script>"
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name"},
        "age": {"type": "integer", "minimum": 0},
        "colour": {"enum": ["red", "blue"]},
        "member": {"type": "boolean"},
    },
    "required": ["name", "age"],
}

REQUEST = {
    "type": "object",
    "properties": {
        "author": {"$ref": "#/$defs/Name", "title": "Author"},
        "how_many": {"type": "integer", "default": 3},
        "until": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
    },
    "required": ["author"],
    "$defs": {"Name": {"type": "string"}},
}

agent = Agent("console")


@agent.plan(input_schema=REQUEST)
def plan(ctx: PlanContext) -> Sequence[Task]:
    if ctx.labels.get("plan") == "cycle":
        return [Task("a", "quick", depends_on=["b"]), Task("b", "quick", depends_on=["a"])]
    return [
        Task("gather", "numbers", title="Gather the numbers"),
        Task(
            "write",
            "write",
            title="Write a draft",
            depends_on=["gather"],
            prompt="Write about bees.",
        ),
        Task("shaky", "shaky", title="A shaky step", retry=Retry(initial_backoff=0.05)),
        Task("ask", "ask", title="Ask who it is for", depends_on=["write"]),
        Task("hostile", "hostile", title=HOSTILE, depends_on=["shaky"]),
    ]


@agent.task("numbers")
async def numbers(ctx: TaskContext) -> dict[str, Any]:
    ctx.usage(input_tokens=120, output_tokens=40, cost_micros=1_500)
    return {"big": 9007199254740993, "one": 1.0, "nothing": -0.0, "list": [1e100, None, True]}


@agent.task("write")
async def write(ctx: TaskContext) -> str:
    ctx.log("the draft begins")
    words = ["Bees", "are", "busy", ",", "and", "so", "is", "this", "step", "."]
    for word in words:
        ctx.stream(word + " ")
        await asyncio.sleep(0.02)
    ctx.append("user", "Write about bees.")
    ctx.append("assistant", " ".join(words))
    ctx.transcript(prompt="Write about bees.", response='{"text": "Bees", "n": 9007199254740993}')
    return await ctx.call("model", polish, " ".join(words))


async def polish(text: str) -> str:
    return text.replace(" ,", ",")


@agent.task("shaky")
def shaky(ctx: TaskContext) -> str:
    if ctx.attempt < 3:
        raise ConnectionError(f"the line was cut in attempt {ctx.attempt}")
    return "steady"


@agent.task("ask")
async def ask(ctx: TaskContext) -> Any:
    if ctx.answered is None:
        raise NeedsAnswer("Who is it for?", schema=PERSON)
    return ctx.answer()


@agent.task("approve")
async def approve(ctx: TaskContext) -> bool:
    if ctx.answered is None:
        raise NeedsAnswer("Send it?", kind=QuestionKind.APPROVAL)
    return bool(ctx.answer())


@agent.task("hostile")
async def hostile(ctx: TaskContext) -> dict[str, str]:
    ctx.log(HOSTILE)
    ctx.append("user", HOSTILE)
    return {HOSTILE: HOSTILE, "__proto__": "javascript:alert(1)"}


@agent.task("fail")
async def fail(ctx: TaskContext) -> None:
    raise NonRetryable("it can't be done")


@agent.task("bad")
async def bad(ctx: TaskContext) -> None:
    ctx.log("it goes wrong now")
    await ctx.call("look", polish, "a call")
    raise NonRetryable("it broke")


@agent.task("slow")
async def slow(ctx: TaskContext, seconds: float = 60.0) -> str:
    for _ in range(int(seconds * 10)):
        ctx.heartbeat()
        await asyncio.sleep(0.1)
    return "done"


@agent.task("quick")
async def quick(ctx: TaskContext, value: Any = None) -> Any:
    return value


@agent.task("family")
async def family(ctx: TaskContext) -> Any:
    """Start a child that ends and one that asks, and wait for both."""
    first = await ctx.start_child("count the bees", plan=[Task("count", "quick", input=3)])
    second = await ctx.start_child("send the page", plan=[Task("send", "approve")])
    return [await first.result(), await second.result()]


@agent.task("receive")
async def receive(ctx: TaskContext, name: str) -> Any:
    return await ctx.receive(name)


@agent.task("given")
async def given(ctx: TaskContext) -> Any:
    return ctx.run_input()


@agent.task("bytes")
async def raw(ctx: TaskContext) -> bytes:
    return bytes(range(256)) * 2


@agent.task("text")
async def text(ctx: TaskContext) -> types_pb2.Payload:
    return types_pb2.Payload(data=b"<b>bold</b><script>1</script>", media_type="text/html")


@agent.task("payload")
async def payload(ctx: TaskContext, wanted: dict[str, str]) -> types_pb2.Payload:
    return types_pb2.Payload(data=b64decode(wanted["base64"]), media_type=wanted["type"])


@agent.task("say")
async def say(ctx: TaskContext, text: str) -> str:
    ctx.log(text)
    return text


@agent.task("charge")
async def charge(ctx: TaskContext) -> str:
    """Begins an effect, and dies with its worker when it is told to."""
    await ctx.call("charge", hang, key="charge", effect=Effect.AT_MOST_ONCE)
    return "charged"


async def hang() -> str:
    await asyncio.sleep(3_600)
    return ""


@agent.task("calls")
async def calls(ctx: TaskContext) -> str:
    """Makes calls within a call, one that fails once, and one with a key of its own."""

    async def page(number: int) -> str:
        ctx.usage(input_tokens=5)
        return f"page {number}"

    async def turn() -> list[str]:
        ctx.usage(input_tokens=5)
        return [await ctx.call("page", page, 1), await ctx.call("page", page, 2)]

    failed: list[str] = []

    async def flaky() -> str:
        if not failed:
            failed.append("once")
            raise ConnectionError("the line was cut")
        return "x" * 3_000

    await ctx.call("agent", turn)
    await ctx.call("flaky", flaky, retry=Retry(initial_backoff=0.01))
    return await ctx.call("charge", page, 3, key="charge-17")


@agent.task("lines")
async def lines(ctx: TaskContext, count: int = 0) -> None:
    for number in range(count):
        ctx.log(f"line {number}")


@agent.reflect
def reflect(ctx: ReflectContext) -> Finish | Continue:
    if ctx.iteration > 1:
        return Finish("it is enough")
    return Continue(
        [
            Task("gather", "numbers", title="Gather the numbers"),
            Task("again", "quick", title="Look again", depends_on=["gather"], input=[1, 2]),
        ],
        reason="one more look",
    )


@agent.synthesize
def synthesize(ctx: SynthesizeContext) -> dict[str, Any]:
    return {"goal": ctx.goal, "tasks": len(ctx.results), "exact": 9007199254740993}
