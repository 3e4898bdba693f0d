"""ListJournal over the wire: pages that go on later, of a task or of a journal."""

from __future__ import annotations

from functools import partial

from tests.service.conftest import Client, bearer, refusal
from tests.service.test_journal import entry, write


async def test_listing_follows_by_its_token(client: Client) -> None:
    run = await client.start_tasks("a", "b", queue="q", max_parallel=2)
    ask = partial(client.ask, "ListJournal", run_id=run.spec.run_id, metadata=bearer("reader"))
    async with client.worker(queues=["q"]) as worker:
        got = [await worker.assignment() for _ in range(2)]
        for one in got:
            await write(client, one, entry("k", took={"seconds": 2}, name="fetch"))
        page = await ask(task_id="a")
        (found,) = page.entries
        assert (found.entry.name, found.entry.took.seconds, found.size) == ("fetch", 2, 3)
        assert (found.journal, found.generation, found.execution_id) == ("task:a@1", 1, "task:a#1")
        assert (found.entry.value.data, page.next_page_token) == (b"", "")
        assert not (await ask(task_id="a", page_token=page.resume_token)).entries
        assert (await ask(task_id="a", journal="task:a@1")).entries == page.entries
        first = next(one for one in got if one.execution.task_id == "a")
        await write(client, first, entry("later"))
        later = await ask(task_id="a", page_token=page.resume_token)
        assert [one.entry.key for one in later.entries] == ["later"]
    assert (await refusal(ask(task_id="none"))).reason == "TASK_NOT_FOUND"
    assert (await refusal(ask(task_id="a", journal="task:b@1"))).fields == ["journal"]
