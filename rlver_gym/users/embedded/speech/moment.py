"""Moment: what an answer is made of: who was told what so far, what was just said, and the choice
among lines. Pure.
"""

import re
from collections.abc import Iterable, Sequence

from rlver_gym.conversation.direct import ask_directly
from rlver_gym.conversation.knowledge import knowledge
from rlver_gym.conversation.parse import parse_utterance
from rlver_gym.conversation.repertoire import Matter, repertoire
from rlver_gym.conversation.sentences import classify_sentences
from rlver_gym.core.dialogue import Appraisal, Dialogue
from rlver_gym.core.emotion import Band, Tone
from rlver_gym.core.user import Scene, disclosure_depth
from rlver_gym.core.words import content_stems, split_words
from rlver_gym.text.names import remove_introductions
from rlver_gym.text.tokens import PRONOUNS, YOU
from rlver_gym.users.embedded.english import describe
from rlver_gym.users.embedded.speech.answer import QuestionAnswerer
from rlver_gym.users.embedded.speech.lines import choose, draw, split_line, split_lines

_MOST_CHARS = 2_000
_NEARLY = 0.65
"""The share of a line's content words from which it says what an earlier line said."""
_BEGINS = re.compile(r"^(?:He|She|They)\b(?!')")


class Moment:
    """One utterance, to be answered by one person after all that was said."""

    def __init__(
        self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal
    ) -> None:
        """`emotion` is that after the appraisal."""
        persona = scene.persona
        self.scene, self.emotion, self.dialogue, self.appraisal = (
            scene,
            emotion,
            dialogue,
            appraisal,
        )
        described = describe(persona, dialogue) if persona.language == "en" else None
        self.reasons = described.evidence if described else appraisal.reasons
        """What was done, by kind: in English apart from what it was worth, which is measured for
        the reply as a whole.
        """
        self.tone: Tone = Band.of(emotion).tone
        self.turn = len(dialogue.turns)
        self.utterance = dialogue.utterance or ""
        self.words = split_words(self.utterance[:_MOST_CHARS])
        direct = ask_directly(self.utterance)
        self.parsed = parse_utterance(direct)
        self.known, self.repertoire = knowledge(persona), repertoire(persona)
        self.manner = persona.person.manner
        self.sentences = list(described.sentences) if described else []
        if described and direct != self.utterance:
            self.sentences = classify_sentences(direct, self.parsed, self.known.names)
        self.said_sentences = frozenset().union(
            *[
                split_line(text).folded
                for line in dialogue.user_lines
                for text in {line, self._plain(line)}
            ]
        )
        self.answerer = QuestionAnswerer(persona, self.parsed, dialogue, self.said_sentences)
        self.depth = disclosure_depth(emotion, appraisal.change, self.turn)
        """How deep they tell: 1 to anyone, 2 when heard, 3 when trusted."""

    def _plain(self, line: str) -> str:
        """A line as the card has it: names without introductions, nothing before it."""
        line = remove_introductions(self.scene.persona.situation, line)
        for opener in self.manner.openers:
            if opener in line:
                line = line.replace(f"{opener} ", "")
        return line

    @property
    def hints(self) -> tuple[str, ...]:
        """The lines that let their need show."""
        return self.scene.persona.situation.hints.of(self.scene.persona.need)

    def select_unsaid(self, lines: Iterable[str]) -> list[str]:
        """Those of which nothing was said yet, in these or nearly these words."""
        return [
            text
            for text, folded, _ in split_lines(tuple(lines))
            if self.said_sentences.isdisjoint(folded)
            and not is_near_duplicate(text, self.dialogue.user_lines)
        ]

    def filter_by_trust(self, lines: Sequence[str]) -> Sequence[str]:
        """Those that they would say now: to strangers not the most open one, while there is
        another.
        """
        if self.depth > 1 or len(lines) < 2:
            return lines
        return lines[:-1] if self.select_unsaid(lines[:-1]) else lines

    def about(self, matter: Matter) -> Sequence[str]:
        """The lines of a matter, by name where nobody has just named the one whom they are
        about.
        """
        lines = self.filter_by_trust(matter.lines)
        if (
            matter.name is None
            or matter.name in self.utterance
            or matter.name in self.dialogue.user_lines[-1]
        ):
            return lines
        return [_BEGINS.sub(matter.name, line, count=1) for line in lines]

    def choose_thread(self, tokens: frozenset[str]) -> str | None:
        """Something more about the matter that some words touch."""
        for matter in self.repertoire.threads(tokens - PRONOUNS - {YOU}):
            fresh = self.select_unsaid(self.about(matter))
            if fresh:
                return self.choose("thread", fresh[:2])
        return None

    def choose(self, purpose: str, lines: Sequence[str]) -> str:
        """One of the lines, by what was said and the seed."""
        return choose(self.scene, self.turn, purpose, self.words, lines)

    def draw_chance(self, purpose: str) -> float:
        """A number in [0, 1), likewise."""
        return draw(self.scene, self.turn, purpose, self.words)


def is_near_duplicate(text: str, others: Sequence[str]) -> bool:
    """Whether a text says nearly what one of the others says."""
    about = content_stems(text)
    return len(about) >= 3 and any(
        len(about & content_stems(line)) >= _NEARLY * len(about) for line in others
    )
