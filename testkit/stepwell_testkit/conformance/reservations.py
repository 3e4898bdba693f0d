"""Reservations of idempotency keys: each is compared and swapped atomically."""
# ruff: noqa: N802 - invariants keep their names

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from msgspec.structs import replace

from stepwell.core.port import NOBODY, KeySwap, Reservation, Store
from stepwell.core.records.states import TaskStatus, Verdict
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory
from stepwell_testkit.conformance.tenants import NAMES, TEXTS

FIRST, SECOND, THIRD = (Reservation(run_id=f"r{at}", commit_id=f"c{at}") for at in (1, 2, 3))


class TestReservations(Cases):
    """A key of a tenant and pipeline has one reservation, or none."""

    @promises("swap_keys", "Compare and swap the reservations of idempotency keys")
    @promises("swap_keys", "Where `before` stands (all its fields equal), `after` stands")
    @promises("Reservation.run_id", "Empty: nobody has reserved the key.")
    async def test_reservation_is_placed_taken_over_and_given_back(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        door = await open_store.join(store)
        for before, after in pairwise((NOBODY, FIRST, SECOND, NOBODY, THIRD)):
            assert await _swap(store, KeySwap(key="k", before=before, after=after)) == [after]
            assert await _stands(door, "k") == [after]

    @promises("swap_keys", "Anything else that stands is left.")
    async def test_swap_of_what_does_not_stand_changes_nothing(self, store: Store) -> None:
        await _swap(store, KeySwap(key="k", after=FIRST))
        others = (
            NOBODY,
            SECOND,
            replace(FIRST, commit_id=SECOND.commit_id),
            replace(FIRST, run_id=SECOND.run_id),
            replace(FIRST, commit_id=""),
        )
        for before in others:
            for after in (THIRD, NOBODY):
                assert await _swap(store, KeySwap(key="k", before=before, after=after)) == [FIRST]
        # Also of a free key.
        for after in (SECOND, NOBODY):
            assert await _swap(store, KeySwap(key="l", before=FIRST, after=after)) == [NOBODY]
        assert await _stands(store, "k", "l") == [FIRST, NOBODY]

    @promises("KeySwap", "With `before` and `after` both `NOBODY` it only looks.")
    async def test_look_at_a_key_leaves_it(self, store: Store) -> None:
        await _swap(store, KeySwap(key="k", after=FIRST))
        for _ in range(2):
            assert await _stands(store, "none", "k", "none", "k") == [NOBODY, FIRST] * 2
        # Also among swaps, and with one that changes a reservation into itself.
        mixed = [KeySwap(key="k"), KeySwap(key="l", after=SECOND), KeySwap(key="none")]
        assert await _swap(store, *mixed) == [FIRST, SECOND, NOBODY]
        assert await _swap(store, KeySwap(key="k", before=FIRST, after=FIRST)) == [FIRST]
        assert await _stands(store, "k", "l", "none") == [FIRST, SECOND, NOBODY]
        assert list(await store.swap_keys(b.TENANT, "", [])) == []

    @promises("swap_keys", "StoreUnavailable: each of them may or may not have been done")
    async def test_S4_swap_sent_again_is_not_done_again(self, store: Store) -> None:
        swaps = [KeySwap(key="k", after=FIRST), KeySwap(key="l", after=SECOND)]
        for _ in range(2):
            assert await _swap(store, *swaps) == [FIRST, SECOND]
        await _swap(store, KeySwap(key="k", before=FIRST, after=THIRD))
        assert await _swap(store, *swaps) == [THIRD, SECOND]

    @promises("swap_keys", "Each swap is atomic by itself, several are not")
    async def test_K1_of_many_who_reserve_a_key_at_once_one_gets_it(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        doors = [store, await open_store.join(store)]
        stood = NOBODY
        for turn in range(5):
            # First all find the key free, then all take over the stored reservation.
            wanted = [Reservation(run_id=f"r{at}", commit_id=f"c{turn}") for at in range(16)]
            swaps = [KeySwap(key="k", before=stood, after=one) for one in wanted]
            answers = await asyncio.gather(
                *[_swap(doors[at % 2], swap) for at, swap in enumerate(swaps)]
            )
            ((stood, many),) = Counter(answer for (answer,) in answers).items()
            assert (stood in wanted, many) == (True, len(wanted))
            assert await _stands(doors[turn % 2], "k") == [stood]

    @promises("swap_keys", "each key may lie in a partition of its own.")
    async def test_K1_swaps_of_the_same_keys_in_other_orders_all_get_an_answer(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        doors = [store, await open_store.join(store)]
        keys = [f"key {at}" for at in range(40)]
        for turn in range(4):
            stood = await _stands(store, *keys)
            asked: list[list[KeySwap]] = []
            for at in range(8):
                one = Reservation(run_id=f"r{at}", commit_id=f"c{turn}")
                # Every other turn releases it again.
                after = one if turn % 2 == 0 else NOBODY
                several = [
                    KeySwap(key=key, before=before, after=after)
                    for key, before in zip(keys, stood, strict=True)
                ]
                asked.append(several[at * 5 :] + several[: at * 5] if at % 2 else several[::-1])
            answers = await asyncio.gather(
                *[_swap(doors[at % 2], *several) for at, several in enumerate(asked)]
            )
            stands = dict(zip(keys, await _stands(store, *keys), strict=True))
            assert all(one.commit_id == f"c{turn}" for one in stands.values()) == (turn % 2 == 0)
            for several, answer in zip(asked, answers, strict=True):
                assert answer == [stands[swap.key] for swap in several]

    @promises("swap_keys", "What was returned is as durable as a commit.")
    @promises("Reservation.commit_id", "The run's commit on which it decided")
    async def test_S3_reservations_are_there_after_a_restart(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        await _swap(store, *[KeySwap(key=key, after=FIRST) for key in ("k", "l", "m")])
        await _swap(store, KeySwap(key="l", before=FIRST, after=SECOND))
        await _swap(store, KeySwap(key="m", before=FIRST))
        store = await open_store.reopen(store)
        assert await _stands(store, "k", "l", "m") == [FIRST, SECOND, NOBODY]

    @promises("swap_keys", "Each key of a tenant and pipeline has one reservation, or `NOBODY`.")
    async def test_T1_key_is_of_its_tenant_and_pipeline_alone(self, store: Store) -> None:
        places = [(tenant, pipeline) for tenant in ("a", "b") for pipeline in ("", "p", "q")]
        for tenant, pipeline in places:
            mine = Reservation(run_id=f"{tenant}{pipeline}", commit_id="c")
            swap = KeySwap(key="k", after=mine)
            assert await _swap(store, swap, tenant=tenant, pipeline=pipeline) == [mine]
        for tenant, pipeline in places:
            (found,) = await _stands(store, "k", tenant=tenant, pipeline=pipeline)
            assert found.run_id == f"{tenant}{pipeline}"
        assert await _stands(store, "k", tenant="a", pipeline="x") == [NOBODY]
        assert await _stands(store, "k", tenant="c") == [NOBODY]

    @promises("Names", "Ids, keys and all other texts hold any characters but NUL")
    async def test_T4_hostile_keys_and_ids_are_kept_apart(self, store: Store) -> None:
        texts = [*TEXTS.values(), "", "acme", "e\u0301 "]
        for pipeline in ("", *NAMES.values()):
            reserved = [Reservation(run_id=pipeline or "r", commit_id=text) for text in texts]
            swaps = [KeySwap(key=key, after=one) for key, one in zip(texts, reserved, strict=True)]
            assert await _swap(store, *swaps, pipeline=pipeline) == reserved
            assert await _stands(store, *texts, pipeline=pipeline) == reserved
        # Pairs that are equal when joined.
        pairs = [("a:b", "c"), ("a", "b:c"), ("a", "b\x1fc"), ("a", "b\x01c")]
        for at, (pipeline, key) in enumerate(pairs):
            mine = Reservation(run_id=str(at), commit_id="c")
            assert await _swap(store, KeySwap(key=key, after=mine), pipeline=pipeline) == [mine]
        standing = Reservation(run_id="a:b", commit_id="c")
        await _swap(store, KeySwap(key="same text", after=standing))
        other = Reservation(run_id="a", commit_id="b:c")
        assert await _swap(store, KeySwap(key="same text", before=other)) == [standing]

    @promises("swap_keys", "Compare and swap the reservations of idempotency keys")
    async def test_many_keys_are_swapped_at_once(self, store: Store) -> None:
        keys = [f"key {at}" for at in range(600)]
        assert await _swap(store, *[KeySwap(key=key, after=FIRST) for key in keys]) == [FIRST] * 600
        every_other = [KeySwap(key=key, before=FIRST, after=SECOND) for key in keys[::2]]
        assert await _swap(store, *every_other) == [SECOND] * 300
        assert await _stands(store, *reversed(keys)) == [FIRST, SECOND] * 300

    @promises("delete_run", "Of the keys that its tasks held (`Task.held_key`), `NOBODY` stands")
    @promises("delete_run", "under each that it still has reserved when this returns")
    @promises("Reservation", "It stays while a task of that run holds the key")
    async def test_deleted_run_leaves_its_keys_to_nobody(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        spec = replace(b.created().run.spec, pipeline_id="p")
        reserved = Reservation(run_id=b.RUN, commit_id="any")
        theirs = Reservation(run_id="other", commit_id="any")
        keys = ["done", "again", "given back", "taken over", "\x01}{ é"]
        swaps = [KeySwap(key=key, after=reserved) for key in keys]
        await _swap(store, *swaps, pipeline="p")
        tasks = [replace(b.task(key), held_key=key) for key in keys]
        first = await ask.must(store, b.created(spec=spec, tasks=tasks))
        settled = [
            replace(tasks[0], status=TaskStatus.COMPLETED),
            replace(tasks[1], status=TaskStatus.READY, held_key=""),
        ]
        await ask.must(store, b.step(first, tasks=settled))
        await _swap(store, KeySwap(key="given back", before=reserved), pipeline="p")
        taken = KeySwap(key="taken over", before=reserved, after=theirs)
        await _swap(store, taken, KeySwap(key="another's", after=theirs), pipeline="p")
        # In other pipelines and tenants, under the same names.
        await _swap(store, KeySwap(key="done", after=theirs))
        await _swap(store, KeySwap(key="done", after=reserved), tenant="b", pipeline="p")
        assert not await store.delete_run(b.TENANT, b.RUN, version=1)
        before = [reserved, reserved, NOBODY, theirs, reserved]
        assert await _stands(store, *keys, pipeline="p") == before

        assert await store.delete_run(b.TENANT, b.RUN, version=2)

        for _ in range(2):
            left = [NOBODY, NOBODY, NOBODY, theirs, NOBODY, theirs]
            assert await _stands(store, *keys, "another's", pipeline="p") == left
            assert await _stands(store, "done") == [theirs]
            assert await _stands(store, "done", tenant="b", pipeline="p") == [reserved]
            store = await open_store.reopen(store)

    @promises(
        "Reservation", "What a reservation means at any other time, the loop finds from its run."
    )
    async def test_reservation_asks_for_no_run(self, store: Store) -> None:
        assert await store.get_run(b.TENANT, FIRST.run_id) is None
        assert await _swap(store, KeySwap(key="k", after=FIRST)) == [FIRST]
        # Neither applied nor refused commits change the reservations.
        first = await ask.must(store, b.created(FIRST.run_id, commit_id=FIRST.commit_id))
        assert await ask.verdicts(store, b.step(first, version=3)) == [Verdict.CONFLICT]
        await ask.must(store, b.step(first, tasks=[replace(b.task("a"), held_key="l")]))
        assert await _stands(store, "k", "l") == [FIRST, NOBODY]


async def _swap(
    store: Store, *swaps: KeySwap, tenant: str = b.TENANT, pipeline: str = ""
) -> list[Reservation]:
    return list(await store.swap_keys(tenant, pipeline, swaps))


async def _stands(
    store: Store, *keys: str, tenant: str = b.TENANT, pipeline: str = ""
) -> Sequence[Reservation]:
    swaps = [KeySwap(key=key) for key in keys]
    return await _swap(store, *swaps, tenant=tenant, pipeline=pipeline)
