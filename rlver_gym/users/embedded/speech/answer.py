"""Answer: what the person says to what they were asked and told, from the facts of their card.

Pure; the dialogue's text is all that is known of what was told.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from rlver_gym.conversation.claims import Fault, Verdict, check_claim, check_guess, check_names
from rlver_gym.conversation.find import AnswerSearch, Match, find_answer, make_query
from rlver_gym.conversation.knowledge import (
    Entry,
    Knowledge,
    answerable_questions,
    knowledge,
    who_is,
)
from rlver_gym.conversation.parse import (
    NEGATIONS,
    Claim,
    ParsedUtterance,
    Question,
    QuestionKind,
    names_in,
    parse_utterance,
)
from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.emotion import Tone
from rlver_gym.core.persona import Fact, Persona
from rlver_gym.core.words import split_sentences, split_words
from rlver_gym.text.names import remove_introductions
from rlver_gym.text.tokens import PRONOUNS, QUESTION_WORDS, YOU, tokens_of

_BORNE_OUT = 0.8
"""The share of a question's weight that a text must say again for a plain yes before it."""
_SAYS_ENOUGH = 3.0
"""The weight that it must have itself, in nats: "Do you think so?" has none."""
_ASKED_OTHERWISE = frozenset({"or", *QUESTION_WORDS}) - {"when"}
"""In a question that no yes answers: "Are you angry or sad?", "He said what?"."""

_OF_THEMSELF = frozenset("i my mine me myself".split())
_PARTNERS = frozenset("wife husband girlfriend boyfriend fiance fiancee spouse other half".split())


class AnswerLookup(NamedTuple):
    """What they know to a question; `match` is None when the card has nothing to do with it."""

    question: Question
    match: Match | None
    none: float
    """How probable it is that no entry of the card is asked for."""
    verdict: Verdict | None
    """Of a yes-or-no question: whether it is so."""


class _MentionTracker:
    """Tokens of the people who were spoken of, the last ones first.

    Looked up when a pronoun asks for it.
    """

    def __init__(self, known: Knowledge, dialogue: Dialogue) -> None:
        self._known, self._dialogue = known, dialogue
        self._found: list[str] | None = None

    def says(self, pronoun: str) -> bool:
        """Whether the person themself just spoke of somebody so: then it may be anybody, such as a
        dog.
        """
        return pronoun in tokens_of(split_words(self._dialogue.user_lines[-1]))

    def tokens(self) -> list[str]:
        """Worked out once."""
        if self._found is None:
            dialogue = self._dialogue
            texts = [dialogue.utterance or "", dialogue.user_lines[-1]]
            texts += [dialogue.turns[-1].utterance] if dialogue.turns else []
            texts += list(reversed(dialogue.user_lines[:-1]))
            found = [
                token for text in texts[:6] for token in reversed(people_in(self._known, text))
            ]
            self._found = list(dict.fromkeys(found))
        return self._found


class Mistake(NamedTuple):
    """Something wrong that was said, and what the card says."""

    claim: Claim
    verdict: Verdict


class QuestionAnswerer:
    """What the person makes of the questions and claims of an utterance.

    Each answer is looked up when it is wanted.
    """

    def __init__(
        self, persona: Persona, parsed: ParsedUtterance, dialogue: Dialogue, said: frozenset[str]
    ) -> None:
        """`said`: the sentences that the person has said, case-folded."""
        self._persona, self._parsed, self._dialogue = persona, parsed, dialogue
        self._known = knowledge(persona)
        self._mentioned = _MentionTracker(self._known, dialogue)
        self._spent = _ToldEntries(persona, dialogue, said)
        self.mistake: Mistake | None = None

    def find_correction(self, tone: Tone) -> str | None:
        """What they say is right, when something about their story was wrong; None when nothing
        surely was.
        """
        for claim in self._parsed.claims:
            verdict = check_claim(
                self._known, claim, _resolve_pronouns(self._known, claim.words, self._mentioned)
            )
            if verdict.fault is not None and _is_sure(verdict):
                self.mistake = Mistake(claim, verdict)
                return truth_of(self._persona, self.mistake, tone)
        for question in self._parsed.questions:
            if not question.is_guess:
                claim = Claim(question.words, question.text, names_in(question.text))
                verdict = check_names(self._known, claim)
                if verdict is not None and verdict.person:
                    self.mistake = Mistake(claim, verdict)
                    return truth_of(self._persona, self.mistake, tone)
        return None

    def find(self, question: Question) -> AnswerLookup:
        """What they know to it."""
        known = self._known
        meant = _resolve_pronouns(known, question.words, self._mentioned)
        found = AnswerSearch(None, 1.0)
        if not is_invitation(question):
            asked = make_query(known, question, meant)
            is_repeated = self._spent.is_repeated(known, asked.tokens)
            found = find_answer(
                known, asked, (lambda entry: False) if is_repeated else self._spent.is_spent
            )
        verdict = None
        if question.kind is QuestionKind.YES_NO:
            verdict = check_guess(known, Claim(question.words, question.text), meant)
        return AnswerLookup(question, found.match, found.none, verdict)

    def resolve_person(self, words: Sequence[str]) -> str | None:
        """The token of the one of the story whom some words mean: by name, by relation, or by a
        pronoun for who was mentioned last.
        """
        tokens = self._known.tokens(words)
        named = self._find_named(words)
        if named:
            return named
        meant = _resolve_pronouns(self._known, words, self._mentioned)
        if meant:
            return meant[0]
        if tokens & PRONOUNS:
            return None
        last = self._mentioned.tokens()
        return last[0] if last else None

    def resolve_description(self, words: Sequence[str]) -> str | None:
        """The token of the one of the story whom some words name or describe ("your sister"), or
        whom their pronoun means; None when they are about anything else.
        """
        named = self._find_named(["partner" if word in _PARTNERS else word for word in words])
        if named:
            return named
        if not frozenset(tokens_of(list(words))) <= PRONOUNS:
            return None
        return next(iter(_resolve_pronouns(self._known, words, self._mentioned)), None)

    def _find_named(self, words: Sequence[str]) -> str | None:
        """The last one whom some words name, or whose relation they name: the mother of "your
        partner's mother".
        """
        alias = self._known.alias
        found = [alias[token] for token in tokens_of(list(words)) if token in alias]
        return found[-1] if found else None

    def keep_best_wordings(self, found: AnswerLookup, texts: Sequence[str]) -> list[str]:
        """Those of several wordings that say most of what was asked."""
        return best_wordings(self._persona, found.question, texts) if texts else []

    def answer_yes_or_no(self, found: AnswerLookup, text: str) -> bool | None:
        """Yes or no in front of a text, when it was asked for and the card and the text say so.

        None otherwise: when the text says it already, tells of other things than were asked, or
        when one of two things was to be chosen.
        """
        question, verdict = found.question, found.verdict
        if (
            verdict is None
            or verdict.truth is None
            or not _ASKED_OTHERWISE.isdisjoint(question.words)
        ):
            return None
        if says_yes_or_no(text) or not NEGATIONS.isdisjoint(split_words(text)):
            return None
        if verdict.fault is Fault.AMOUNT:
            return False
        return True if verdict.fault is None and self._bears_out(question, text) else None

    def _bears_out(self, question: Question, text: str) -> bool:
        """Whether a text says nearly all that a question asks whether it is so, and of the person
        themself what is asked of them.
        """
        known, words = self._known, split_words(text)
        asked = known.tokens(question.words)
        if YOU in asked and _OF_THEMSELF.isdisjoint(words):
            return False
        content = asked - PRONOUNS - {YOU}
        weight = known.weigh(content)
        return (
            weight >= _SAYS_ENOUGH
            and known.weigh(content & known.tokens(words)) >= _BORNE_OUT * weight
        )


def _is_sure(verdict: Verdict) -> bool:
    """Whether it is surely wrong: a denial of what is right is worse than to let something pass."""
    if verdict.fault in (Fault.NAME, Fault.RELATION):
        return bool(verdict.person)
    if verdict.fault is Fault.AMOUNT:
        return verdict.support >= 0.5
    return verdict.fault is Fault.LISTED


class _ToldEntries:
    """What was told whole already: another question is not answered with it again."""

    def __init__(self, persona: Persona, dialogue: Dialogue, said: frozenset[str]) -> None:
        self._persona, self._dialogue, self._said = persona, dialogue, said

    def is_spent(self, entry: Entry) -> bool:
        """Whether each of its wordings was said, or a good part of one."""
        return any(is_told(self._persona, text, self._said) for text in entry.texts)

    def is_repeated(self, known: Knowledge, tokens: frozenset[str]) -> bool:
        """Whether the agent asked nearly the same before."""
        for earlier in self._dialogue.earlier_utterances[-4:]:
            for question in parse_utterance(earlier).questions:
                other = known.tokens(question.words)
                if len(tokens & other) >= 0.75 * max(1, len(tokens | other)):
                    return True
        return False


def _resolve_pronouns(
    known: Knowledge, words: Sequence[str], mentioned: _MentionTracker
) -> tuple[str, ...]:
    """Whom the pronouns among some words mean: the last one mentioned who is spoken of so."""
    pronouns = known.tokens(words) & PRONOUNS
    if not pronouns:
        return ()
    spoken = {one.token: one.pronoun for one in known.people}
    found = []
    for pronoun in sorted(pronouns):
        of_kind = [token for token in mentioned.tokens() if spoken.get(token) == pronoun]
        alone = [token for token, used in spoken.items() if used == pronoun]
        if of_kind:
            found.append(of_kind[0])
        elif len(alone) == 1 and not mentioned.says(pronoun):
            found.append(alone[0])
    return tuple(found)


def people_in(known: Knowledge, text: str) -> list[str]:
    """Tokens of the people whom a text names, in order."""
    return [known.alias[token] for token in tokens_of(split_words(text)) if token in known.alias]


def wordings(entry: Entry, tone: Tone) -> list[str]:
    """The ways of telling an entry in a tone, the fitting one first."""
    if isinstance(entry.item, Fact):
        toned = {"high": entry.item.high, "low": entry.item.low}.get(tone)
        return [*([toned] if toned else []), *entry.item.answers]
    if entry.item is not None:
        return [entry.item.in_tone(tone)]
    return list(entry.texts)


def best_wordings(persona: Persona, question: Question, texts: Sequence[str]) -> list[str]:
    """Those of several wordings that say most of what was asked."""
    known = knowledge(persona)
    tokens = known.tokens(question.words)

    def worth(text: str) -> float:
        words = split_words(text)
        return known.weigh(tokens & known.tokens(words)) + 3.0 * (
            question.kind in answerable_questions((text,), known.person_tokens)
        )

    each = [worth(text) for text in texts]
    return [text for text, value in zip(texts, each, strict=True) if value >= max(each) - 0.5]


def truth_of(persona: Persona, mistake: Mistake, tone: Tone) -> str | None:
    """What the person says is right; None when they only say that it is not so."""
    known, verdict = knowledge(persona), mistake.verdict
    if verdict.fault is Fault.NAME:
        return _correct_name(known, mistake)
    if verdict.fault is Fault.RELATION:
        return _correct_relation(persona, verdict.person)
    if verdict.truth is None:
        return None
    entry = known.entries[verdict.truth.entry]
    if isinstance(entry.item, Fact):
        return entry.item.correction or _pick_nearest(known, verdict, wordings(entry, tone))
    return _pick_nearest(
        known,
        verdict,
        [sentence for text in wordings(entry, tone) for sentence in split_sentences(text)],
    )


def _pick_nearest(known: Knowledge, verdict: Verdict, texts: list[str]) -> str:
    """The one of several texts that says most of the truth."""
    assert verdict.truth is not None
    tokens = verdict.truth.tokens
    return max(texts, key=lambda text: known.weigh(known.tokens(split_words(text)) & tokens))


def _correct_name(known: Knowledge, mistake: Mistake) -> str:
    wrong = next(
        (name for name in mistake.claim.names if name not in known.words), mistake.claim.names[0]
    ).capitalize()
    right = next((one.name for one in known.people if one.token == mistake.verdict.person), None)
    return f"It's {right}, not {wrong}." if right else f"Who's {wrong}?"


def _correct_relation(persona: Persona, token: str | None) -> str | None:
    known = knowledge(persona)
    for one, other in zip(known.people, persona.situation.people, strict=True):
        if one.token == token:
            return who_is(other)
    return None


def is_told(persona: Persona, text: str, said: frozenset[str]) -> bool:
    """Whether some sentence of a text was said already."""
    plain = remove_introductions(persona.situation, text)
    return any(sentence.casefold() in said for sentence in split_sentences(plain))


_LIKE = re.compile(
    r"^(?:what|how) (?:was|is|were|are|did|does) (?:that|it|this|those|these)\b(?:"
    r" (?:like|feel|been|go|for you|to you|make you feel|affect you|mean|do))*(?: (?:for|to|with)"
    r" you)?(?: now| then)?$"
)
"""Questions about what was just spoken of."""
_INVITING = frozenset(
    "happen feel mind tell talk go wrong matter trouble start begin bother say".split()
)


def is_invitation(question: Question) -> bool:
    """Whether a question only invites to go on, such as "What happened?"."""
    if _LIKE.search(" ".join(question.words)):
        return True
    tokens = [
        token for token in tokens_of(question.words) if token != YOU and token not in PRONOUNS
    ]
    return question.kind in (QuestionKind.WHAT, QuestionKind.HOW, QuestionKind.TELL_MORE) and all(
        token in _INVITING for token in tokens
    )


def says_yes_or_no(text: str) -> bool:
    """Whether a text begins with yes or no in some form."""
    return bool(
        {"yes", "no", "not", "never", "nobody", "none", "yeah", "nope", "nothing", "of"}
        & set(split_words(text)[:4])
    )
