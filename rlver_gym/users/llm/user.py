"""The LLM user: SAGE's two steps, appraise and then speak, on any chat server.

It keeps no state, and knows of the server only that it can be asked.
"""

import asyncio
import hashlib
from collections.abc import Callable
from typing import TypeVar

from rlver_gym.core.answer import explain, mend_surrogates, read_answer
from rlver_gym.core.dialogue import Appraisal, Dialogue, Reply, clean_utterance
from rlver_gym.core.emotion import Band
from rlver_gym.core.persona import HiddenNeed
from rlver_gym.core.user import Scene
from rlver_gym.io.errors import STOPPING, ChatError, UserFailed
from rlver_gym.io.event_loop import wait_for
from rlver_gym.llm_client.values import Chat, ChatAnswer, ChatRequest
from rlver_gym.users.llm.feel import Judgement, aggregate_judgements, parse_judgement
from rlver_gym.users.llm.hostile import PATTERNS, find_judge_address, strip_invisible
from rlver_gym.users.llm.leak import leaks, remove_leaks
from rlver_gym.users.llm.options import LLMOptions
from rlver_gym.users.llm.parse import Claims, Unreadable, ids_in, read_claims, text_in
from rlver_gym.users.llm.profile import select_tellable
from rlver_gym.users.llm.prompts import prompts_hash
from rlver_gym.users.llm.requests import RequestBuilder

T = TypeVar("T")
_ReplyParser = Callable[[Claims], Reply]

_CODE = "3"
"""Counts up whenever the code, not the prompts, would appraise or speak otherwise."""
_MAX_REPLY = 2_000
_MAX_SHOWN = 200
"""How much of an answer that cannot be used is kept in the record."""


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
        """See `aopen`. Waits."""
        return wait_for(self.aopen(scene, emotion))

    def appraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        """See `aappraise`. Waits."""
        return wait_for(self.aappraise(scene, emotion, dialogue))

    def speak(self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> Reply:
        """See `aspeak`. Waits."""
        return wait_for(self.aspeak(scene, emotion, dialogue, appraisal))

    async def aopen(self, scene: Scene, emotion: int) -> str:
        """The opening of the card as this person would say it; with `opening="card"` its own words,
        where it has any in the language spoken.
        """
        card = scene.persona.situation.openings.in_tone(Band.of(emotion).tone)
        builder = self._make_builder(scene)
        if card and self.options.opening == "card" and builder.language == scene.persona.language:
            return card
        return (await self._request_reply(builder, builder.open(emotion), (), ())).text

    async def aappraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        """What the utterance does, by as many judgements as the options say.

        Raises UserFailed, or the ChatErrors that stop a run.
        """
        builder = self._make_builder(scene)
        samples = range(self.options.samples)
        ids = select_tellable(scene, emotion, dialogue).ids if self.options.calls == 1 else ()
        asked = (
            self._request_judgement(
                builder, builder.appraise(emotion, dialogue, sample), ids, _utterances(dialogue)
            )
            for sample in samples
        )
        judgements = await asyncio.gather(*asked)
        before = dialogue.earlier_utterances[-1] if dialogue.turns else ""
        return aggregate_judgements(
            judgements, emotion, find_judge_address(dialogue.utterance or "", before)
        )

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
        request = builder.speak(emotion, dialogue, appraisal)
        return await self._request_reply(builder, request, ids, _utterances(dialogue))

    def _make_builder(self, scene: Scene) -> RequestBuilder:
        return RequestBuilder(self.model, self.options, scene)

    async def _request_judgement(
        self,
        builder: RequestBuilder,
        request: ChatRequest,
        ids: tuple[str, ...],
        utterances: tuple[str, ...],
    ) -> Judgement:
        both = self.options.calls == 1
        return await self._request_and_parse(
            builder,
            request,
            ids,
            utterances,
            lambda claims, reply_in: parse_judgement(claims, reply_in(claims) if both else None),
        )

    async def _request_reply(
        self,
        builder: RequestBuilder,
        request: ChatRequest,
        ids: tuple[str, ...],
        utterances: tuple[str, ...],
    ) -> Reply:
        return await self._request_and_parse(
            builder, request, ids, utterances, lambda claims, reply_in: reply_in(claims)
        )

    async def _request_and_parse(
        self,
        builder: RequestBuilder,
        request: ChatRequest,
        ids: tuple[str, ...],
        utterances: tuple[str, ...],
        read: Callable[[Claims, _ReplyParser], T],
    ) -> T:
        """What the model answers, read. One that cannot be used, or did not end by itself, is asked
        for once more; of the second, what must not be said is cut out.

        `ids` are those of the disclosures and facts that the request offers: the reply can tell no
        others.
        """
        need = builder.scene.persona.need
        raw = await self._complete(request)
        try:
            return read(
                _read(raw, utterances),
                lambda claims: _reply(claims, ids, need, text_in(claims, "reply")),
            )
        except Unreadable as problem:
            code = problem.code
        raw = await self._complete(builder.repair(request, raw.text, code))
        try:
            return read(
                _read(raw, utterances),
                lambda claims: _reply(
                    claims, ids, need, remove_leaks(text_in(claims, "reply"), need)
                ),
            )
        except Unreadable as problem:
            raise UserFailed(
                f"{request.model} gave no usable answer, asked twice ({problem})."
                f" {_remedy(problem.code, request.max_tokens)}",
                mend_surrogates(raw.text)[:_MAX_SHOWN],
            ) from None

    async def _complete(self, request: ChatRequest) -> ChatAnswer:
        try:
            return await self._chat.complete(request)
        except STOPPING:
            raise
        except ChatError as error:
            raise UserFailed(str(error)) from error


def _utterances(dialogue: Dialogue) -> tuple[str, ...]:
    """All that the agent said, which an answer may quote."""
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
        return f"Of the last one, {explain('thoughts_cut', f'max_tokens (now {max_tokens})')}."
    if code == "unfinished":
        return f"Raise max_tokens (now {max_tokens}), or limit each field: max_field_chars=400."
    return "Try structured=False, or a larger model."


def _reply(claims: Claims, ids: tuple[str, ...], need: HiddenNeed, text: str) -> Reply:
    """The text as it may be said, with those of the ids that it tells.

    Raises Unreadable when there is none, or it names what is never said.
    """
    said = clean_utterance(strip_invisible(text), _MAX_REPLY, "truncate").strip()
    if not said:
        raise Unreadable("no_reply")
    if leaks(said, need):
        raise Unreadable("names_need")
    return Reply(said, ids_in(claims, "told", ids))


def _version(options: LLMOptions) -> str:
    patterns = "\0".join(f"{one.meaning}\0{one.found.pattern}" for one in PATTERNS)
    content = "\0".join((prompts_hash(), patterns, options.model_dump_json()))
    return f"{_CODE}+{hashlib.sha256(content.encode()).hexdigest()[:12]}"
