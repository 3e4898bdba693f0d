"""Questions: of a run by page and by id, and the open questions of all runs."""
# ruff: noqa: N802 - invariants keep their names

from __future__ import annotations

from msgspec.structs import replace

from stepwell.core.port import Commit, FoundQuestion, Page, QuestionQuery, Store
from stepwell.core.records.model import Question
from stepwell.core.records.states import QuestionStatus
from stepwell_testkit.conformance import ask
from stepwell_testkit.conformance import builders as b
from stepwell_testkit.conformance.catalog import promises
from stepwell_testkit.conformance.harness import Cases, StoreFactory
from stepwell_testkit.conformance.tenants import NAMES, TEXTS

ALL = QuestionQuery(tenant_id=b.TENANT)
OF_RUN = QuestionQuery(tenant_id=b.TENANT, run_id=b.RUN)


class TestQuestions(Cases):
    """Questions."""

    @promises("QuestionQuery", "Oldest first")
    @promises("QuestionQuery.run_id", "Only this run's, in every status.")
    @promises("Page.cursor", "For the next page; empty: this was the last.")
    async def test_a_run_s_questions_come_oldest_first_in_every_status(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        commit = await ask.must(store, b.created())
        names = [f"q{(at * 7) % 10}" for at in range(10)]
        asked: dict[str, Question] = {}
        for at, name in enumerate(names):
            status = list(QuestionStatus)[at % len(QuestionStatus)]
            asked[name] = await _question(store, open_store, name, status)
            commit = await ask.must(store, b.step(commit, questions=[asked[name]]))
        for limit in (1, 3, 10, 11):
            found = await _all(store, replace(OF_RUN, limit=limit))
            assert found == [FoundQuestion(run_id=b.RUN, question=asked[name]) for name in names]

    @promises("QuestionQuery.run_id", "Empty: those of all the tenant's runs that are OPEN.")
    @promises("QuestionQuery", "Oldest first")
    async def test_the_open_ones_of_all_runs_come_oldest_first(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        heads = {name: await ask.must(store, b.created(name)) for name in ("r2", "r1", "r3")}
        expected: list[tuple[str, str]] = []
        for at in range(12):
            run_id = list(heads)[at % 3]
            status = QuestionStatus.OPEN if at % 4 else QuestionStatus.ANSWERED
            request = await _question(store, open_store, f"q{-at}", status)
            heads[run_id] = await ask.must(store, b.step(heads[run_id], questions=[request]))
            if at % 4:
                expected.append((run_id, f"q{-at}"))
        for limit in (1, 4, 9, 100):
            found = await _all(store, replace(ALL, limit=limit))
            assert [(one.run_id, one.question.question_id) for one in found] == expected, limit

    @promises("QuestionQuery", "over its pages each that was there all along comes once.")
    async def test_questions_made_and_ended_between_pages_disturb_no_other(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        commit = await ask.must(store, b.created())
        asked: list[Question] = []
        for at in range(9):
            asked.append(await _question(store, open_store, f"old-{at}"))
            commit = await ask.must(store, b.step(commit, questions=[asked[-1]]))
        query = replace(ALL, limit=2)
        found: list[str] = []
        victims = [asked[1], asked[3], asked[8]]
        while True:
            page = await store.page(query)
            assert len(page.items) <= 2
            found += [one.question.question_id for one in page.items]
            if not page.cursor:
                break
            query = replace(query, cursor=page.cursor)
            fresh = await _question(store, open_store, f"new-{len(found)}")
            ended = [replace(victims.pop(0), status=QuestionStatus.EXPIRED)] if victims else []
            commit = await ask.must(store, b.step(commit, questions=[*ended, fresh]))
        stayed = ["old-0", "old-2", "old-4", "old-5", "old-6", "old-7"]
        assert [name for name in found if name in stayed] == stayed
        assert len(set(found)) == len(found)

    @promises("read_questions", "in their order; others are left out.")
    async def test_questions_are_read_in_the_order_of_their_ids(self, store: Store) -> None:
        first = await ask.must(store, b.created())
        asked = [b.question(f"q{at}", status) for at, status in enumerate(QuestionStatus)]
        await ask.must(store, b.step(first, questions=asked))
        found = await store.read_questions(b.TENANT, b.RUN, ["q3", "unknown", "q0", "q2"])
        assert list(found) == [asked[3], asked[0], asked[2]]
        assert list(await store.read_questions(b.TENANT, b.RUN, [])) == []
        assert list(await store.read_questions(b.TENANT, "missing", ["q0"])) == []
        assert await store.page(replace(OF_RUN, run_id="missing")) == Page()

    @promises("QuestionQuery", "Oldest first")
    async def test_T1_questions_show_their_tenant_alone(self, store: Store) -> None:
        for tenant in ("a", "b"):
            request = replace(b.question("q"), prompt=tenant)
            await ask.must(store, b.created(tenant=tenant, questions=[request]))
        for tenant in ("a", "b"):
            for run_id in ("", b.RUN):
                found = await store.page(QuestionQuery(tenant_id=tenant, run_id=run_id))
                assert [one.question.prompt for one in found.items] == [tenant]
            (request,) = await store.read_questions(tenant, b.RUN, ["q"])
            assert request.prompt == tenant
        assert await store.page(QuestionQuery(tenant_id="c")) == Page()
        assert await store.page(QuestionQuery(tenant_id="c", run_id=b.RUN)) == Page()

    @promises("QuestionQuery", "Oldest first")
    async def test_question_requests_of_a_deleted_run_are_gone(self, store: Store) -> None:
        for name in ("r1", "r2"):
            await ask.must(store, b.created(name, questions=[b.question("q")]))
        assert await store.delete_run(b.TENANT, "r1", version=1)
        assert [one.run_id for one in await _all(store, ALL)] == ["r2"]
        assert await _all(store, replace(OF_RUN, run_id="r1")) == []
        assert list(await store.read_questions(b.TENANT, "r1", ["q"])) == []

    @promises("Names", "by names that match `NAME_PATTERN`, of at most 128 characters.")
    async def test_T4_questions_of_hostile_names_are_their_own_run_s(
        self, store: Store, open_store: StoreFactory
    ) -> None:
        commits: list[Commit] = []
        for at, name in enumerate(NAMES.values()):
            request = await _question(store, open_store, list(TEXTS.values())[at])
            commits.append(b.created(name, tenant="a:", questions=[request]))
            await ask.must(store, commits[-1])
        query = QuestionQuery(tenant_id="a:", limit=4)
        found = await _all(store, query)
        assert [(one.run_id, one.question.question_id) for one in found] == [
            (commit.run_id, commit.questions[0].question_id) for commit in commits
        ]
        for commit in commits:
            assert await _all(store, replace(query, run_id=commit.run_id)) == [
                FoundQuestion(run_id=commit.run_id, question=commit.questions[0])
            ]
            asked = await store.read_questions("a:", commit.run_id, [*TEXTS.values(), "q"])
            assert tuple(asked) == commit.questions


async def _question(
    store: Store,
    factory: StoreFactory,
    question_id: str,
    status: QuestionStatus = QuestionStatus.OPEN,
) -> Question:
    """Return a question that is made a moment after the previous one."""
    await factory.advance(10)
    return b.question(question_id, status, created_us=await ask.now_us(store))


async def _all(store: Store, query: QuestionQuery) -> list[FoundQuestion]:
    found: list[FoundQuestion] = []
    while True:
        page = await store.page(query)
        assert len(page.items) <= query.limit
        found += page.items
        if not page.cursor:
            return found
        query = replace(query, cursor=page.cursor)
