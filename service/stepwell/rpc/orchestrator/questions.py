"""ListQuestions, AnswerQuestion, AnswerByToken: the questions of runs, and their answers."""

from __future__ import annotations

from stepwell.app import question_tokens
from stepwell.app.questions import give_answer
from stepwell.app.runs import read_run
from stepwell.core.loop.occurrences import Answer
from stepwell.core.port import FoundQuestion, QuestionQuery
from stepwell.core.records.states import NO_PERSON
from stepwell.rpc.allowance import Allowance
from stepwell.rpc.caller import caller, tenant
from stepwell.rpc.dependencies import Dependencies
from stepwell.rpc.orchestrator.commands import as_called, common_fields
from stepwell.rpc.orchestrator.pages import cursor_of, read_page, rows_of, size_of, token_of
from stepwell.rpc.orchestrator.presenter import RunPresenter
from stepwell.wire.records import fill, to_message, to_record
from stepwell_client.v1 import orchestrator_pb2 as pb


async def list_questions(
    deps: Dependencies, request: pb.ListQuestionsRequest
) -> pb.ListQuestionsResponse:
    """Return a page of a run's questions, or of the open ones of all runs."""
    tenant_id = tenant()
    cursor = cursor_of(tenant_id, request)
    if request.run_id:
        await read_run(deps.store, tenant(), request.run_id)

    query = QuestionQuery(tenant_id=tenant_id, run_id=request.run_id, cursor=cursor)

    async def show(one: FoundQuestion) -> pb.RunQuestion | None:
        if one.question.kind in NO_PERSON:
            return None
        message = pb.RunQuestion(run_id=one.run_id)
        fill(one.question, message.question)
        return message

    questions, after = await read_page(rows_of(deps.store, query), show, size_of(request))
    return pb.ListQuestionsResponse(
        questions=questions, next_page_token=token_of(tenant_id, request, after)
    )


async def answer_question(
    deps: Dependencies, presenter: RunPresenter, request: pb.AnswerQuestionRequest
) -> pb.AnswerQuestionResponse:
    """Answer a question, once."""
    run_id = request.run_id
    await read_run(deps.store, tenant(), run_id)
    command = Answer(
        question_id=request.question_id,
        payload=to_record(request.answer),
        answered_by=request.on_behalf_of or caller().subject,
        replan=request.replan,
        **common_fields(request, on_behalf_of=request.on_behalf_of),
    )
    command = as_called(command, request.request_id)
    answered = await give_answer(
        deps.executor, tenant(), run_id, command, validate_only=request.validate_only
    )
    return pb.AnswerQuestionResponse(
        run=await presenter.message(answered.run),
        question=to_message(answered.question),
        changed=answered.changed,
    )


async def answer_by_token(
    deps: Dependencies, allowance: Allowance, request: pb.AnswerByTokenRequest, peer: str
) -> pb.AnswerByTokenResponse:
    """Answer the question of a token. The caller is nobody that the server knows."""
    allowance.take(peer)
    answer = to_record(request.answer)
    changed = await question_tokens.answer_by_token(deps.executor, request.token, answer)
    return pb.AnswerByTokenResponse(changed=changed)
