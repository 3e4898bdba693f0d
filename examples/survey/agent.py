"""An agent that surveys a directory: no model in it, but the whole loop, with real work in each step.

    plan        a `measure` task for each part of the tree, and `combine` tasks that depend on them
    measure     parse and count the files of one part
    combine     sum up; the last of them, `whole`, has the whole tree
    reflect     what is too long, unparsable or unimported gets a closer look: a second iteration
    look-at-…   one closer look
    synthesize  write a Markdown report

Copy it, and let a model do the planning, the looking and the writing: the frame stays as it is.

    stepwell serve
    stepwell worker examples.survey.agent:agent --queue survey
    stepwell run --pipeline survey --input '{"directory": ".", "report": "survey.md"}'
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from examples.demo.text import plain
from examples.survey.closer import (
    LONG_LINES,
    Remark,
    examine_long_function,
    examine_unparsable_file,
    search_mentions,
)
from examples.survey.measure import (
    Function,
    Measures,
    Unparsable,
    combine,
    measure_file,
    unimported,
)
from examples.survey.report import render
from examples.survey.tree import Part, deal, files_of
from stepwell_client import (
    Agent,
    Continue,
    Finish,
    NonRetryable,
    Plan,
    PlanContext,
    ReflectContext,
    Retry,
    StepContext,
    SynthesizeContext,
    Task,
    TaskContext,
)

PARTS_WANTED = 16
COMBINED_AT_ONCE = 4
LOOKS_MAX = {"long": 4, "unparsable": 4, "unimported": 6}
RETRY = Retry(max_attempts=5, initial_backoff=0.2)
"""A task that is lost in a crash is soon tried again: its worker comes back quickly."""

agent = Agent("survey")


@dataclass(frozen=True)
class Request:
    """The input of a run. Paths are the worker's."""

    directory: str = "."
    report: str = "survey.md"
    """The file to write."""
    files_max: int = 3_000
    """No more files are measured, so that a survey of a whole disk ends too."""
    pace_seconds: float = 0.0
    """Each task takes at least so long. Measuring takes milliseconds, where a model would take
    seconds: the demo slows it down, or there would be nothing in flight to be killed."""


@dataclass(frozen=True)
class Survey:
    """The result of a run."""

    report: str
    files: int
    lines: int
    functions: int
    remarks: int
    markdown: str


@agent.plan
def plan(ctx: PlanContext, request: Request) -> Plan:
    top = _directory(ctx)
    dealt = deal(top, parts_wanted=PARTS_WANTED, files_max=request.files_max)
    if not dealt.parts:
        raise NonRetryable(f"there are no files in {plain(request.directory)}")
    measures = [
        Task(f"measure-{number:02}", "measure", part, title=plain(part.title), retry=RETRY)
        for number, part in enumerate(dealt.parts, 1)
    ]
    sums: list[Task] = []
    for start in range(0, len(measures), COMBINED_AT_ONCE):
        ids = [task.id for task in measures[start : start + COMBINED_AT_ONCE]]
        title = f"{ids[0]} to {ids[-1]}"
        sums.append(Task(f"combine-{len(sums) + 1}", "combine", None, ids, title, retry=RETRY))
    ids = [task.id for task in sums]
    whole = Task("whole", "combine", None, ids, "the whole tree", retry=RETRY)
    return Plan([*measures, *sums, whole], f"{dealt.files} files in {len(measures)} parts")


@agent.task("measure")
def measure(ctx: TaskContext, part: Part) -> Measures:
    top = _directory(ctx)

    def measured() -> Iterator[Measures]:
        for number, path in enumerate(files_of(top, part), 1):
            ctx.check_cancelled()
            if number % 100 == 0:
                ctx.heartbeat(f"{number} of {part.files} files")
            yield measure_file(top, path)

    with _paced(ctx):
        return combine(measured())


@agent.task("combine")
def combine_parts(ctx: TaskContext) -> Measures:
    with _paced(ctx):
        return combine(ctx.result(task_id, Measures) for task_id in ctx.results)


@agent.reflect
def reflect(ctx: ReflectContext) -> Continue | Finish:
    if ctx.iteration > 1:
        return Finish("what stood out got its closer look")
    whole = ctx.result("whole", Measures)
    long = [function for function in whole.longest if function.lines > LONG_LINES]
    alone = unimported(_directory(ctx), whole)
    looks = [
        *_looks("long", long, [function.name for function in long]),
        *_looks("unparsable", whole.unparsable, [found.path for found in whole.unparsable]),
        *_looks("unimported", alone, alone),
    ]
    if not looks:
        return Finish("nothing is too long, unparsable or unimported")
    reason = (
        f"{len(long)} of the longest functions are too long, {whole.unparsable_count} files don't "
        f"parse, {len(alone)} modules are imported nowhere"
    )
    return Continue(looks, reason)


@agent.task("look-at-long")
def at_long(ctx: TaskContext, function: Function) -> Remark:
    with _paced(ctx):
        return examine_long_function(_directory(ctx), function)


@agent.task("look-at-unparsable")
def at_unparsable(ctx: TaskContext, found: Unparsable) -> Remark:
    with _paced(ctx):
        return examine_unparsable_file(_directory(ctx), found)


@agent.task("look-at-unimported")
def at_unimported(ctx: TaskContext, module: str) -> Remark:
    with _paced(ctx):
        return search_mentions(_directory(ctx), module, ctx.run_input(Request).files_max)


@agent.synthesize
def synthesize(ctx: SynthesizeContext, request: Request) -> Survey:
    whole = ctx.result("whole", Measures)
    looks = [task_id for task_id in ctx.results if task_id.startswith("look-")]
    remarks = [ctx.result(task_id, Remark) for task_id in looks]
    notes: list[str] = []
    if whole.files + whole.skipped >= request.files_max:
        notes.append(f"It stopped after {request.files_max:,} files: there may be more.")
    if whole.names_cut:
        notes.append("It knows not all imports: a module that seems unused may be used.")
    markdown = render(request.directory, whole, remarks, notes)
    _write(Path(request.report), markdown)
    return Survey(request.report, whole.files, whole.lines, whole.functions, len(remarks), markdown)


def _looks(kind: str, found: Sequence[object], titles: Sequence[str]) -> list[Task]:
    """A task for each of the first things of a kind that stood out."""
    pairs = list(zip(found, titles, strict=True))[: LOOKS_MAX[kind]]
    return [
        Task(f"look-{kind}-{number}", f"look-at-{kind}", item, title=plain(title), retry=RETRY)
        for number, (item, title) in enumerate(pairs, 1)
    ]


def _directory(ctx: StepContext) -> Path:
    directory = Path(ctx.run_input(Request).directory)
    if not directory.is_dir():
        raise NonRetryable(f"{plain(str(directory))} is not a directory here")
    return directory


def _write(path: Path, text: str) -> None:
    """Write whole or not at all: this attempt may be killed half-way, and is made again then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


@contextmanager
def _paced(ctx: TaskContext) -> Iterator[None]:
    """Let what is within take at least the run's `pace_seconds`."""
    until = time.monotonic() + ctx.run_input(Request).pace_seconds
    yield
    while (left := until - time.monotonic()) > 0:
        ctx.check_cancelled()
        time.sleep(min(left, 0.1))
