"""Answer: what the person says to what they were asked and told, from the facts of their card. Pure; the dialogue's text is all that is known of what was told."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rlver_gym.conversation.claims import Fault, Verdict, check_claim, check_names
from rlver_gym.conversation.find import Match, find_answer, query
from rlver_gym.conversation.knowledge import Entry, Knowledge, gives_of, knowledge, who_is
from rlver_gym.conversation.names import without_introductions
from rlver_gym.conversation.parse import NEGATIONS, Ask, Claim, Parsed, Question, names_in, parse_utterance
from rlver_gym.conversation.tokens import PRONOUNS, YOU, token_of, tokens_of
from rlver_gym.dialogue import Dialogue
from rlver_gym.emotion import Tone
from rlver_gym.persona import Fact, Persona
from rlver_gym.words import split_sentences, split_words

_SURE = 1.7
"""The score from which a match is given as an answer. Below, the person does not know."""
_MOST_ANSWERS = 2
_TRUE = 0.6
"""Share of a guess's weight that a sentence of the card must have for a plain yes."""


class Heard(NamedTuple):
    """What the person makes of an utterance, before they say anything."""

    answers: tuple["Found", ...]
    """To the first questions, in order."""
    mistake: "Mistake | None"
    """The first thing that is wrong about their story."""


class Found(NamedTuple):
    """What they know to a question; `match` is None when they don't know."""

    question: Question
    match: Match | None
    verdict: Verdict | None
    """Of a yes-or-no question: whether it is so."""


class _Mentioned:
    """Tokens of the people who were spoken of, the last ones first. Looked up when a pronoun asks for it."""

    def __init__(self, known: Knowledge, dialogue: Dialogue) -> None:
        self._known, self._dialogue = known, dialogue
        self._found: list[str] | None = None

    def says(self, pronoun: str) -> bool:
        """Whether the person themself just spoke of somebody so: then it may be anybody, such as a dog."""
        return pronoun in tokens_of(split_words(self._dialogue.user_lines[-1]))

    def tokens(self) -> list[str]:
        """Worked out once."""
        if self._found is None:
            dialogue = self._dialogue
            texts = [dialogue.utterance or "", dialogue.user_lines[-1]]
            texts += [dialogue.turns[-1].utterance] if dialogue.turns else []
            texts += list(reversed(dialogue.user_lines[:-1]))
            found = [token for text in texts[:6] for token in reversed(people_in(self._known, text))]
            self._found = list(dict.fromkeys(found))
        return self._found


class Mistake(NamedTuple):
    """Something wrong that was said, and what the card says."""

    claim: Claim
    verdict: Verdict


def take_in(persona: Persona, parsed: Parsed, dialogue: Dialogue, said: frozenset[str]) -> Heard:
    """Look up what was asked, and check what was claimed. `said`: the sentences that the person has said, case-folded."""
    if not (parsed.questions or parsed.claims):
        return Heard((), None)
    known = knowledge(persona)
    mentioned = _Mentioned(known, dialogue)
    before = _before(dialogue)
    mistake = None
    for claim in parsed.claims:
        verdict = check_claim(known, claim, _meant(known, claim.words, mentioned))
        if verdict.fault is not None:
            mistake = Mistake(claim, verdict)
            break
    for question in parsed.questions:
        if mistake is None and not question.is_guess:
            claim = Claim(question.words, question.text, names_in(question.text))
            verdict = check_names(known, claim)
            mistake = Mistake(claim, verdict) if verdict is not None and verdict.person else None
    asked = [question for question in parsed.questions if not question.is_guess or mistake is None]
    spent = _Spent(persona, dialogue, said)
    found = [
        _found(known, question, mentioned, spent, (*before, *_aside(parsed, question)))
        for question in asked[-_MOST_ANSWERS:]
    ]
    return Heard(tuple(found), mistake)


def _found(
    known: Knowledge, question: Question, mentioned: _Mentioned, spent: "_Spent", before: Iterable[str]
) -> Found:
    meant = _meant(known, question.words, mentioned)
    match = None
    if not is_invitation(question):
        asked = query(known, question, meant, before)
        match = find_answer(
            known, asked, spent.is_spent if not spent.was_asked(known, asked.tokens) else lambda entry: False
        )
    verdict = None
    if question.ask is Ask.YES_NO:
        verdict = check_claim(known, Claim(question.words, question.text), meant)
    return Found(question, match if match is not None and match.score >= _SURE else None, verdict)


class _Spent:
    """What was told whole already: another question is not answered with it again."""

    def __init__(self, persona: Persona, dialogue: Dialogue, said: frozenset[str]) -> None:
        self._persona, self._dialogue, self._said = persona, dialogue, said

    def is_spent(self, entry: Entry) -> bool:
        """Whether each of its wordings was said, or a good part of one."""
        return any(is_told(self._persona, text, self._said) for text in entry.texts)

    def was_asked(self, known: Knowledge, tokens: frozenset[str]) -> bool:
        """Whether the agent asked nearly the same before."""
        for earlier in self._dialogue.earlier_utterances[-4:]:
            for question in parse_utterance(earlier).questions:
                other = known.tokens(question.words)
                if len(tokens & other) >= 0.75 * max(1, len(tokens | other)):
                    return True
        return False


_INNER = frozenset(
    map(
        token_of,
        "feel scared afraid worst hard hurt hope wish mean heart inside deep lonely angry ashamed sad hardest worry imagine heavy weigh".split(),
    )
)


def asks_for_the_inner(question: Question) -> bool:
    """Whether it asks what goes on in them, or what they would do: what no fact can answer and nobody answers with "I don't know"."""
    if question.ask in (Ask.WHO, Ask.WHEN, Ask.WHERE, Ask.HOW_MANY, Ask.HOW_LONG):
        return False
    return "would" in question.words or not _INNER.isdisjoint(map(token_of, question.words))


def _aside(parsed: Parsed, question: Question) -> tuple[str, ...]:
    """The words that stand around a question in the same utterance."""
    return tuple(word for claim in parsed.claims if claim.text != question.text for word in claim.words)


def _before(dialogue: Dialogue) -> tuple[str, ...]:
    """What the agent said before, whose matter may go on."""
    return split_words(dialogue.turns[-1].utterance)[:60] if dialogue.turns else ()


def _meant(known: Knowledge, words: Sequence[str], mentioned: _Mentioned) -> tuple[str, ...]:
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
        return [entry.item.told(tone)]
    return list(entry.texts)


def best_wording(persona: Persona, question: Question, texts: Sequence[str]) -> list[str]:
    """Those of several wordings that say most of what was asked."""
    known = knowledge(persona)
    tokens = known.tokens(question.words)

    def worth(text: str) -> float:
        words = split_words(text)
        return known.weigh(tokens & known.tokens(words)) + 3.0 * (
            question.ask in gives_of((text,), known.person_tokens)
        )

    each = [worth(text) for text in texts]
    return [text for text, value in zip(texts, each, strict=True) if value >= max(each) - 0.5]


def truth_of(persona: Persona, mistake: Mistake, tone: Tone) -> str | None:
    """What the person says is right; None when they only say that it is not so."""
    known, verdict = knowledge(persona), mistake.verdict
    if verdict.fault is Fault.NAME:
        return _right_name(known, mistake)
    if verdict.fault is Fault.RELATION:
        return _right_relation(persona, verdict.person)
    if verdict.truth is None:
        return None
    entry = known.entries[verdict.truth.entry]
    if isinstance(entry.item, Fact):
        return entry.item.correction or _nearest_of(known, verdict, wordings(entry, tone))
    return _nearest_of(
        known, verdict, [sentence for text in wordings(entry, tone) for sentence in split_sentences(text)]
    )


def _nearest_of(known: Knowledge, verdict: Verdict, texts: list[str]) -> str:
    """The one of several texts that says most of the truth."""
    assert verdict.truth is not None
    tokens = verdict.truth.tokens
    return max(texts, key=lambda text: known.weigh(known.tokens(split_words(text)) & tokens))


def _right_name(known: Knowledge, mistake: Mistake) -> str:
    wrong = next((name for name in mistake.claim.names if name not in known.words), mistake.claim.names[0]).capitalize()
    right = next((one.name for one in known.people if one.token == mistake.verdict.person), None)
    return f"It's {right}, not {wrong}." if right else f"Who's {wrong}?"


def _right_relation(persona: Persona, token: str | None) -> str | None:
    known = knowledge(persona)
    for one, other in zip(known.people, persona.situation.people, strict=True):
        if one.token == token:
            return who_is(other)
    return None


def is_told(persona: Persona, text: str, said: frozenset[str]) -> bool:
    """Whether some sentence of a text was said already."""
    plain = without_introductions(persona.situation, text)
    return any(sentence.casefold() in said for sentence in split_sentences(plain))


_LIKE = re.compile(
    r"^(?:what|how) (?:was|is|were|are|did|does) (?:that|it|this|those|these)\b(?: (?:like|feel|been|go|for you|to you|make you feel|affect you|mean|do))*(?: (?:for|to|with) you)?(?: now| then)?$"
)
"""Questions about what was just spoken of."""
_INVITING = frozenset("happen feel mind tell talk go wrong matter trouble start begin bother say".split())


def is_invitation(question: Question) -> bool:
    """Whether a question only invites to go on, such as "What happened?"."""
    if _LIKE.search(" ".join(question.words)):
        return True
    tokens = [token for token in tokens_of(question.words) if token != YOU and token not in PRONOUNS]
    return question.ask in (Ask.WHAT, Ask.HOW, Ask.TELL_MORE) and all(token in _INVITING for token in tokens)


def says_yes_or_no(text: str) -> bool:
    """Whether a text begins with yes or no in some form."""
    return bool(
        {"yes", "no", "not", "never", "nobody", "none", "yeah", "nope", "nothing", "of"} & set(split_words(text)[:4])
    )


def yes_or_no(found: Found, text: str) -> bool | None:
    """The plain answer to a yes-or-no question that is answered with a text, when the card gives one that the text bears out."""
    verdict = found.verdict
    if verdict is None or verdict.truth is None:
        return None
    is_negative = not NEGATIONS.isdisjoint(split_words(text))
    if verdict.fault in (Fault.AMOUNT, Fault.DOER, Fault.DENIED, Fault.LISTED):
        return False
    if verdict.fault is None and verdict.support >= _TRUE and not verdict.truth.is_negative and not is_negative:
        return True
    return None
