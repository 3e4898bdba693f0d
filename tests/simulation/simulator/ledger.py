"""The witness: sees every call that reaches the store and every answer that leaves a replica.

It holds no opinion of its own about what should happen next; it compares what the store applied, what
workers and callers were told, and when. The first violation ends the simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from stepwell.core.loop.signals import AppendMessages, Begin, Delivery, Released, Reply, ReplyStatus
from stepwell.core.port import Claimed, ClaimRequest, Commit, CommitResult, Renewal, Store
from stepwell.core.records.states import OPEN, DueKind, ExecutionStatus, RunStatus, Verdict
from stepwell_testkit.proxy import StoreProxy
from tests.simulation.simulator import rules
from tests.simulation.simulator.book import Applied, Book
from tests.simulation.simulator.history import History
from tests.simulation.simulator.rare import Rare
from tests.simulation.simulator.violation import InvariantViolation, holds

RunKey = tuple[str, str]


class Ledger:
    """All runs' books, and the checks across them."""

    def __init__(
        self, history: History, now_us: Callable[[], int], failed: Callable[[Exception], None]
    ) -> None:
        self.history = history
        self.rare = Rare(history.seen)
        self.clocks_lie = False
        """Some clock is wrong, or will be set."""
        self._now_us = now_us
        self._failed = failed
        self.books: dict[RunKey, Book] = {}
        self.commit_ids: dict[str, tuple[RunKey, int]] = {}
        self.refused_ids: set[str] = set()
        self.tokens: set[str] = set()
        self.order: list[tuple[RunKey, int]] = []
        """Every applied commit, in the order in which the store applied them."""
        self.deliveries: dict[str, Delivery] = {}
        """What each lease's worker delivered, by token."""

    def book(self, key: RunKey) -> Book:
        """Return a run's book, empty if it isn't born."""
        book = self.books.get(key)
        if book is None:
            book = self.books[key] = Book(*key)
        return book

    def guard(self, check: Callable[..., None], *given: object) -> None:
        """Run a check of what is given; its violation ends the simulation, not the caller."""
        try:
            check(*given)
        except InvariantViolation as violation:
            self._failed(violation)

    # --- what reaches the store ---

    def committed(self, door: str, commit: Commit, result: CommitResult) -> None:
        """Note one commit with its verdict."""
        key = (commit.tenant_id, commit.run_id)
        if result.verdict is not Verdict.COMMITTED:
            self.history.note(f"{door} {result.verdict} {commit.run_id} v{commit.version}")
            self.history.seen[f"commit:{result.verdict}:{door[:2]}"] += 1
            self.rare.refused(self.book(key), door, commit.version)
            self.guard(self._refused, door, commit)
            return
        if commit.commit_id in self.commit_ids:
            self.history.note(f"{door} again {commit.run_id} v{commit.version}")
            self.history.seen["commit_id seen again"] += 1
            known = self.commit_ids[commit.commit_id]
            self.guard(holds, known == (key, commit.version), "S4", commit.commit_id)
            return
        kinds = ",".join([event.type for event in commit.events])
        order = self.history.note(f"{door} commits {key} v{commit.version} {kinds}")
        applied = Applied(commit, door, order, result.now_us, self.history.now())
        self.commit_ids[commit.commit_id] = (key, commit.version)
        self.order.append((key, commit.version))
        self.guard(self._apply, key, applied)

    def _apply(self, key: RunKey, applied: Applied) -> None:
        book, commit = self.book(key), applied.commit
        refused = commit.commit_id in self.refused_ids
        holds(not refused, "S5", applied, "was refused for certain before")
        for lease in commit.leases:
            holds(lease.token not in self.tokens, "S9", applied, "a lease token comes again")
            self.tokens.add(lease.token)
        rules.check_before(book, applied)
        self.rare.committed(book, applied)
        book.write(applied)
        rules.check_after(book, applied)

    def _refused(self, door: str, commit: Commit) -> None:
        holds(
            commit.commit_id not in self.commit_ids,
            "S4",
            f"{commit.run_id} v{commit.version} was applied and is refused now",
        )
        self.refused_ids.add(commit.commit_id)
        book = self.book((commit.tenant_id, commit.run_id))
        # Tokens make a commit unique. Without one, two equal commands may come in one instant.
        unique = bool(commit.leases or commit.fences)
        if unique and 0 < commit.version <= book.version:
            other = book.applied[commit.version - 1]
            twin = replace(other.commit, commit_id=commit.commit_id) == commit
            holds(
                not (twin and other.door == door),
                "S4",
                f"{door} sent {commit.run_id} v{commit.version} under a second commit_id: what it "
                "did is done, and it is told that it isn't",
            )

    def claimed(self, door: str, request: ClaimRequest, claimed: Claimed) -> None:
        """Note what a claim returned: never early, never another tenant's."""
        self.guard(self._check_claim, door, request, claimed)

    def _check_claim(self, door: str, request: ClaimRequest, claimed: Claimed) -> None:
        for want, steps in zip(request.wants, claimed.ready, strict=True):
            holds(len(steps) <= want.limit, "CREDITS", len(steps), "steps for", want)
            for step in steps:
                holds(step.tenant_id == want.tenant_id, "T3", step, "for", want)
                book = self.book((step.tenant_id, step.run_id))
                self._not_early(book, step.execution_id, claimed.now_us)
        for due in claimed.due:
            book = self.book((due.tenant_id, due.run_id))
            if due.kind is DueKind.TIMER:
                until_us = book.timers.get(due.name, 0)
                holds(claimed.now_us >= until_us, "C2", "timer", due.name, "of", due.run_id)
            else:
                self.rare.scanned((due.tenant_id, due.run_id), due.name, door)
                self._not_early(book, due.name, claimed.now_us)

    def _not_early(self, book: Book, execution_id: str, now_us: int) -> None:
        deadline = book.deadlines.get(execution_id)
        early_us = deadline.from_us - now_us if deadline is not None else 0
        # One that has no deadline any more is over: then no claim may return it.
        fine = deadline is not None and early_us <= 0
        holds(fine, "C2", execution_id, "of", book.key[1], "comes", early_us, "us too early")

    def renewed(self, renewal: Renewal, taken: bool) -> None:
        """Note a heartbeat."""
        book = self.book((renewal.tenant_id, renewal.run_id))
        lease = book.leases.get(renewal.execution_id)
        execution = book.executions.get(renewal.execution_id)
        is_open = execution is not None and execution.status in OPEN
        live = is_open and lease is not None and lease.token == renewal.token
        self.guard(holds, live is taken, "S8", renewal, "was told", taken)
        if taken:
            book.renewed(renewal.execution_id, self._now_us(), renewal.lease_ms)

    # --- what leaves a replica ---

    def told(
        self,
        key: RunKey,
        invoked: int,
        delivery: Delivery | Begin | AppendMessages,
        reply: Reply,
        door: str,
    ) -> None:
        """Note what a worker is told of a delivery that reached a replica at entry `invoked`."""
        name = f"{delivery.execution_id} {reply.status}"
        self.history.note(f"{door} tells {key[1]} {name}")
        self.guard(self._check_told, key, invoked, delivery, reply)

    def _check_told(
        self, key: RunKey, invoked: int, delivery: Delivery | Begin | AppendMessages, reply: Reply
    ) -> None:
        book = self.book(key)
        execution = book.executions.get(delivery.execution_id)
        lease = book.leases.get(delivery.execution_id)
        own = lease is not None and lease.token == delivery.token
        closing = book.closed.get(delivery.execution_id)
        name = f"{key}: {delivery.execution_id}"
        if reply.status is ReplyStatus.LEASE_LOST:
            self.history.seen["stale result refused"] += 1
            # Once the outcome is unknown a step may be reported, and not begun again.
            status = execution.status if execution is not None else None
            begun = status is ExecutionStatus.UNKNOWN_OUTCOME and isinstance(delivery, Begin)
            # A run that failed takes no late outcome, until it goes on.
            failed = book.run is not None and (
                book.run.status is RunStatus.FAILED or book.run.allowance > 1
            )
            waits = status is ExecutionStatus.UNKNOWN_OUTCOME and failed
            lost = closing is not None or begun or waits or not own
            holds(lost, "S8", f"{name} was told that its lease is lost, and it isn't")
            return
        holds(own, "S8", f"{name} was accepted from someone who never had the lease")
        if isinstance(delivery, Begin | AppendMessages):
            return
        holds(closing is not None, "S3", f"{name} was acknowledged and isn't committed")
        assert closing is not None
        late = closing.order <= invoked
        if late and book.run is not None and book.run.status is RunStatus.CANCELLED:
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
    """A replica's door to the store, with the ledger looking on."""

    def __init__(self, inner: Store, ledger: Ledger, door: str) -> None:
        super().__init__(inner)
        self._ledger = ledger
        self._door = door

    async def commit(self, commits: Sequence[Commit]) -> Sequence[CommitResult]:
        results = await self.inner.commit(commits)
        for commit, result in zip(commits, results, strict=True):
            self._ledger.committed(self._door, commit, result)
        return results

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[bool]:
        taken = await self.inner.renew(renewals)
        for renewal, one in zip(renewals, taken, strict=True):
            self._ledger.renewed(renewal, one)
        return taken

    async def claim(self, request: ClaimRequest) -> Claimed:
        claimed = await self.inner.claim(request)
        self._ledger.claimed(self._door, request, claimed)
        return claimed
