"""Tell: what a person tells on their own, out of what is still untold: what lies nearest to what
was spoken about, as deep as they trust.
"""

from rlver_gym.conversation.knowledge import Knowledge, knowledge
from rlver_gym.core.emotion import Tone
from rlver_gym.core.persona import Fact
from rlver_gym.core.user import Scene
from rlver_gym.core.words import FUNCTION_WORDS, split_words
from rlver_gym.text.tokens import PRONOUNS, YOU
from rlver_gym.users.embedded.speech.lines import draw, summarise_disclosures

_IN_ORDER = 0.35
"""What each place further down the card's order costs, in nats: people tell the beginning first."""
_BY_CHANCE = 2.5
"""How much chance moves an item at most, in nats."""
_WHOLE = 6
"""Words that a fact's answer must have to be told unasked."""


def tell_next(
    scene: Scene, turn: int, words: tuple[str, ...], depth: int, said: frozenset[str], tone: Tone
) -> str | None:
    """The next thing to tell after these `words` were spoken; None when there is nothing left that
    they would tell.
    """
    known = knowledge(scene.persona)
    spoken = known.tokens(words) - PRONOUNS - {YOU}
    best, found = -1e9, None
    for place, telling in enumerate(summarise_disclosures(scene.persona.situation)):
        item = telling.item
        if item.depth > depth or not said.isdisjoint(telling.folded):
            continue
        value = (
            _nearness(known, spoken, item.id)
            - _IN_ORDER * place
            + _BY_CHANCE * draw(scene, turn, f"tell {item.id}", words)
        )
        if value > best:
            best, found = value, item
    return found.in_tone(tone) if found else _fact_to_tell(scene, known, turn, spoken, depth, said)


def _nearness(known: Knowledge, spoken: frozenset[str], name: str) -> float:
    for entry in known.disclosure_entry(name):
        return known.weigh(spoken & entry.body)
    return 0.0


def _fact_to_tell(
    scene: Scene,
    known: Knowledge,
    turn: int,
    spoken: frozenset[str],
    depth: int,
    said: frozenset[str],
) -> str | None:
    """An answer that can stand by itself, once the disclosures are told."""
    best, found = 0.0, None
    for entry in known.entries:
        if not isinstance(entry.item, Fact) or entry.is_personal or entry.depth > depth:
            continue
        value = known.weigh(spoken & entry.body) + draw(scene, turn, f"fact {entry.id}", ())
        if value > best:
            for text in entry.item.answers:
                if stands_alone(text) and text.casefold() not in said:
                    best, found = value, text
                    break
    return found


def stands_alone(text: str) -> bool:
    """Whether an answer makes sense without its question: long enough, and it begins with who does
    what.
    """
    words = split_words(text)
    return len(words) >= _WHOLE and (
        words[0] in ("i", "we", "my")
        or (
            text[:1].isupper()
            and words[0] not in FUNCTION_WORDS
            and words[1:2] in (("is",), ("was",), ("has",), ("had",), ("says",), ("said",))
        )
    )
