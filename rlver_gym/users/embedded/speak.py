"""Speak: correct, answer, or react by the true reason and go on. Nothing is said twice."""

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from rlver_gym.core.dialogue import Appraisal, Dialogue, Reason
from rlver_gym.core.emotion import Band, Outcome
from rlver_gym.core.persona import Disposition
from rlver_gym.core.user import Scene, disclosure_depth
from rlver_gym.core.words import fold_sentences, split_sentences, split_words
from rlver_gym.users.embedded import retrieve
from rlver_gym.users.embedded.compile import TITLES
from rlver_gym.users.embedded.english import DATA, FEELING_OF, weigh_rare
from rlver_gym.users.embedded.hear import PREFERS, Heard, Sentence, hear
from rlver_gym.users.embedded.recall import Moment
from rlver_gym.users.embedded.rules import CALENDAR, find_wrong
from rlver_gym.users.embedded.wording import add_introductions, apply_typing_style
from rlver_gym.util.files import load_json

PHRASES: dict = load_json(DATA, "phrases.json")
_REACTIONS: dict = load_json(DATA, "reactions.json")
# by the note of a reason, or by its code, a field of `rlver_gym.core.persona.Manner`
_REASONS: dict[str, str] = _REACTIONS["reasons"]
_RULES, _ALONE, _ALWAYS, _FACTUAL, _PLEASANT, _FEEL, _DENIED = (
    frozenset(_REACTIONS[name].split(","))
    for name in ("rules", "alone", "always", "factual", "pleasant", "feel", "denied")
)
_AND, _TRADE, _OWN_NAME, _NAMES, _MEANS, _SPAN = (
    re.compile(_REACTIONS[name], re.IGNORECASE)
    for name in ("and", "trade", "own name", "names", "means", "span")
)
_WHEN, _AGE = ("when", "how long"), ("fact", "my-age", "")
_REACTS, _HINTS, _MOST_HINTS = 0.35, 0.25, 3  # shares of faint changes and of turns; most hints
_STRANGE, _BRIEF = 45, 14  # hundredths of a nat; words of a text to which politeness is all
_BY_PLACE, _BY_CHANCE, _NEAR = 0.35, 1.0, 3.5  # logits: of a later place, of chance, of a thread


def choose_thought(scene: Scene, dialogue: Dialogue, reasons: Sequence[Reason]) -> str:
    """What the person thinks and does not say; empty when they have thought all that they have."""
    change = sum([reason.points for reason in reasons])
    kinds = ["touched", "eased"] if change >= 4 else ["eased", "touched"]
    if change <= 0:
        is_puzzled = any(_REASONS.get(reason.code) == "puzzled" for reason in reasons)
        bad = "hurt" if change <= -7 else "missed" if change <= -3 else "cold"
        kinds = [*["puzzled"] * is_puzzled, bad, "missed", "cold"]
    had = {turn.appraisal.thought for turn in dialogue.turns}
    for kind in kinds:
        fresh = [line for line in getattr(scene.persona.person.thoughts, kind) if line not in had]
        if fresh:
            return fresh[int(_draw(scene, dialogue, "thought") * len(fresh))]
    return ""


def _draw(scene: Scene, dialogue: Dialogue, purpose: str) -> float:
    """A number in [0, 1), the same on every machine."""
    said = (dialogue.utterance or "")[:200]
    key = f"{scene.seed}/{scene.persona.id}/{len(dialogue.turns)}/{purpose}/{said}"
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big") / 2**64


class Speaker:
    """One person about to answer."""

    def __init__(
        self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal, moment: Moment
    ) -> None:
        self.scene, self.emotion, self.dialogue = scene, emotion, dialogue
        self.reasons, self.change = appraisal.reasons, appraisal.change
        self.moment, self.card, self.heard = moment, moment.card, moment.heard
        self.person, self.manner = scene.persona.person, scene.persona.person.manner
        self.depth = disclosure_depth(emotion, appraisal.change, len(dialogue.turns))
        self.before = "".join(map(fold_sentences, dialogue.user_lines))
        self.draw, self.is_done = partial(_draw, scene, dialogue), False

    def reply(self) -> str:
        outcome = self.scene.card.outcome(self.emotion, len(self.dialogue.turns) + 1)
        if outcome in (Outcome.CONTENT, Outcome.LEFT):
            return self._join(self._react(f"goodbye_{outcome}"))
        for act, manner in _REACTIONS["acts"].items():
            if act in self.heard.acts:
                return self._join(self._react(manner))
        return self._join(self._correct() or self._answer() or [*self._comment(), *self._go_on()])

    def _react(self, manner: str) -> list[str]:
        """A line of a kind that was not said yet, or of the kind that stands for it."""
        for kind in (manner, _REACTIONS["stands_for"].get(manner)):
            if kind and (fresh := self._fresh_stock(getattr(self.manner, kind))):
                return [self._pick(fresh)]
        return []

    def _comment(self) -> list[str]:
        """To what was suggested or done, else by the reason of the change."""
        for at, sentence in enumerate(self.heard.sentences):
            if sentence.suggests or sentence.act == "advise":
                topics = retrieve.find_answers(self.moment, self.heard, at, suggests=True)
                lines = [line for number in topics for line in self.card.topics[number].lines]
                if fresh := next(self._fresh(lines), None):
                    self.is_done = True
                    return [fresh]
        true = [r for r in self.reasons if r.points * self.change > 0 and r.code in _REASONS]
        worst = max(true, key=lambda reason: abs(reason.points), default=None)
        manners = [_REACTIONS["said"].get(sentence.act, "") for sentence in self.heard.sentences]
        is_brief = len(self.heard.words) <= _BRIEF
        manner = next((one for one in manners if one and (is_brief or one not in _ALWAYS)), "")
        is_polite = manner in _ALWAYS
        if worst and not is_polite and (not manner or worst.code in _RULES):
            manner = _REASONS.get(worst.note) or _REASONS[worst.code]
        elif self.change <= -5 and not is_polite:
            manner = "pushed" if manner == "suggested" else "cold"
        if abs(self.change) < 2 and not is_polite and self.draw("react") > _REACTS:
            return []
        self.is_done = manner in _ALONE or (is_polite and self.emotion < 20)
        return self._react(manner)

    def _correct(self) -> list[str]:
        is_wrong = any(reason.code == "fact" for reason in self.reasons)
        wrong = find_wrong(self.moment) if is_wrong else None
        if wrong is None:
            return []
        openers = self._fresh_stock(self.manner.corrects or PHRASES["correct_first"])
        right = PHRASES["right"].format(right=wrong.right, said=wrong.said)
        return [*openers[:1], *self._fresh_stock([right])]

    def _answer(self) -> list[str]:
        """Answers to questions and guesses, at most two, in their order."""
        parts, asked = [], None
        for at, sentence in enumerate(self.heard.sentences):
            feeling = _find_guess(sentence)
            answers = [self._answer_guess(feeling)] if feeling else []
            is_lost = _MEANS.search(" ".join(sentence.words[:8]))
            if (is_lost or (sentence.ask and sentence.act != "more")) and not any(answers):
                asked = sentence
                queries = [(self.moment.last, -1)] if is_lost else self._split(at)
                answers = [self._answer_question(x, n) for x, n in queries if x.sentences]
            parts += answers
        parts = list(dict.fromkeys(filter(None, parts)))
        return parts[-2:] or (self._decline(asked) if asked else [])

    def _split(self, at: int) -> list[tuple[Heard, int]]:
        """The questions of a sentence: two where it joins two; "Do you?" asks what stood before."""
        sentence = self.heard.sentences[at]
        clauses = _AND.split(sentence.text)[:2]
        is_double = len(clauses) > 1 and not PREFERS.search(sentence.text)
        if is_double or _TRADE.search(sentence.text):
            asked = [_TRADE.sub("What do you do for work?", clause) for clause in clauses]
            each = [hear(f"{clause.rstrip('?')}?", self.card.story.names) for clause in asked]
            return [(heard, 0) for heard in each if heard.sentences]
        if sentence.tokens or sentence.act:
            return [(self.heard, at)]
        return [(self.heard, at - 1) if at else (self.moment.last, -1)]

    def _answer_guess(self, feeling: str) -> str:
        """Whether they have a feeling: in words of the card, or yes or no."""
        topic = self.card.by_key.get(("feeling", feeling, ""))
        if topic and (fresh := next(self._fresh(topic.lines), None)):
            return fresh
        kinds = ("unconfirmed", "no") if feeling in _PLEASANT else ("confirmed", "heard", "yes")
        said = next(filter(None, map(self._react, kinds)), [])
        return " ".join([*said, *self._tell()])

    def _answer_question(self, heard: Heard, at: int) -> str:
        sentence = heard.sentences[at]
        if PREFERS.search(sentence.text):
            is_veiled = self.person.disposition is Disposition.AVOIDANT
            lines = PHRASES["preference_veiled" if is_veiled else "preference"]
            return self._pick(self._fresh_stock(lines[self.scene.persona.need]) or [""])
        if plain := self._answer_plainly(sentence):
            return plain
        topics = retrieve.find_answers(self.moment, heard, at)
        for number in topics:
            is_open = self.card.topics[number].depth <= self.depth + 1 or self.emotion >= 30
            if is_open and (fresh := next(self._fresh(self._order(number, heard, at)), None)):
                return fresh
        again = self._fresh_stock(self.manner.asked_again or PHRASES["again"])
        told = self._order(topics[0], heard, at)[:1] if topics else ()
        line, *_ = split_sentences(" ".join(told)) or [""]
        if not line or not again:
            return ""
        first, people = (split_words(line) or ("i",))[0], self.card.story.people
        keeps = first == "i" or first in people or first in TITLES or first in CALENDAR
        return f"{again[0]} {line if keeps else line[:1].lower() + line[1:]}"

    def _answer_plainly(self, sentence: Sentence) -> str:
        """An age, a name, or when that was."""
        text = " ".join(sentence.words)
        if ("how old are you" in text or "your age" in text) and _AGE not in self.card.by_key:
            return PHRASES["age"].format(age=self.person.age)
        if _OWN_NAME.search(text):
            return PHRASES["name"].format(name=self.person.name)
        situation, last = self.scene.persona.situation, self.moment.last
        named = sentence.words if "name" in text or "called" in text else last.words
        whom = retrieve.find_whom(self.moment, named) if _NAMES.search(text) else ""
        known = map(self.card.story.people.get, self.moment.told_words.union(self.heard.words))
        for other in situation.people:
            if other.name == whom and whom in known:
                said = other.introduction or whom
                return f"{said[:1].upper()}{said[1:]}."
        begins = situation.is_lean and sentence.act == "began"
        for event in situation.timeline if sentence.ask in _WHEN else ():
            lines = retrieve.read_line(last.text).sentences
            told = not lines.isdisjoint(retrieve.read_line(event.what).sentences)
            if begins or (told and sentence.tokens <= last.tokens):
                said = f"That was {event.when[:1].lower()}{event.when[1:]}."
                return _SPAN.sub(lambda first: first[1].upper(), said)
        return ""

    def _decline(self, sentence: Sentence) -> list[str]:
        """What no card holds they once say that they don't know, or don't say; else they go on."""
        is_strange = weigh_rare(sentence.tokens - self.card.story.vocabulary) >= _STRANGE
        is_own = sentence.ask not in _FACTUAL or "you" in sentence.words
        lines = self.manner.not_yet if is_own else self.manner.unknown
        if sentence.ask in ("yes", "which") and " or " in sentence.text:
            lines = PHRASES["which"]
        fresh = self._fresh_stock(lines) if is_strange or sentence.act == "about_you" else []
        return [self._pick(fresh)] if fresh and len(fresh) == len(lines) else self._go_on()

    def _go_on(self) -> list[str]:
        if self.is_done:
            return []
        lines = self.scene.persona.situation.hints.of(self.scene.persona.need)
        fresh = list(self._fresh(lines))
        is_open = len(lines) - len(fresh) < min(_MOST_HINTS, len(lines))
        hint = [self._pick(fresh)] if is_open else []
        return (hint if self.draw("hint") < _HINTS else []) or self._tell() or hint

    def _tell(self) -> list[str]:
        """The untold piece of the story that lies nearest to what was said, else the next one."""
        card, is_thread = self.card, self.card.is_thread
        near = retrieve.score_topics(self.moment, self.heard, -1)[card.told]
        near[is_thread & (near < _NEAR)] = -np.inf
        near -= _BY_PLACE * np.cumsum(~is_thread)
        if not self.scene.persona.situation.is_lean:
            near += _BY_CHANCE * ((self.draw("tell") + 0.618 * np.arange(len(near))) % 1)
        for at in (-near).argsort(kind="stable").tolist():
            number = int(card.told[at])
            topic = card.topics[number]
            if topic.depth <= self.depth and near[at] > -np.inf:
                lines = topic.lines if is_thread[at] else self._order(number)[:2]
                fresh = list(self._fresh(lines))
                if fresh and (is_thread[at] or len(fresh) == len(lines)):
                    return fresh[:1]
        return []

    def _order(self, number: int, heard: Heard | None = None, at: int = 0) -> Sequence[str]:
        """What a topic says: first in their mood, most like the question, timed for "when"."""
        topic, asked = self.card.topics[number], heard.sentences[at] if heard else None
        lines = list(topic.lines)
        is_choice = len(lines) > 1 and topic.kind not in ("fact", "disclosure")
        read = retrieve.read_line
        if heard and asked and is_choice and any(asked.tokens & read(n).tokens for n in lines):
            start = int(self.card.line_starts[number])
            like = self.card.lines[start : start + len(lines)] @ heard.vectors[at]
            lines = [lines[at] for at in (-like).argsort(kind="stable").tolist()]
        toned = {"high": topic.toned[0], "low": topic.toned[1]}.get(Band.of(self.emotion).tone)
        lines = [toned, *lines] if toned else lines
        if asked and asked.ask in _WHEN:
            lines.sort(key=lambda line: not read(line).has_time)
        return lines

    def _fresh(self, lines: Iterable[str]) -> Iterator[str]:
        return (line for line in lines if not retrieve.was_said(self.moment, line))

    def _fresh_stock(self, lines: Iterable[str]) -> list[str]:
        """Of lines that fit any story, however short, those that were not said."""
        return [line for line in lines if fold_sentences(line) not in self.before]

    def _pick(self, lines: Sequence[str]) -> str:
        return lines[int(self.draw(lines[0]) * len(lines))]

    def _join(self, parts: Iterable[str]) -> str:
        """The parts as one text, names introduced, without a sentence that was said before."""
        fresh: list[str] = []
        for part in parts:
            if part in fresh or len(split_sentences(part)) > 1:
                sentences = self._fresh(split_sentences(part))
                part = " ".join([sentence for sentence in sentences if sentence not in fresh])
            fresh += [part] if part else []
        fresh = fresh or [self._pick(self._fresh_stock(PHRASES["last"]) or ["…"])]
        text = add_introductions(self.scene.persona.situation, " ".join(fresh), self.moment)
        return apply_typing_style(self.scene.persona, text)


def _find_guess(sentence: Sentence) -> str:
    """The feeling that a sentence says or asks whether they have; empty for none."""
    words = sentence.words
    is_guess = sentence.ask in ("", "yes") or words[0] in _FEEL
    is_attack = sentence.act in ("insult", "blame", "belittle")
    if is_attack or not is_guess or "you" not in words or not _DENIED.isdisjoint(words):
        return ""
    at = words.index("you")
    near = words[max(0, at - 1) : at + 8]
    return "" if _FEEL.isdisjoint(near) else next(filter(None, map(FEELING_OF.get, near)), "")
