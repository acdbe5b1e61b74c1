"""The LLM user: SAGE's two steps, appraise and then speak, on any chat server.

It keeps no state, and knows of the server only that it can be asked.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from string import ascii_uppercase
from typing import Any

from rlver_gym.answers.fields import Claims
from rlver_gym.core.dialogue import Appraisal, Dialogue, Reply
from rlver_gym.core.emotion import Band, apply_change
from rlver_gym.core.user import Moment, Scene
from rlver_gym.llm_client.body_fields import BodyFields
from rlver_gym.llm_client.values import Chat
from rlver_gym.users.embedded_user import EmbeddedUser
from rlver_gym.users.llm.ask import Question, ask, ask_for_many
from rlver_gym.users.llm.hostile import PATTERNS, find_judge_address
from rlver_gym.users.llm.judgements import Judgement, aggregate_judgements, parse_judgement
from rlver_gym.users.llm.options import LLMOptions
from rlver_gym.users.llm.profile import select_tellable
from rlver_gym.users.llm.prompts import prompts_hash
from rlver_gym.users.llm.requests import RequestBuilder
from rlver_gym.util.errors import UserFailed
from rlver_gym.util.event_loop import gather_all, wait_for
from rlver_gym.util.groups import group

_CODE = "4"
"""Counts up whenever the code, not the prompts, would appraise or speak otherwise."""


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
        self._speaker = EmbeddedUser() if self.options.speaker == "embedded" else None
        self.version = _version(self.options, self._speaker)
        self._chat = chat

    def with_options(self, **changes: Any) -> "LLMUser":
        """Another user of the same model and server, with these options changed."""
        options = self.options.model_dump() | changes
        return LLMUser(self._chat, self.model, LLMOptions(**options))

    def open(self, scene: Scene, emotion: int) -> str:
        return wait_for(self.aopen(scene, emotion))

    def appraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        return wait_for(self.aappraise(scene, emotion, dialogue))

    def speak(self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> Reply:
        return wait_for(self.aspeak(scene, emotion, dialogue, appraisal))

    def appraise_many(self, moments: Sequence[Moment]) -> list[Appraisal]:
        return wait_for(self.aappraise_many(moments))

    async def aopen(self, scene: Scene, emotion: int) -> str:
        """The opening of the card as this person would say it; with `opening="card"` its own words,
        where it has any in the language spoken, and with `speaker="embedded"` that user's.

        Raises UserFailed, also for somebody whose words the embedded user does not have, or the
        ChatErrors that stop a run.
        """
        if self._speaker is not None:
            _check_embedded_can_speak(scene)
            return self._speaker.open(scene, emotion)
        card = scene.persona.situation.openings.in_tone(Band.of(emotion).tone)
        builder = self._make_builder(scene)
        if card and self.options.opening == "card" and builder.language == scene.persona.language:
            return card
        question = Question(builder, builder.build("open", emotion))
        return (await ask(self._chat, question, lambda claims, reply: reply())).text

    async def aappraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        """What the utterance does, by as many judgements as the options say. One that speaks to the
        judge is the worst there is, and nobody is asked about it.

        Raises UserFailed, or the ChatErrors that stop a run.
        """
        if addressed := _find_address(dialogue):
            return aggregate_judgements((), emotion, addressed)
        builder, is_both = self._make_builder(scene), self.options.calls == 1
        ids = select_tellable(scene, emotion, dialogue).ids if is_both else ()

        def parse(claims: Claims, reply: Callable[[], Reply]) -> Judgement:
            return parse_judgement(claims, reply() if is_both else None)

        requests = (
            builder.build("both" if is_both else "appraise", emotion, dialogue, sample=sample)
            for sample in range(self.options.samples)
        )
        questions = (Question(builder, x, ids, _utterances(dialogue)) for x in requests)
        judgements = await gather_all(ask(self._chat, x, parse) for x in questions)
        return aggregate_judgements([judgements], emotion)

    async def aappraise_many(self, moments: Sequence[Moment]) -> list[Appraisal]:
        """What was said at each of the moments, in their order. Replies to one moment are judged
        side by side in one request (two with `orders=2`), all moments at the same time.

        Raises what `aappraise` raises.
        """
        places = group((_place_of(moment), number) for number, moment in enumerate(moments))
        judged = await gather_all(
            self._appraise_replies([moments[x] for x in numbers]) for numbers in places.values()
        )
        by_number = dict(zip(chain(*places.values()), chain(*judged), strict=True))
        return [by_number[number] for number in range(len(moments))]

    async def _appraise_replies(self, moments: Sequence[Moment]) -> list[Appraisal]:
        """Replies to one moment; those that speak to the judge are shown to nobody, equal ones are
        judged once.
        """
        addressed = [_find_address(moment.dialogue) for moment in moments]
        shown = {
            moment.dialogue.utterance or "": moment
            for moment, address in zip(moments, addressed, strict=True)
            if address is None
        }
        if len(shown) == 1:
            appraisals = {text: await self.aappraise(*moment) for text, moment in shown.items()}
            return [
                appraisals.get(moment.dialogue.utterance or "")
                or aggregate_judgements((), moment.emotion, address)
                for moment, address in zip(moments, addressed, strict=True)
            ]
        scene, _, dialogue = moments[0]
        judged = await self.judge_replies(scene, dialogue, list(shown))
        return [
            aggregate_judgements(
                judged.get(moment.dialogue.utterance or "", ()), moment.emotion, address
            )
            for moment, address in zip(moments, addressed, strict=True)
        ]

    async def judge_replies(
        self, scene: Scene, dialogue: Dialogue, texts: list[str]
    ) -> dict[str, list[list[Judgement]]]:
        """The judgements of each text, by order and then by sample. The first order is that of
        hashes, so that nothing follows from who spoke first, and the second is its reverse.
        """
        builder, earlier = self._make_builder(scene), dialogue.earlier_utterances
        texts.sort(key=lambda text: hashlib.sha256(text.encode()).digest())
        # more than there are letters: in several requests
        parts = [
            texts[at : at + _MAX_SIDE_BY_SIDE] for at in range(0, len(texts), _MAX_SIDE_BY_SIDE)
        ]
        orders = [
            part[:: -1 if order else 1] for part in parts for order in range(self.options.orders)
        ]
        asked = []
        for texts_in_order in orders:
            replies = dict(zip(ascii_uppercase, texts_in_order, strict=False))
            for sample in range(self.options.samples):
                request = builder.build_side_by_side(dialogue, replies, sample)
                question = Question(builder, request, (), (*earlier, *replies.values()))
                asked.append(ask_for_many(self._chat, question, list(replies)))
        answers = iter(await gather_all(asked))
        judged: dict[str, list[list[Judgement]]] = {text: [] for text in texts}
        for texts_in_order in orders:
            samples = [next(answers) for _ in range(self.options.samples)]
            for letter, text in zip(ascii_uppercase, texts_in_order, strict=False):
                judged[text].append([by_letter[letter] for by_letter in samples])
        return judged

    async def aappraise_dialogue(self, scene: Scene, dialogue: Dialogue) -> list[Appraisal]:
        """What every utterance of a recorded dialogue did, in one request (a sample): each at its
        place, from an emotion that begins at the card's start, and begins anew after an end.

        Raises what `aappraise` raises.
        """
        said = ("", *dialogue.earlier_utterances)
        addressed = [find_judge_address(words, before) for before, words in pairwise(said)]
        builder, samples = self._make_builder(scene), self.options.samples
        shown = [number for number, address in enumerate(addressed, 1) if address is None]
        answers: list[dict[str, Judgement]] = []
        if shown:
            requests = (builder.build_whole(dialogue, shown, sample) for sample in range(samples))
            questions = (Question(builder, x, (), _utterances(dialogue)) for x in requests)
            keys = list(map(str, shown))
            answers = await gather_all(ask_for_many(self._chat, x, keys) for x in questions)
        appraisals, emotion = [], scene.card.start
        for number, address in enumerate(addressed, 1):
            judged = [] if address else [[by_number[str(number)] for by_number in answers]]
            appraisals.append(aggregate_judgements(judged, emotion, address))
            emotion = apply_change(emotion, appraisals[-1].change)
            emotion = scene.card.start if scene.card.is_end(emotion) else emotion
        return appraisals

    async def aspeak(
        self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal
    ) -> Reply:
        """What the person says, which never names the hidden need, and what of the card it tells.
        The embedded user speaks with the change that it is given, for reasons that it hears itself.

        Raises UserFailed, or the ChatErrors that stop a run.
        """
        if self._speaker is not None:
            heard = self._speaker.appraise(scene, emotion, dialogue)
            felt = appraisal._replace(reasons=heard.reasons)
            return Reply(self._speaker.speak(scene, emotion, dialogue, felt))
        if appraisal.draft is not None:
            return appraisal.draft
        builder = self._make_builder(scene)
        ids = select_tellable(scene, emotion, dialogue, appraisal).ids
        request = builder.build("speak", emotion, dialogue, appraisal)
        question = Question(builder, request, ids, _utterances(dialogue))
        return await ask(self._chat, question, lambda claims, reply: reply())

    def _make_builder(self, scene: Scene) -> RequestBuilder:
        return RequestBuilder(self.model, self.options, scene)


_MAX_SIDE_BY_SIDE = len(ascii_uppercase)


def _place_of(moment: Moment) -> tuple[object, ...]:
    """What moments share at which different things were said."""
    scene, _, dialogue = moment
    return (scene.persona.hash, scene.card.hash, scene.seed, replace(dialogue, utterance=None))


def _find_address(dialogue: Dialogue) -> str | None:
    """How the last words speak to the judge; None when they do not."""
    before = dialogue.earlier_utterances[-1] if dialogue.turns else ""
    return find_judge_address(dialogue.utterance or "", before)


def _utterances(dialogue: Dialogue) -> tuple[str, ...]:
    return (*dialogue.earlier_utterances, dialogue.utterance or "")


def _check_embedded_can_speak(scene: Scene) -> None:
    persona = scene.persona
    if persona.language != "en" or not persona.situation.disclosures:
        raise UserFailed(
            f"the embedded user has no words for {persona.id}, who speaks {persona.language!r} and"
            f" has {len(persona.situation.disclosures)} lines. Leave speaker=embedded out."
        )


def _version(options: LLMOptions, speaker: EmbeddedUser | None) -> str:
    patterns = "\0".join(f"{one.meaning}\0{one.found.pattern}" for one in PATTERNS)
    unsent = {name for name in BodyFields.model_fields if getattr(options, name) is None}
    told = (prompts_hash(), patterns, options.model_dump_json(exclude=unsent | {"speaker"}))
    content = "\0".join(told if speaker is None else (*told, speaker.version))
    return f"{_CODE}+{hashlib.sha256(content.encode()).hexdigest()[:12]}"
