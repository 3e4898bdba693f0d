"""The witness: sees every call that reaches the store and every answer that leaves a replica.

It holds no opinion of its own about what should happen next; it compares what the store applied, what
workers and callers were answered, and when. The first violation ends the simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from stepwell.core.loop.occurrences import AppendMessages, Begin, Delivery, Released, UnknownCall
from stepwell.core.loop.transition import Reply, ReplyStatus
from stepwell.core.port import (
    Claim,
    Claimed,
    Commit,
    CommitResult,
    JournalAck,
    JournalWrite,
    Renewal,
    Store,
)
from stepwell.core.records.model import SUSPECT_LOSSES
from stepwell.core.records.states import OPEN, DueKind, ExecutionStatus, RunStatus, Verdict
from stepwell_testkit.proxy import StoreProxy
from tests.simulation.simulator import rules, threads
from tests.simulation.simulator.history import History
from tests.simulation.simulator.journals import JournalModel
from tests.simulation.simulator.keys import KeyModel
from tests.simulation.simulator.letters import LetterModel
from tests.simulation.simulator.rare_events import Rare
from tests.simulation.simulator.run_model import Applied, RunModel
from tests.simulation.simulator.signals import SignalModel
from tests.simulation.simulator.violation import InvariantViolation, holds

RunKey = tuple[str, str]


class Ledger:
    """The models of all runs, and the checks across them."""

    def __init__(
        self, history: History, now_us: Callable[[], int], failed: Callable[[Exception], None]
    ) -> None:
        self.history = history
        self.rare = Rare(history.seen)
        self.clocks_lie = False
        """Some clock is wrong, or will be set."""
        self.is_gone: Callable[[str, str], bool] = lambda _tenant_id, _instance_id: True
        """Returns whether an instance of a tenant's worker is dead, or a newer one has its place."""
        self.now_us = now_us
        self._failed = failed
        self.models: dict[RunKey, RunModel] = {}
        self.commit_ids: dict[str, tuple[RunKey, int]] = {}
        self.refused_ids: set[str] = set()
        self.tokens: set[str] = set()
        self.keys = KeyModel(history.seen)
        self.journals = JournalModel(history)
        self.letters = LetterModel(self.models)
        self.signals = SignalModel(history.seen)
        self.child_started: Callable[[RunKey], None] = lambda _key: None
        """Called with each child run that is started."""
        self.order: list[tuple[RunKey, int]] = []
        """Every applied commit, in the order in which the store applied them."""
        self.deliveries: dict[str, Delivery] = {}
        """The delivery of each lease's worker, by token."""

    def model(self, key: RunKey) -> RunModel:
        """Return a run's model, empty before its first commit."""
        model = self.models.get(key)
        if model is None:
            model = self.models[key] = RunModel(*key)
        return model

    def fail(self, violation: Exception) -> None:
        """End the simulation."""
        self._failed(violation)

    def guard(self, check: Callable[..., None], *arguments: object) -> None:
        """Run a check; its violation ends the simulation, not the caller."""
        try:
            check(*arguments)
        except InvariantViolation as violation:
            self._failed(violation)

    # --- what reaches the store ---

    def committed(self, replica: str, commit: Commit, result: CommitResult) -> None:
        """Note one commit with its verdict."""
        key = (commit.tenant_id, commit.run_id)
        if result.verdict is not Verdict.COMMITTED:
            self.history.note(f"{replica} {result.verdict} {commit.run_id} v{commit.version}")
            self.history.seen[f"commit:{result.verdict}:{replica[:2]}"] += 1
            self.rare.refused(self.model(key), replica, commit.version)
            self.guard(self._refused, replica, commit)
            return
        if commit.commit_id in self.commit_ids:
            self.history.note(f"{replica} again {commit.run_id} v{commit.version}")
            self.history.seen["commit_id seen again"] += 1
            known = self.commit_ids[commit.commit_id]
            self.guard(holds, known == (key, commit.version), "S4", commit.commit_id)
            return
        kinds = ",".join([event.type for event in commit.events])
        order = self.history.note(f"{replica} commits {key} v{commit.version} {kinds}")
        applied = Applied(commit, replica, order, result.now_us, self.history.now())
        self.commit_ids[commit.commit_id] = (key, commit.version)
        self.order.append((key, commit.version))
        self.guard(self._apply, key, applied)

    def _apply(self, key: RunKey, applied: Applied) -> None:
        model, commit = self.model(key), applied.commit
        refused = commit.commit_id in self.refused_ids
        holds(not refused, "S5", applied, "was refused for certain before")
        for lease in commit.leases:
            holds(lease.token not in self.tokens, "S9", applied, "a lease token comes again")
            self.tokens.add(lease.token)
        for execution_id, instances in applied.condemned:
            here = [one for one in instances if not self.is_gone(key[0], one.split()[1])]
            details = f"{execution_id} is condemned for {instances}, and {here} are there"
            holds(len({*instances}) > SUSPECT_LOSSES and not here, "S13", applied, details)
        rules.check_before(model, applied)
        self.rare.committed(model, applied)
        used = model.run.usage.input_tokens if model.run is not None else 0
        model.apply(applied)
        rules.check_after(model, applied)
        self.keys.applied(model, applied)
        self.journals.applied(model, applied)
        self.letters.applied(model, applied, used)
        threads.check(self.models, applied)
        self.signals.applied(model, applied)
        threads.check_steers(applied, self.letters.letter, self.signals.is_taken, self.history.seen)
        if commit.version == 1 and commit.run.spec.child_of.run_id:
            self.child_started(key)

    def _refused(self, replica: str, commit: Commit) -> None:
        holds(
            commit.commit_id not in self.commit_ids,
            "S4",
            f"{commit.run_id} v{commit.version} was applied and is refused now",
        )
        self.refused_ids.add(commit.commit_id)
        model = self.model((commit.tenant_id, commit.run_id))
        # Tokens make a commit unique. Without one, two equal commands may come in one instant.
        unique = bool(commit.leases or commit.fences)
        if unique and 0 < commit.version <= model.version:
            other = model.applied[commit.version - 1]
            twin = replace(other.commit, commit_id=commit.commit_id) == commit
            holds(
                not (twin and other.replica == replica),
                "S4",
                f"{replica} sent {commit.run_id} v{commit.version} under a second commit_id: what it "
                "did is done, and the verdict says that it isn't",
            )

    def claimed(self, replica: str, claim: Claim, claimed: Claimed) -> None:
        """Note what a claim returned: never early, never another tenant's."""
        self.guard(self._check_claim, replica, claim, claimed)

    def _check_claim(self, replica: str, claim: Claim, claimed: Claimed) -> None:
        for want, steps in zip(claim.wants, claimed.ready, strict=True):
            holds(len(steps) <= want.limit, "CREDITS", len(steps), "steps for", want)
            for step in steps:
                holds(step.tenant_id == want.tenant_id, "T3", step, "for", want)
                model = self.model((step.tenant_id, step.run_id))
                self._not_early(model, step.execution_id, claimed.now_us)
        for due in claimed.due:
            model = self.model((due.tenant_id, due.run_id))
            if due.kind is DueKind.TIMER:
                until_us = model.timers.get(due.name, 0)
                holds(claimed.now_us >= until_us, "C2", "timer", due.name, "of", due.run_id)
            else:
                self.rare.scanned((due.tenant_id, due.run_id), due.name, replica)
                self._not_early(model, due.name, claimed.now_us)

    def _not_early(self, model: RunModel, execution_id: str, now_us: int) -> None:
        deadline = model.deadlines.get(execution_id)
        early_us = deadline.from_us - now_us if deadline is not None else 0
        # One that has no deadline any more is over: then no claim may return it.
        fine = deadline is not None and early_us <= 0
        holds(fine, "C2", execution_id, "of", model.key[1], "comes", early_us, "us too early")

    def renewed(self, renewal: Renewal, taken: bool) -> None:
        """Note a heartbeat."""
        model = self.model((renewal.tenant_id, renewal.run_id))
        lease = model.leases.get(renewal.execution_id)
        execution = model.executions.get(renewal.execution_id)
        is_open = execution is not None and execution.status in OPEN
        live = is_open and lease is not None and lease.token == renewal.token
        self.guard(holds, live is taken, "S8", renewal, "was answered", taken)
        if taken:
            model.renewed(renewal.execution_id, self.now_us(), renewal.lease_ms)

    def recorded(self, write: JournalWrite, recorded: JournalAck) -> None:
        """Note what the store answered to a journal write."""
        model = self.model((write.tenant_id, write.run_id))
        self.guard(self.journals.recorded, model, write, recorded)

    # --- what leaves a replica ---

    def replied(
        self,
        key: RunKey,
        invoked: int,
        delivery: Delivery | Begin | AppendMessages,
        reply: Reply,
        replica: str,
    ) -> None:
        """Record the reply to a delivery that reached a replica at entry `invoked`."""
        name = f"{delivery.execution_id} {reply.status}"
        self.history.note(f"{replica} answers {key[1]} {name}")
        self.guard(self._check_reply, key, invoked, delivery, reply)

    def _check_reply(
        self, key: RunKey, invoked: int, delivery: Delivery | Begin | AppendMessages, reply: Reply
    ) -> None:
        model = self.model(key)
        execution = model.executions.get(delivery.execution_id)
        lease = model.leases.get(delivery.execution_id)
        own = lease is not None and lease.token == delivery.token
        closing = model.closed.get(delivery.execution_id)
        name = f"{key}: {delivery.execution_id}"
        if reply.status is ReplyStatus.LEASE_LOST:
            self.history.seen["stale result refused"] += 1
            # Once the outcome is unknown a step may be reported, and not begun again.
            status = execution.status if execution is not None else None
            begun = status is ExecutionStatus.UNKNOWN_OUTCOME and isinstance(delivery, Begin)
            # A run that failed accepts no late outcome, until it goes on.
            failed = model.run is not None and (
                model.run.status is RunStatus.FAILED or model.run.allowance > 1
            )
            waits = status is ExecutionStatus.UNKNOWN_OUTCOME and failed
            # A worker that reported a call as unknown has ended its attempt.
            ended = execution is not None and bool(execution.unknown_call)
            lost = closing is not None or begun or waits or ended or not own
            holds(lost, "S8", f"{name} was answered LEASE_LOST, and its lease is not lost")
            if isinstance(delivery, Delivery) and closing is not None and closing.fenced:
                taken = closing.status not in _NOT_DELIVERED
                again = taken and self.deliveries.get(delivery.token) == delivery
                holds(not again, "S8", f"{name} was sent again, and answered LEASE_LOST")
            return
        holds(own, "S8", f"{name} was accepted from someone who never had the lease")
        if isinstance(delivery, Begin | AppendMessages):
            return
        if isinstance(delivery.result, UnknownCall):
            kept = execution is not None and execution.unknown_call == delivery.result.call
            holds(kept, "S3", f"{name} was acknowledged, and its call isn't unknown")
            return
        holds(closing is not None, "S3", f"{name} was acknowledged and isn't committed")
        assert closing is not None
        late = closing.order <= invoked
        if late and model.run is not None and model.run.status is RunStatus.CANCELLED:
            kept = closing.status is not ExecutionStatus.CANCELLED
            holds(kept, "S14", f"{name} was cancelled and accepted all the same")
        if late:
            same = self.deliveries.get(delivery.token) == delivery and closing.fenced
            holds(same, "S8", f"{name} was over ({closing.status}) and accepted all the same")
        lost = closing.status in _NOT_DELIVERED and not isinstance(delivery.result, Released)
        holds(not lost, "S8" if late else "S3", f"{name} was accepted, and is {closing.status}")


_NOT_DELIVERED = frozenset(
    {
        ExecutionStatus.LOST,
        ExecutionStatus.TIMED_OUT,
        ExecutionStatus.CANCELLED,
        ExecutionStatus.RELEASED,
    }
)


class WitnessedStore(StoreProxy):
    """A replica's replica to the store, with the ledger looking on."""

    def __init__(self, inner: Store, ledger: Ledger, replica: str) -> None:
        super().__init__(inner)
        self._ledger = ledger
        self._replica = replica

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        results = await self.inner.commit(commits)
        for commit, result in zip(commits, results, strict=True):
            self._ledger.committed(self._replica, commit, result)
        return results

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[bool]:
        taken = await self.inner.renew(renewals)
        for renewal, one in zip(renewals, taken, strict=True):
            self._ledger.renewed(renewal, one)
        return taken

    async def write_journal(self, writes: Sequence[JournalWrite]) -> Sequence[JournalAck]:
        recorded = await self.inner.write_journal(writes)
        for write, one in zip(writes, recorded, strict=True):
            self._ledger.recorded(write, one)
        return recorded

    async def claim(self, claim: Claim) -> Claimed:
        claimed = await self.inner.claim(claim)
        self._ledger.claimed(self._replica, claim, claimed)
        return claimed
