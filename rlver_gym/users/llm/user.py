"""The LLM user: SAGE's two steps, appraise and then speak, on any chat server.

It keeps no state, and knows of the server only that it can be asked.
"""

import asyncio
import hashlib
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

from rlver_gym.core.answer import explain_missing_words, mend_surrogates, read_answer
from rlver_gym.core.dialogue import Appraisal, Dialogue, Reply, clean_utterance
from rlver_gym.core.emotion import Band
from rlver_gym.core.persona import HiddenNeed
from rlver_gym.core.user import Scene
from rlver_gym.llm_client.body_fields import THINKING_SWITCH, BodyFields
from rlver_gym.llm_client.values import Chat, ChatAnswer, ChatRequest
from rlver_gym.users.llm.hostile import PATTERNS, find_judge_address
from rlver_gym.users.llm.judgements import Judgement, aggregate_judgements, parse_judgement
from rlver_gym.users.llm.leak import leaks, remove_leaks
from rlver_gym.users.llm.options import LLMOptions
from rlver_gym.users.llm.parse import Claims, Unreadable, ids_in, read_claims, text_in
from rlver_gym.users.llm.profile import select_tellable
from rlver_gym.users.llm.prompts import prompts_hash
from rlver_gym.users.llm.requests import RequestBuilder
from rlver_gym.util.errors import STOPPING, ChatError, UserFailed
from rlver_gym.util.event_loop import wait_for
from rlver_gym.util.lookalikes import strip_invisible

T = TypeVar("T")
_CODE = "3"
"""Counts up whenever the code, not the prompts, would appraise or speak otherwise."""
_MAX_REPLY = 2_000
_MAX_SHOWN = 200
"""How much of an answer that cannot be used is kept in the record."""


class _Asked(NamedTuple):
    """A request, with what its answer may tell of the card and what it may quote."""

    builder: RequestBuilder
    request: ChatRequest
    ids: tuple[str, ...] = ()
    """Of the disclosures and facts that it offers: the reply can tell no others."""
    utterances: tuple[str, ...] = ()
    """All that the agent said."""


class LLMUser:
    """A sentient user whose feelings and words come from a language model (SAGE, arXiv:2505.02847).

    Each turn it asks what the agent's words do to the person, then what the person says. Changes
    are bounded by code, an answer that cannot be used is asked for once more, and a second one ends
    the dialogue as failed. Natively asynchronous: many dialogues at once share one server.
    """

    def __init__(self, chat: Chat, model: str, options: LLMOptions | None = None) -> None:
        """`chat` answers requests: `rlver_gym.llm_client.connect.connect()` for a server,
        `rlver_gym.testing.ScriptedChat` in tests.
        """
        self.model = model
        self.options = options or LLMOptions()
        self.kind = f"openai:{model}"
        self.version = _version(self.options)
        self._chat = chat

    def open(self, scene: Scene, emotion: int) -> str:
        return wait_for(self.aopen(scene, emotion))

    def appraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        return wait_for(self.aappraise(scene, emotion, dialogue))

    def speak(self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> Reply:
        return wait_for(self.aspeak(scene, emotion, dialogue, appraisal))

    async def aopen(self, scene: Scene, emotion: int) -> str:
        """The opening of the card as this person would say it; with `opening="card"` its own words,
        where it has any in the language spoken.
        """
        card = scene.persona.situation.openings.in_tone(Band.of(emotion).tone)
        builder = self._make_builder(scene)
        if card and self.options.opening == "card" and builder.language == scene.persona.language:
            return card
        asked = _Asked(builder, builder.build("open", emotion))
        return (await self._complete(asked, lambda claims, reply: reply())).text

    async def aappraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        """What the utterance does, by as many judgements as the options say.

        Raises UserFailed, or the ChatErrors that stop a run.
        """
        builder, is_both = self._make_builder(scene), self.options.calls == 1
        ids = select_tellable(scene, emotion, dialogue).ids if is_both else ()

        def parse(claims: Claims, reply: Callable[[], Reply]) -> Judgement:
            return parse_judgement(claims, reply() if is_both else None)

        requests = (
            builder.build("both" if is_both else "appraise", emotion, dialogue, sample=sample)
            for sample in range(self.options.samples)
        )
        asked = (_Asked(builder, request, ids, _utterances(dialogue)) for request in requests)
        judgements = await asyncio.gather(*(self._complete(one, parse) for one in asked))
        before = dialogue.earlier_utterances[-1] if dialogue.turns else ""
        addressed = find_judge_address(dialogue.utterance or "", before)
        return aggregate_judgements(judgements, emotion, addressed)

    async def aspeak(
        self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal
    ) -> Reply:
        """What the person says, which never names the hidden need, and what of the card it tells.

        Raises UserFailed, or the ChatErrors that stop a run.
        """
        if appraisal.draft is not None:
            return appraisal.draft
        builder = self._make_builder(scene)
        ids = select_tellable(scene, emotion, dialogue, appraisal).ids
        request = builder.build("speak", emotion, dialogue, appraisal)
        asked = _Asked(builder, request, ids, _utterances(dialogue))
        return await self._complete(asked, lambda claims, reply: reply())

    def _make_builder(self, scene: Scene) -> RequestBuilder:
        return RequestBuilder(self.model, self.options, scene)

    async def _complete(
        self, asked: _Asked, parse: Callable[[Claims, Callable[[], Reply]], T]
    ) -> T:
        """What the model answers, parsed. One that cannot be used, or did not end by itself, is
        asked for once more; of the second, what must not be said is cut out.
        """
        request, text, code = asked.request, "", ""
        need = asked.builder.scene.persona.need
        for may_cut in (False, True):
            try:
                answer = await self._chat.complete(request)
            except STOPPING:
                raise
            except ChatError as error:
                raise UserFailed(str(error)) from error
            try:
                claims = _read(answer, asked.utterances)
                return parse(claims, partial(_reply, claims, asked.ids, need, may_cut))
            except Unreadable as problem:
                text, code = answer.text, problem.code
            request = asked.builder.repair(asked.request, text, code)
        raise UserFailed(
            f"{request.model} gave no usable answer, asked twice ({code.replace('_', ' ')})."
            f" {_remedy(code, request.max_tokens)}",
            mend_surrogates(text)[:_MAX_SHOWN],
        )


def _utterances(dialogue: Dialogue) -> tuple[str, ...]:
    return (*dialogue.earlier_utterances, dialogue.utterance or "")


def _read(answer: ChatAnswer, utterances: tuple[str, ...]) -> Claims:
    """What an answer claims. Raises Unreadable for one that is not finished, too: half a number is
    another number.
    """
    found = read_answer(answer.text, answer.finish_reason)
    if found.silence in ("thoughts", "thoughts_cut"):
        raise Unreadable("thoughts")
    if found.ending != "finished":
        raise Unreadable("unfinished")
    return read_claims(answer.text, utterances)


def _remedy(code: str, max_tokens: int | None) -> str:
    if code == "thoughts":
        why = explain_missing_words(
            "thoughts_cut", f"max_tokens (now {max_tokens})", THINKING_SWITCH
        )
        return f"Of the last one, {why}."
    if code == "unfinished":
        return f"Raise max_tokens (now {max_tokens}), or limit each field: max_field_chars=400."
    return "Try structured=False, or a larger model."


def _reply(claims: Claims, ids: tuple[str, ...], need: HiddenNeed, may_cut: bool) -> Reply:
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


def _version(options: LLMOptions) -> str:
    patterns = "\0".join(f"{one.meaning}\0{one.found.pattern}" for one in PATTERNS)
    unsent = {name for name in BodyFields.model_fields if getattr(options, name) is None}
    content = "\0".join((prompts_hash(), patterns, options.model_dump_json(exclude=unsent)))
    return f"{_CODE}+{hashlib.sha256(content.encode()).hexdigest()[:12]}"
