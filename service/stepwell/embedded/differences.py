"""Says in which arguments a start differs from the run that has its id."""

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.loop.occurrences import Start, StartInThread
from stepwell.core.port import INPUT_KEY, Store
from stepwell.core.records.model import Payload
from stepwell.core.records.states import PlanTrigger
from stepwell.core.records.threads import THREAD_LABEL

_CHARS_MAX = 60
_FIELDS = (
    "goal",
    "labels",
    "max_iterations",
    "max_parallel",
    "no_progress_limit",
    "budget",
    "reflect_on",
    "thread_id",
)


async def differences(store: Store, start: Start | StartInThread) -> str:
    """Return the arguments that differ, each with its old and its new value, cut; "" if none is found."""
    tenant_id, run_id = start.spec.tenant_id, start.spec.run_id
    loaded = await store.load(tenant_id, run_id)
    if loaded is None:
        return ""
    stored = await store.read_payloads(tenant_id, run_id, [INPUT_KEY])
    spec = loaded.run.spec
    # A run of a thread is given this label.
    labels = {key: value for key, value in spec.labels.items() if key != THREAD_LABEL}
    spec = replace(spec, labels=labels)
    first = next((one for one in loaded.plans if one.trigger is PlanTrigger.CALLER), None)
    pairs: list[tuple[str, object, object]] = [
        ("input", _input(stored[0].payload if stored else None), _input(start.input)),
        *((name, getattr(spec, name), getattr(start.spec, name)) for name in _FIELDS),
        ("plan", first.tasks if first else None, start.plan),
    ]
    if first is not None and start.plan is not None:
        pairs.append(("stages", loaded.run.stages, start.stages))
    return ", ".join(
        f"{name} was {_cut(old)} and is now {_cut(new)}" for name, old, new in pairs if old != new
    )


def _input(payload: Payload | None) -> object:
    if payload is None:
        return None
    return _Text(payload.data.decode("utf-8", "replace"))


class _Text(str):
    """Text that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _cut(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _CHARS_MAX else f"{text[: _CHARS_MAX - 1]}…"
