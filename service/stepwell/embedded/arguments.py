"""Makes commands of the loop from Python arguments, and checks their limits.

Names, texts and plans have the limits of a request's fields, checked by the same functions. An
argument beyond its limit raises a ValueError that names it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from msgspec.structs import replace

from stepwell.app import start
from stepwell.core.loop.occurrences import Answer, Resolve, SendSignal, Start
from stepwell.core.records import canonical, limits
from stepwell.core.records.errors import InvalidArgument
from stepwell.core.records.model import Budget, Payload, RunSpec
from stepwell.core.records.model import Failure as FailureRecord
from stepwell.core.records.states import Finding, OnBusy, StepKind
from stepwell.core.records.texts import storable
from stepwell.wire.plans import read_plan
from stepwell.wire.records import to_record
from stepwell.wire.validate import violations
from stepwell_client import Budget as ClientBudget
from stepwell_client import Done, Failure, NotDone, encode
from stepwell_client import StepKind as ClientStepKind
from stepwell_client.internal import answer_payload, plan_draft
from stepwell_client.records import PlanLike
from stepwell_client.v1 import orchestrator_pb2, types_pb2

ACTOR = "embedded"
"""The caller of an embedded run's commands, which have no credential."""

EmbeddedOnBusy = Literal["enqueue", "reject", "interrupt"]
"""The fate of an embedded run whose thread is busy."""
_NAME = re.compile(limits.NAME_PATTERN)


def start_command(
    spec: RunSpec,
    *,
    budget: ClientBudget | None,
    run_input: types_pb2.Payload | None,
    plan: PlanLike | None,
    stages: tuple[StepKind, ...],
) -> Start:
    """Return the command that starts the run, with a fingerprint of its contents."""
    check_size("goal", len(spec.goal.encode("utf-8", "replace")), 0, limits.GOAL_BYTES_MAX)
    check_size("max_iterations", spec.max_iterations, 1, limits.ITERATIONS_MAX)
    check_size("max_parallel", spec.max_parallel, 1, limits.PARALLEL_MAX)
    check_size("no_progress_limit", spec.no_progress_limit, 0, limits.ITERATIONS_MAX)
    payload: Payload | None = None if run_input is None else to_record(run_input)
    check_size("input", len(payload.data) if payload else 0, 0, limits.PAYLOAD_BYTES_MAX)
    labelled = {f"labels[{key!r}]": key + value for key, value in spec.labels.items()}
    check_texts({"goal": spec.goal, **labelled})
    draft = None if plan is None else plan_draft(plan)
    request = orchestrator_pb2.StartRunRequest(
        goal=spec.goal, labels=spec.labels, plan=draft, reflect_on=spec.reflect_on
    )
    faults = violations(request)
    tasks = None if draft is None else read_plan(draft, "plan", faults)
    if budget is not None:
        spec = replace(spec, budget=budget_record(budget))
    try:
        faults.refuse()
        command = start.start_command(spec, run_input=payload, plan=tasks, stages=stages)
    except InvalidArgument as error:
        raise ValueError(error.message) from None
    fingerprint = hashlib.sha256(canonical.bytes_of(command)).hexdigest()
    return replace(command, spec=replace(spec, request_fingerprint=fingerprint))


def answer_command(
    question_id: str, value: object, *, replan: bool, reason: str, answered_by: str
) -> Answer:
    """Return the command that answers a question."""
    check_size("reason", len(reason.encode("utf-8", "replace")), 0, limits.REASON_BYTES_MAX)
    check_texts({"reason": reason})
    if answered_by:
        check_name("answered_by", answered_by)
    return Answer(
        question_id=question_id,
        payload=to_record(answer_payload(value)),
        replan=replan,
        reason=reason,
        answered_by=answered_by or ACTOR,
        actor=ACTOR,
        on_behalf_of=answered_by,
    )


def signal_command(name: str, value: object, *, reason: str) -> SendSignal:
    """Return the command that sends a signal."""
    check_name("name", name)
    check_texts({"reason": reason})
    payload = to_record(answer_payload(value))
    check_size("value", len(payload.data), 0, limits.PAYLOAD_BYTES_MAX)
    return SendSignal(name=name, value=payload, reason=reason)


def resolve_command(execution_id: str, finding: Done | NotDone | Failure) -> Resolve:
    """Return the command that resolves an unknown outcome by a person's finding."""
    if not isinstance(finding, Failure):
        check_texts({"reason": finding.reason})
    if isinstance(finding, NotDone):
        return Resolve(execution_id=execution_id, finding=Finding.NOT_DONE, reason=finding.reason)
    if isinstance(finding, Failure):
        failure = FailureRecord(
            kind=storable(finding.kind),
            message=storable(finding.message),
            details=storable(finding.details),
            retryable=False,
        )
        return Resolve(execution_id=execution_id, finding=Finding.DONE, failure=failure)
    payload = encode(finding.value)
    return Resolve(
        execution_id=execution_id,
        finding=Finding.DONE,
        reason=finding.reason,
        result=to_record(payload) if payload is not None else None,
    )


def budget_record(budget: ClientBudget) -> Budget:
    """Return a budget as the loop's record. Raises ValueError for a limit below zero."""
    made: Budget = to_record(budget.message())
    for name in made.__struct_fields__:
        check_size(f"budget.{name}", getattr(made, name), 0, limits.AMOUNT_MAX)
    return made


def kinds_of(kinds: Sequence[ClientStepKind]) -> tuple[StepKind, ...]:
    """Return the loop's step kinds for the client's."""
    return tuple(StepKind(kind.name) for kind in kinds)


def on_busy_of(word: EmbeddedOnBusy) -> OnBusy:
    """Return `on_busy` as the loop's record. Raises ValueError for another word."""
    if word not in get_args(EmbeddedOnBusy):
        raise ValueError(f"on_busy is {word!r}; it is one of {', '.join(get_args(EmbeddedOnBusy))}")
    return OnBusy(word.upper())


def check_name(what: str, name: str, chars_max: int = limits.NAME_CHARS_MAX) -> None:
    """Raise ValueError if a text is not a valid name."""
    if len(name) > chars_max or not _NAME.fullmatch(name):
        raise ValueError(
            f"{what} {name[:chars_max]!r} is no name of at most {chars_max} characters: letters, digits "
            "and . _ : / @ + -, first a letter or digit"
        )


def check_texts(texts: Mapping[str, str]) -> None:
    """Raise ValueError if a text has characters that no store can hold."""
    for what, text in texts.items():
        if storable(text) != text:
            raise ValueError(f"{what} holds NUL or half a surrogate pair; no text may")


def check_size(what: str, value: int, least: int, most: int) -> None:
    """Raise ValueError if a number is outside its bounds."""
    if not least <= value <= most:
        raise ValueError(f"{what} is {value:,}; it is at least {least:,} and at most {most:,}")
