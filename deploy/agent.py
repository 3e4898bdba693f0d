import asyncio
from collections import Counter

from stepwell_client import Agent, PlanContext, SynthesizeContext, Task, TaskContext, Worker, serve

agent = Agent("words")


@agent.plan
def plan(ctx: PlanContext, texts: list[str]) -> list[Task]:
    return [Task(f"count-{n}", "count", input=text) for n, text in enumerate(texts)]


@agent.task("count")
def count(ctx: TaskContext, text: str) -> dict[str, int]:
    return Counter(text.lower().split())


@agent.synthesize
def synthesize(ctx: SynthesizeContext) -> str:
    words = sum((Counter(found) for found in ctx.results.values()), Counter())
    return f"{ctx.goal}: {words.most_common(1)[0][0]}"


if __name__ == "__main__":
    asyncio.run(serve(Worker(agent)))
