"""Checkpoints of a run: listed without their bases, and found by version with them."""
# ruff: noqa: N802 - invariants keep their names

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.port import CheckpointQuery, Commit, Page, Store
from stepwell.core.records.checkpoints import Checkpoint
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory

QUERY = CheckpointQuery(tenant_id=b.TENANT, run_id=b.RUN)


class TestCheckpoints(Cases):
    """Checkpoints, with bases and without."""

    @promises("Commit.checkpoint", "The checkpoint of its version.")
    @promises("CheckpointQuery", "In the order of their versions.")
    async def test_S1_S3_checkpoints_are_listed_without_their_bases_in_order(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        commits = await _run_of(store, named=(1, 2, 4, 9, 10, 11), based=(4, 10))
        listed = tuple(_without_base(one) for one in commits if one.checkpoint is not None)
        for _ in range(2):
            assert (await store.page(QUERY)).items == listed
            for limit in (1, 2, 5, 6):
                found: list[Checkpoint] = []
                page = await store.page(replace(QUERY, limit=limit))
                while page.cursor:
                    assert len(page.items) == limit
                    found += page.items
                    page = await store.page(replace(QUERY, limit=limit, cursor=page.cursor))
                assert (*found, *page.items) == listed, limit
            store = await open_store.reopen(store)
        assert await store.page(replace(QUERY, run_id="other")) == Page()
        assert await store.page(replace(QUERY, tenant_id="other")) == Page()

    @promises("Commit.checkpoint", "None: the commit has no name.")
    @promises("Loaded.checkpoint", "None: the run has none.")
    async def test_run_of_nameless_commits_has_no_checkpoint(self, store: Store) -> None:
        await _run_of(store, named=(), based=())
        assert await store.page(QUERY) == Page()
        assert (await ask.loaded(store)).checkpoint is None
        assert (await ask.loaded(store, since=1)).checkpoint is None
        assert await store.read_base(b.TENANT, b.RUN, version=11) is None

    @promises("Loaded.checkpoint", "The newest one, without its base, also with `since`.")
    async def test_load_brings_the_newest_checkpoint_whatever_changed_since(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        commits = await _run_of(store, named=(1, 2, 4), based=(2, 4))
        for _ in range(2):
            for since in (0, 1, 4, 7, 11):
                rows = await ask.loaded(store, since=since)
                assert rows.checkpoint == _without_base(commits[3]), since
            store = await open_store.reopen(store)

    @promises(
        "read_base", "Return the last checkpoint up to this version that has a base, with its base"
    )
    @promises("read_base", "or None if there is none.")
    async def test_S3_base_is_the_last_one_up_to_the_version(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        commits = await _run_of(store, named=(1, 3, 4, 9, 10, 11), based=(3, 10))
        for _ in range(2):
            found = [await store.read_base(b.TENANT, b.RUN, version=at) for at in range(13)]
            early, late = commits[2].checkpoint, commits[9].checkpoint
            assert found == [*[None] * 3, *[early] * 7, *[late] * 3]
            store = await open_store.reopen(store)
        assert await store.read_base(b.TENANT, "other", version=11) is None
        assert await store.read_base("other", b.RUN, version=11) is None

    @promises("delete_run", "Remove a run with all that belongs to it")
    async def test_deleted_run_has_no_checkpoint(self, store: Store) -> None:
        await _run_of(store, named=(1, 4), based=(4,))
        assert await store.delete_run(b.TENANT, b.RUN, version=11)
        assert await store.page(QUERY) == Page()
        assert await store.read_base(b.TENANT, b.RUN, version=11) is None


async def _run_of(store: Store, *, named: tuple[int, ...], based: tuple[int, ...]) -> list[Commit]:
    """Make a run of 11 commits, some of them named, and return them."""
    commits: list[Commit] = []
    for version in range(1, 12):
        commit = b.step(commits[-1]) if commits else b.created()
        if version in named:
            base = b"\x00\xff%d" % version * 1_000 if version in based else b""
            commit = b.named(commit, base)
        commits.append(commit)
    # Also several commits of one run in one call.
    await ask.must(store, *commits[:3])
    for commit in commits[3:]:
        await ask.must(store, commit)
    return commits


def _without_base(commit: Commit) -> Checkpoint:
    assert commit.checkpoint is not None
    return replace(commit.checkpoint, base=b"")
