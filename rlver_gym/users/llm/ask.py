"""From a request to what can be used of its answer: asked for once more where nothing can.

Knows no dialogue and no emotion.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from rlver_gym.answers.fields import Claims, Unreadable
from rlver_gym.answers.reading import explain_missing_words, mend_surrogates, read_answer
from rlver_gym.core.dialogue import Reply, clean_utterance
from rlver_gym.core.persona import HiddenNeed
from rlver_gym.llm_client.body_fields import THINKING_SWITCH
from rlver_gym.llm_client.values import Chat, ChatAnswer, ChatRequest
from rlver_gym.users.llm.judgements import Judgement, parse_judgement
from rlver_gym.users.llm.leak import leaks, remove_leaks
from rlver_gym.users.llm.options import LLMOptions
from rlver_gym.users.llm.parse import ids_in, read_claims, read_keyed_claims, text_in
from rlver_gym.users.llm.requests import RequestBuilder
from rlver_gym.util.errors import STOPPING, ChatError, UserFailed
from rlver_gym.util.lookalikes import strip_invisible

T = TypeVar("T")
_MAX_REPLY = 2_000
_MAX_SHOWN = 200
"""How much of an answer that cannot be used is kept in the record."""


class Question(NamedTuple):
    """A request, with what its answer may tell of the card and what it may quote."""

    builder: RequestBuilder
    request: ChatRequest
    ids: tuple[str, ...] = ()
    """Of the disclosures and facts that it offers: the reply can tell no others."""
    utterances: tuple[str, ...] = ()
    """All that the agent said."""


async def ask(
    chat: Chat, question: Question, parse: Callable[[Claims, Callable[[], Reply]], T]
) -> T:
    """What the model answers, parsed. One that cannot be used, or did not end by itself, is asked
    for once more; of the second, what must not be said is cut out. Raises UserFailed after it.
    """
    request, text, code = question.request, "", ""
    need = question.builder.scene.persona.need
    for may_cut in (False, True):
        answer = await _complete(chat, request)
        try:
            _check_finished(answer)
            claims = read_claims(answer.text, question.utterances)
            return parse(claims, partial(_read_reply, claims, question.ids, need, may_cut))
        except Unreadable as problem:
            text, code = answer.text, problem.code
        request = question.builder.repair(question.request, text, code)
    raise _make_failure(question, text, code)


async def ask_for_many(chat: Chat, question: Question, keys: Sequence[str]) -> dict[str, Judgement]:
    """A judgement for each of the keys. What the first answer holds nothing usable for is asked for
    once more, by itself; no number is ever made up. Raises UserFailed when one is still missing.
    """
    request, text, code = question.request, "", ""
    judged: dict[str, Judgement] = {}
    for _ in range(2):
        answer = await _complete(chat, request)
        missing = [key for key in keys if key not in judged]
        text, code = answer.text, "incomplete"
        try:
            _check_finished(answer)
            claims = read_keyed_claims(answer.text, missing, question.utterances)
        except Unreadable as problem:
            claims, code = {}, problem.code
        for key, claimed in claims.items():
            try:
                judged[key] = parse_judgement(claimed)
            except Unreadable as problem:
                code = problem.code
        missing = [key for key in keys if key not in judged]
        if not missing:
            return judged
        request = question.builder.repair_some(question.request, text, missing)
    raise _make_failure(question, text, code)


async def _complete(chat: Chat, request: ChatRequest) -> ChatAnswer:
    try:
        return await chat.complete(request)
    except STOPPING:
        raise
    except ChatError as error:
        raise UserFailed(str(error)) from error


def _check_finished(answer: ChatAnswer) -> None:
    """Raises Unreadable for an answer that is not finished: half a number is another number."""
    content = read_answer(answer.text, answer.finish_reason)
    if content.silence in ("thoughts", "thoughts_cut"):
        raise Unreadable("thoughts")
    if content.ending != "finished":
        raise Unreadable("unfinished")


def _make_failure(question: Question, text: str, code: str) -> UserFailed:
    remedy = _remedy(code, question.builder.options)
    return UserFailed(
        f"{question.request.model} gave no usable answer, asked twice ({code.replace('_', ' ')})."
        f" {remedy}",
        mend_surrogates(text)[:_MAX_SHOWN],
    )


def _remedy(code: str, options: LLMOptions) -> str:
    limit = f"max_tokens (now {options.max_tokens})"
    if code == "thoughts":
        why = explain_missing_words("thoughts_cut", limit, THINKING_SWITCH)
        return f"Of the last one, {why}."
    if code == "unfinished":
        return f"Raise {limit}, or limit each field: max_field_chars=400."
    return f"Try {'structured=False, or ' if options.structured else ''}a larger model."


def _read_reply(claims: Claims, ids: tuple[str, ...], need: HiddenNeed, may_cut: bool) -> Reply:
    """The text as it may be said, with those of the ids that it tells. `may_cut`: without the
    sentences that name what is never said.

    Raises Unreadable when there is none, or it names what is never said.
    """
    text = text_in(claims, "reply")
    text = strip_invisible(remove_leaks(text, need) if may_cut else text)
    said = clean_utterance(text, _MAX_REPLY, "truncate").strip()
    if not said:
        raise Unreadable("no_reply")
    if leaks(said, need):
        raise Unreadable("names_need")
    return Reply(said, ids_in(claims, "told", ids))
