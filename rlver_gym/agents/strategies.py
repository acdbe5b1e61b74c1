"""What a supporter can do next, and words for it about what this person said. Knows nothing of the
person that was not said.

The strategies are those that support conversations are annotated with (ESConv, arXiv:2106.01144,
table 1), and beside them what the hidden needs of RLVER (arXiv:2507.03112, table 5) ask for.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from rlver_gym.agents.quoting import (
    find_names,
    rank_by_content,
    rank_by_recency,
    select_about,
    select_deeds,
)
from rlver_gym.core.agent import NonBlocking, turn_of, user_lines
from rlver_gym.core.dialogue import Message
from rlver_gym.util.errors import check_known
from rlver_gym.util.yaml_file import load_yaml

PHRASES: dict[str, Any] = load_yaml("rlver_gym.agents", "phrases.yaml")
"""What the shipped agents say: phrases by what a supporter can do, and how to choose."""


class Strategy(Enum):
    """Twelve things to do; the value says which in words."""

    ASK = "ask an open question"
    RESTATE = "say back what they told"
    REFLECT_FEELING = "name what they may feel"
    PRAISE = "praise something concrete that they did"
    MOTIVES = "look at why the others acted so"
    OTHER_SIDE = "show the other side beside theirs"
    INVITE_REFLECTION = "invite them to look inward"
    TAKE_SIDE = "agree, and take their side"
    SUGGEST = "suggest something concrete"
    SHARE = "share something of one's own"
    ENCOURAGE = "encourage"
    LISTEN = "just listen, and let them go on"


STRATEGIES = tuple(Strategy)
"""In the order in which they are numbered as actions."""


SelectSentences = Callable[[Sequence[str], Sequence[str]], list[str]]
"""What to take up of the user's lines, given what was said already."""


def compose_utterance(
    strategy: Strategy,
    messages: Sequence[Message],
    number: int,
    select_sentences: SelectSentences = rank_by_content,
) -> str:
    """An utterance about what was told and not yet taken up; `number` varies the wording."""
    lines = user_lines(messages)
    spoken = [message.text for message in messages if message.speaker == "agent"]
    facts = select_sentences(lines[-2:], spoken)
    who = next(iter(find_names(lines)), "they")
    quotable = {
        "best": facts,
        "second": facts[1:],
        "deeds": select_deeds(facts) or facts,
        "others": select_about(facts, [who]) or facts,
    }
    parts = []
    for part in PHRASES["strategies"][strategy.name.lower()]:
        if part in quotable:
            parts += [
                quote_sentence(sentence, number + (part == "second"))
                for sentence in quotable[part][:1]
            ]
        else:
            phrase = PHRASES[part][number % len(PHRASES[part])].format(who=who)
            parts.append(phrase[0].upper() + phrase[1:])
    return " ".join(parts)


def quote_sentence(sentence: str, number: int) -> str:
    """A sentence of theirs, word for word, in quotation marks. `number` varies the lead."""
    quoting = PHRASES["quoting"]
    return quoting[number % len(quoting)].format(sentence.rstrip(".!…, "))


_KIND = "strategy"


class FixedStrategy(NonBlocking):
    """Takes up what was said last, each time in the manner of the same strategy.

    The strategy view takes up the richest first. This does people as much good, and a small model
    can learn it.
    """

    def __init__(self, strategy: Strategy, seed: int = 0) -> None:
        self.strategy, self.seed = strategy, seed

    def reply(self, messages: Sequence[Message]) -> str:
        return compose_utterance(
            self.strategy, messages, turn_of(messages) + self.seed, rank_by_recency
        )


def parse_strategy_name(name: str) -> Strategy | None:
    """The strategy of "strategy:NAME"; None for any other agent, UnknownName for no strategy."""
    kind, _, which = name.partition(":")
    if kind != _KIND:
        return None
    known = {strategy.name.lower(): strategy for strategy in STRATEGIES}
    check_known("strategy", which, known)
    return known[which]
