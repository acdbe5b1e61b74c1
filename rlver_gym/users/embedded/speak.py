"""Speak: the person's answer. What is wrong is put right, what was asked or guessed is answered, else
a reaction by the true reason comes first; then what comes next in the story. Never the same sentence
twice.
"""

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from rlver_gym.core.dialogue import Appraisal, Dialogue, Reason, ReasonCode
from rlver_gym.core.emotion import Band, Outcome
from rlver_gym.core.persona import Disposition
from rlver_gym.core.user import Scene, disclosure_depth
from rlver_gym.core.words import split_sentences, split_words
from rlver_gym.users.embedded.compile import compile_card
from rlver_gym.users.embedded.english import DATA, FEELING_OF, weigh
from rlver_gym.users.embedded.hear import Sentence, asks_preference, hear
from rlver_gym.users.embedded.recall import hash_sentences, recall
from rlver_gym.users.embedded.retrieve import (
    Query,
    find_answers,
    find_suggestion,
    is_of_sort,
    lay_out,
    make_query,
    read_line,
    score_topics,
    was_said,
)
from rlver_gym.users.embedded.rules import find_wrong
from rlver_gym.users.embedded.wording import add_introductions, apply_typing_style
from rlver_gym.util.files import load_json

PHRASES: dict = load_json(DATA, "phrases.json")
_REACTIONS: dict = load_json(DATA, "reactions.json")
"""By the note of a reason, or by its code, a field of `rlver_gym.core.persona.Manner`."""
_SILENT = frozenset((ReasonCode.WHOLE, ReasonCode.ROUNDING, ReasonCode.LIMIT, ReasonCode.SCALE_END))
_ALONE = frozenset(("hurt", "belittled", "puzzled", "repeated", "machine", "foreign"))
"""Reactions after which nothing is told."""
_COURTESIES = {"greet": "greets", "thanks": "thanked", "sorry": "apologised", "bye": "farewell"}
_PLEASANT = frozenset("proud relieved hopeful".split())
"""Feelings that somebody with a trouble rather denies."""
_FACTUAL = frozenset(
    "who when where|how long|how many|how old|how much|how often|what time".replace(" ", "|").split(
        "|"
    )
)
_AND = re.compile(
    r",? and (?=(?:who|what|when|where|why|how|did|do|does|is|are|was|were|have|has|can)\b)"
)
"""Between two questions in one sentence."""
_TRADE = re.compile(r"\bwhat (?:do )?you do(?=\W*$)", re.IGNORECASE)
_WHEN = frozenset(("when", "how long"))
_FEEL = frozenset("are were be been feel felt feeling sound seem look left makes made".split())
_DENIED = frozenset("not no never if them him she he they my me".split())
"""What a guess at their feelings has, and has not."""
_STRANGE = 150
"""Hundredths of a nat from where a question is about what no card holds."""
_REACTS, _HINTS, _MOST_HINTS, _SHORT = 0.35, 0.25, 3, 8
"""The share of faint changes that are reacted to, and of turns with a hint; words of a short answer."""
_BY_PLACE, _BY_CHANCE, _NEAR = 0.35, 1.0, 2.6
"""What each place further down the card's order costs, how far chance moves, and from where on
something lies near to what was said; in logits.
"""


def compose_opening(scene: Scene, emotion: int) -> str:
    said = scene.persona.situation.openings.in_tone(Band.of(emotion).tone)
    return apply_typing_style(scene.persona, add_introductions(scene.persona.situation, said))


def choose_thought(
    scene: Scene, dialogue: Dialogue, reasons: tuple[Reason, ...], change: int
) -> str:
    """What the person thinks and does not say; empty when they have thought all that they have."""
    kind = "touched" if change >= 4 else "eased" if change > 0 else "missed"
    if change <= 0:
        codes = {reason.code for reason in reasons if reason.points < 0}
        if change <= -7:
            kind = "hurt"
        elif codes & {ReasonCode.NONSENSE, ReasonCode.BROKEN, ReasonCode.SILENCE}:
            kind = "puzzled"
        elif change > -3:
            kind = "cold"
    had = {turn.appraisal.thought for turn in dialogue.turns}
    others = ("eased", "touched") if change > 0 else ("missed", "cold", "puzzled")
    for each in (kind, *others):
        fresh = [line for line in getattr(scene.persona.person.thoughts, each) if line not in had]
        if fresh:
            return fresh[int(_Chance(scene, dialogue, "thought").draw() * len(fresh))]
    return ""


class _Chance:
    """Numbers in [0, 1) for a turn, the same on every machine."""

    def __init__(self, scene: Scene, dialogue: Dialogue, purpose: str) -> None:
        said = (dialogue.utterance or "")[:200]
        key = f"{scene.seed}/{scene.persona.id}/{len(dialogue.turns)}/{purpose}/{said}"
        self.bytes, self.at = hashlib.blake2b(key.encode()).digest(), 0

    def draw(self) -> float:
        self.at = (self.at + 4) % 64
        return int.from_bytes(self.bytes[self.at : self.at + 4], "big") / 2**32


def compose_reply(scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> str:
    return _Speaker(scene, emotion, dialogue, appraisal).reply()


class _Speaker:
    """One person about to answer."""

    def __init__(
        self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal
    ) -> None:
        self.scene, self.emotion, self.dialogue = scene, emotion, dialogue
        self.appraisal, self.change = appraisal, appraisal.change
        self.moment = recall(compile_card(scene.persona), dialogue)
        self.card, self.heard = self.moment.card, self.moment.heard
        self.person, self.manner = scene.persona.person, scene.persona.person.manner
        self.turn = len(dialogue.turns)
        self.tone = Band.of(emotion).tone
        self.depth = disclosure_depth(emotion, appraisal.change, self.turn)
        self.draw = _Chance(scene, dialogue, "reply").draw
        self.before = "\n".join(dialogue.user_lines).lower()

    def reply(self) -> str:
        outcome = self.scene.card.outcome(self.emotion, self.turn + 1)
        if outcome is Outcome.CONTENT or outcome is Outcome.LEFT:
            is_content = outcome is Outcome.CONTENT
            return self._join(self._react("goodbye_content" if is_content else "goodbye_left"))
        for act, manner in (("silence", "silence"), ("foreign", "foreign"), ("shouts", "shouted")):
            if act in self.heard.acts:
                return self._join(self._react(manner))
        return self._join(
            self._correct()
            or self._answer()
            or self._greet()
            or [*self._react_by_reason(), *self._go_on()]
        )

    # Reactions.

    def _greet(self) -> list[str]:
        """To a greeting, thanks, an apology or a goodbye and not much else."""
        if len(self.heard.words) <= 14:
            for sentence in self.heard.sentences:
                if sentence.act in _COURTESIES:
                    is_end = sentence.act == "bye" or self.emotion < 20
                    more = [] if is_end else self._go_on()
                    return [*self._react(_COURTESIES[sentence.act]), *more]
        return []

    def _react(self, manner: str) -> list[str]:
        """A line of a kind that was not said yet, or of the kind that stands for it."""
        for kind in (manner, _REACTIONS["stands_for"].get(manner, "")):
            fresh = self._fresh_stock(getattr(self.manner, kind)) if kind else []
            if fresh:
                return [self._pick(fresh)]
        return []

    def _find_manner(self) -> str:
        """The manner that answers the strongest reason that points where the change does."""
        told = [
            reason
            for reason in self.appraisal.reasons
            if (
                reason.code not in _SILENT
                and reason.points * self.change > 0
                and not reason.code.startswith("temper:")
            )
            or reason.code.startswith("prior:")
        ]
        if not told or not self.change:
            return ""
        worst = max(told, key=lambda reason: abs(reason.points))
        manner = _REACTIONS.get(worst.note) or _REACTIONS.get(worst.code, "")
        if manner != "suggested":
            return manner
        suggests = any(one.suggests or one.act == "advise" for one in self.heard.sentences)
        return ("pushed" if self.change <= -3 else "suggested") if suggests else "cold"

    def _react_by_reason(self) -> list[str]:
        for at, sentence in enumerate(self.heard.sentences):
            if sentence.suggests or sentence.act == "advise":
                topic = find_suggestion(self.moment, make_query(self.moment, self.heard, at))
                fresh = self._fresh(self.card.topics[topic].lines) if topic is not None else []
                if fresh:
                    self.is_done = True
                    return fresh[:1]
        manner = self._find_manner()
        if not manner or (abs(self.change) < 2 and self.draw() > _REACTS):
            return []
        said = self._react(manner)
        self.is_done = manner in _ALONE and bool(said)
        return said

    is_done = False

    # Answers.

    def _correct(self) -> list[str]:
        wrong = find_wrong(self.moment)
        if wrong is None:
            return []
        lines = PHRASES["right_name" if wrong.name == "name" else "right_value"]
        right = [line.format(right=wrong.right, said=wrong.said) for line in lines]
        fresh = self._fresh([line[:1].upper() + line[1:] for line in right])
        openers = self._fresh_stock(self.manner.corrects or PHRASES["correct_first"])
        return [*openers[:1], self._pick(fresh)] if fresh else []

    def _answer(self) -> list[str]:
        """Answers to questions and guesses, at most two, in their order."""
        parts: list[str] = []
        asked = None
        for at, sentence in enumerate(self.heard.sentences):
            feeling = _find_guess(sentence)
            if not sentence.ask and not feeling:
                continue
            queries = self._make_queries(at) if sentence.ask else []
            answers = [self._answer_guess(feeling, sentence)] if feeling else []
            if not any(answers):
                answers = [self._answer_question(query, sentence) for query in queries]
            parts += [answer for answer in answers if answer and answer not in parts]
            if queries:
                asked = sentence, queries[-1]
        if not parts:
            return self._decline(*asked) if asked else []
        parts = parts[-2:]
        if len(split_words(" ".join(parts))) <= _SHORT and self.draw() < _HINTS:
            parts += self._hint()
        return parts

    def _make_queries(self, at: int) -> list[Query]:
        """What a sentence asks: two things where two questions are joined."""
        text = self.heard.sentences[at].text
        clauses = _AND.split(_TRADE.sub("what do you do for work", text))
        if clauses == [text]:
            return [make_query(self.moment, self.heard, at)]
        each = [hear(f"{clause.rstrip('?')}?", self.card.names) for clause in clauses[:2]]
        return [make_query(self.moment, clause, 0) for clause in each if clause.sentences]

    def _answer_guess(self, feeling: str, sentence: Sentence) -> str:
        """Whether they have a feeling: in words of the card, or yes or no."""
        topic = self.card.by_key.get(("feeling", feeling, ""))
        fresh = self._fresh(self.card.topics[topic].lines) if topic is not None else []
        if fresh:
            return fresh[0]
        kinds = ("unconfirmed", "no") if feeling in _PLEASANT else ("confirmed", "heard", "yes")
        said = next(filter(None, map(self._react, kinds)), [])
        return " ".join([*said, *self._tell(-1e9)])

    def _answer_question(self, query: Query, sentence: Sentence) -> str:
        if asks_preference(sentence.text):
            is_veiled = self.person.disposition is Disposition.AVOIDANT
            lines = PHRASES["preference_veiled" if is_veiled else "preference"]
            fresh = self._fresh_stock(lines[self.scene.persona.need])
            return self._pick(fresh) if fresh else ""
        named = self._answer_name_or_age(query)
        if named:
            return named
        if query.ask in _WHEN:
            since = self._answer_when(query.tokens)
            if since:
                return since
        topics = find_answers(self.moment, query)
        for number in topics:
            topic = self.card.topics[number]
            if topic.depth > self.depth + 1 and self.emotion < 30:
                continue
            fresh = self._fresh(self._list_wordings(number, query))
            if fresh:
                return fresh[0]
        again = self._fresh_stock(self.manner.asked_again or PHRASES["again"])
        if not topics or not again:
            return ""
        line = split_sentences(self._list_wordings(topics[0], query)[0])[0]
        keeps = line.startswith(("I ", "I'")) or line.split()[0].lower() in self.card.names
        return f"{again[0]} {line if keeps else line[:1].lower() + line[1:]}"

    def _answer_name_or_age(self, query: Query) -> str:
        words = frozenset(query.words)
        if not words.isdisjoint(("name", "called")) and not words.isdisjoint(("what", "your")):
            for other in self.scene.persona.situation.people if query.whom else ():
                if other.name == query.whom:
                    said = other.introduction or other.name
                    return f"{said[:1].upper()}{said[1:]}."
            if {"your", "name"} <= words and query.words[-1] == "name":
                return PHRASES["name"][0].format(name=self.person.name)
        if {"old", "you"} <= words or {"your", "age"} <= words:
            return PHRASES["age"][0].format(age=self.person.age)
        return ""

    def _answer_when(self, tokens: frozenset[int]) -> str:
        """When it was that the person spoke of last, for a question that names nothing else."""
        last = self.moment.past.last
        for event in self.scene.persona.situation.timeline if not tokens - last.tokens else ():
            if not read_line(event.what).sentences.isdisjoint(hash_sentences(last)):
                return f"That was {event.when[:1].lower()}{event.when[1:]}."
        return ""

    def _decline(self, sentence: Sentence, query: Query) -> list[str]:
        """Nothing on the card answers it: what lies near is told, and once it is said that they do
        not know.
        """
        strange = query.tokens - self.card.vocabulary
        if " or " in sentence.text:
            lines = PHRASES["which"]
        elif weigh(strange) < _STRANGE:
            return self._go_on()
        else:
            lines = self.manner.unknown if sentence.ask in _FACTUAL else self.manner.not_yet
        fresh = self._fresh_stock(lines)
        return [self._pick(fresh)] if fresh and len(fresh) == len(lines) else self._go_on()

    # What comes next.

    def _go_on(self) -> list[str]:
        if self.is_done:
            return []
        if self.draw() < _HINTS:
            hint = self._hint()
            if hint:
                return hint
        return self._tell(-1e9) or self._hint()

    def _hint(self) -> list[str]:
        hints = self.scene.persona.situation.hints.of(self.scene.persona.need)
        fresh = self._fresh(hints)
        if not fresh or len(hints) - len(fresh) >= _MOST_HINTS:
            return []
        return [self._pick(fresh)]

    def _tell(self, least: float) -> list[str]:
        """The untold piece of the story that lies nearest to what was said, else the next one."""
        card, places = self.card, lay_out(self.card).told
        query = make_query(self.moment, self.heard, -1)
        near = score_topics(card, query)[places]
        is_thread = np.array([card.topics[at].kind == "thread" for at in places])
        if least < 0:
            order = np.cumsum(~is_thread)
            near -= _BY_PLACE * order + np.where(is_thread & (near < _NEAR), 1e9, 0.0)
            if not self.scene.persona.situation.is_lean:
                near += _BY_CHANCE * ((self.draw() + 0.618 * np.arange(len(near))) % 1)
        for at in np.argsort(-near, kind="stable").tolist():
            number = int(places[at])
            if near[at] < max(least, -1e8):
                break
            if card.topics[number].depth <= self.depth:
                fresh = self._fresh(self._list_wordings(number))
                if fresh and (is_thread[at] or not was_said(self.moment, card.topics[number].lines[0])):
                    return fresh[:1]
        return []

    # Lines.

    def _list_wordings(self, number: int, query: Query | None = None) -> list[str]:
        """What can be said of a topic, the best first: of lines that say different things, the one
        that is most like the question; of wordings, the one of their mood.
        """
        topic = self.card.topics[number]
        lines = list(topic.lines)
        if query is not None and len(lines) > 1 and topic.kind not in ("fact", "disclosure"):
            start = int(self.card.line_starts[number])
            like = self.card.lines[start : start + len(lines)] @ query.vector
            lines = [lines[at] for at in np.argsort(-like, kind="stable").tolist()]
        toned = {"high": topic.toned[0], "low": topic.toned[1]}.get(self.tone)
        lines = [toned, *lines] if toned else lines
        if query is not None and query.ask in _WHEN:
            lines.sort(key=lambda line: not is_of_sort(self.moment, line, "time"))
        return lines

    def _fresh(self, lines: Sequence[str]) -> list[str]:
        return [line for line in lines if not was_said(self.moment, line)]

    def _fresh_stock(self, lines: Sequence[str]) -> list[str]:
        """Of lines that fit any story, however short, those that were not said."""
        return [line for line in lines if line.lower().rstrip(".") not in self.before]

    def _pick(self, lines: Sequence[str]) -> str:
        return lines[int(self.draw() * len(lines))]

    def _join(self, parts: Sequence[str]) -> str:
        """The parts as one text, names introduced, without a sentence that was said before."""
        fresh: list[str] = []
        for part in parts:
            if len(read_line(part).sentences) > 1 or part in fresh:
                part = " ".join(
                    sentence
                    for sentence in split_sentences(part)
                    if sentence not in fresh and not was_said(self.moment, sentence)
                )
            if part:
                fresh.append(part)
        if not fresh:
            last = self._fresh_stock(PHRASES["last"])
            fresh = [self._pick(last)] if last else ["…"]
        text = add_introductions(self.scene.persona.situation, " ".join(fresh), self.moment)
        return apply_typing_style(self.scene.persona, text)


def _find_guess(sentence: Sentence) -> str:
    """The feeling that a sentence says or asks whether they have; empty for none."""
    words = sentence.words
    is_guess = sentence.ask in ("", "yes") or words[0] in _FEEL
    if not is_guess or "you" not in words or not _DENIED.isdisjoint(words):
        return ""
    at = words.index("you")
    near = words[max(0, at - 1) : at + 8]
    if _FEEL.isdisjoint(near):
        return ""
    return next(filter(None, map(FEELING_OF.get, near)), "")
