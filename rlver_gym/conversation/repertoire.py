"""Repertoire: a persona's lines by what they answer, ready to be looked up.

Compiled once a card; knows no dialogue.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rlver_gym.conversation.knowledge import Knowledge, knowledge
from rlver_gym.core.inquiries import PERSONAL_INQUIRIES, Feeling
from rlver_gym.core.persona import Persona
from rlver_gym.core.words import split_words
from rlver_gym.io.frozen import cache_by_parts
from rlver_gym.text.tokens import PRONOUNS, YOU

_COVERED = 0.55
"""The share of a suggestion's weight that an utterance must have."""
_LEAST = 1.8
"""The weight of words that must be shared with a matter for it to be taken up, in nats."""


class _Wording(NamedTuple):
    """One way of naming something."""

    tokens: frozenset[str]
    weight: float
    place: int
    """Of the thing among its kind."""


class Matter(NamedTuple):
    """Something of the story that can be taken up."""

    lines: tuple[str, ...]
    name: str | None
    """Whom it is about, when that is one of the people."""


def _name_in(known: Knowledge, texts: Sequence[str]) -> str | None:
    """The name of the one whom the first of some texts names."""
    tokens = known.tokens(split_words(texts[0]))
    return next((one.name for one in known.people if one.token in tokens), None)


class Repertoire:
    """What one persona says, by what it answers."""

    def __init__(self, persona: Persona) -> None:
        """Compile the card."""
        known = knowledge(persona)
        situation, person = persona.situation, persona.person
        self._known = known
        self._tokens: dict[str, frozenset[str]] = {}
        self._inquiries: dict[str, Sequence[str]] = {
            **situation.answers,
            **{
                name: lines
                for name, lines in person.answers.items()
                if name in PERSONAL_INQUIRIES or name not in situation.answers
            },
        }
        self._others: dict[str, Mapping[str, Sequence[str]]] = {
            one.token: {**situation.about_people[one.name]}
            for one in known.people
            if one.name in situation.about_people
        }
        self._feelings = situation.feelings
        self._suggestions = situation.suggestions
        self._suggestion_wordings = _wordings(known, (one.to for one in situation.suggestions))
        self._matters = [Matter(one.lines, _name_in(known, one.about)) for one in situation.threads]
        self._matters_of: dict[str, list[_Wording]] = {}
        for wording in _wordings(known, (one.about for one in situation.threads)):
            for token in wording.tokens:
                self._matters_of.setdefault(token, []).append(wording)

    def to_inquiry(self, label: str) -> Sequence[str]:
        """The lines that answer an inquiry; empty for a label that is none."""
        return self._inquiries.get(label, ())

    def about_other(self, token: str, label: str) -> Sequence[str]:
        """The lines that answer an inquiry about the one of that token."""
        return self._others.get(token, {}).get(label, ())

    def to_feeling(self, feeling: Feeling) -> Sequence[str]:
        """What they say when it is named."""
        return self._feelings.get(feeling, ())

    def to_suggestion(self, tokens: frozenset[str]) -> Sequence[str]:
        """What they say to the suggestion that these tokens make; empty when they had not thought
        of it.
        """
        best, found = _COVERED, -1
        for wording in self._suggestion_wordings:
            shared = self._known.weigh(wording.tokens & tokens) / wording.weight
            if shared > best and len(wording.tokens & tokens) >= 2:
                best, found = shared, wording.place
        return self._suggestions[found].reply if found >= 0 else ()

    def tokens_of(self, line: str) -> frozenset[str]:
        """The tokens of a line, without pronouns."""
        found = self._tokens.get(line)
        if found is None:
            found = self._tokens[line] = self._known.tokens(split_words(line)) - PRONOUNS - {YOU}
        return found

    def threads(self, tokens: frozenset[str]) -> list[Matter]:
        """The matters that these tokens touch, the one that is touched most first."""
        worth: dict[int, float] = {}
        for token in tokens:
            for wording in self._matters_of.get(token, ()):
                shared = self._known.weigh(wording.tokens & tokens)
                if shared >= _LEAST and shared >= 0.6 * wording.weight:
                    worth[wording.place] = max(worth.get(wording.place, 0.0), shared)
        return [
            self._matters[place]
            for place in sorted(worth, key=lambda place: (-worth[place], place))
        ]


def _wordings(known: Knowledge, each: Iterable[Sequence[str]]) -> list[_Wording]:
    found = []
    for place, texts in enumerate(each):
        for text in texts:
            tokens = known.tokens(split_words(text)) - PRONOUNS - {YOU}
            if tokens:
                found.append(_Wording(tokens, known.weigh(tokens), place))
    return found


@cache_by_parts("person", "situation")
def repertoire(persona: Persona) -> Repertoire:
    """The repertoire of a persona, compiled once."""
    return Repertoire(persona)
