"""What a supporter can do next, and words for it about what this person said. Knows nothing of the
person that was not said.

The strategies are those that support conversations are annotated with (ESConv, arXiv:2106.01144,
table 1), and beside them what the hidden needs of RLVER (arXiv:2507.03112, table 5) ask for.
"""

from collections.abc import Callable, Sequence
from enum import Enum

from rlver_gym.agents import phrases
from rlver_gym.agents.quoting import (
    find_names,
    rank_by_content,
    rank_by_recency,
    select_about,
    select_deeds,
)
from rlver_gym.core.agent import NonBlocking, turn_of, user_lines
from rlver_gym.core.dialogue import Message
from rlver_gym.io.errors import UnknownName


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
"""What to take up of the user's lines, given what was said already: `rank_by_content` or
`rank_by_recency`.
"""


def compose_utterance(
    strategy: Strategy,
    messages: Sequence[Message],
    number: int,
    select_sentences: SelectSentences = rank_by_content,
) -> str:
    """Write an utterance by this strategy, about what was told and not yet taken up.

    `number` varies the wording; the last message is the user's.
    """
    return _UtteranceWriter(messages, number, select_sentences).compose(strategy)


class _UtteranceWriter:
    """Writes the utterances of one turn."""

    def __init__(
        self, messages: Sequence[Message], number: int, select_sentences: SelectSentences
    ) -> None:
        lines = user_lines(messages)
        spoken = [message.text for message in messages if message.speaker == "agent"]
        self.number = number
        self.facts = select_sentences(lines[-2:], spoken)
        self.who = next(iter(find_names(lines)), "they")

    def compose(self, strategy: Strategy) -> str:
        facts = self.facts
        others, own = select_about(facts, [self.who]) or facts, select_deeds(facts) or facts
        match strategy:
            case Strategy.PRAISE:
                parts = (self.quote(own), self.fill_phrase(phrases.CREDIT))
            case Strategy.TAKE_SIDE:
                parts = (self.quote(others), self.fill_phrase(phrases.SIDE))
            case Strategy.REFLECT_FEELING:
                parts = (self.quote(facts), self.fill_phrase(phrases.FELT))
            case Strategy.LISTEN:
                parts = (self.fill_phrase(phrases.FELT), self.fill_phrase(phrases.LISTENING))
            case Strategy.MOTIVES:
                parts = (self.quote(others), self.fill_phrase(phrases.DRIVEN))
            case Strategy.OTHER_SIDE:
                parts = (self.quote(others), self.fill_phrase(phrases.SEEN))
            case Strategy.INVITE_REFLECTION:
                parts = (self.quote(own), self.fill_phrase(phrases.INWARD))
            case Strategy.SUGGEST:
                parts = (self.quote(facts), self.fill_phrase(phrases.STEPS))
            case Strategy.ASK:
                parts = (self.quote(facts), self.fill_phrase(phrases.ASKING))
            case Strategy.RESTATE:
                parts = (
                    self.quote(facts),
                    self.quote(facts[1:], self.number + 1),
                    self.fill_phrase(phrases.CHECKING),
                )
            case Strategy.SHARE:
                parts = (self.quote(facts), self.fill_phrase(phrases.SHARING))
            case Strategy.ENCOURAGE:
                parts = (self.quote(facts), self.fill_phrase(phrases.HOPING))
        return " ".join(part for part in parts if part)

    def fill_phrase(self, stock: Sequence[str]) -> str:
        phrase = stock[self.number % len(stock)].format(who=self.who)
        return phrase[0].upper() + phrase[1:]

    def quote(self, chosen: Sequence[str], number: int | None = None) -> str:
        """The first of what they told, word for word; nothing when there is nothing new."""
        return (
            quote_sentence(chosen[0], self.number if number is None else number) if chosen else ""
        )


def quote_sentence(sentence: str, number: int) -> str:
    """A sentence of theirs, word for word, in quotation marks. `number` varies the lead."""
    return phrases.QUOTING[number % len(phrases.QUOTING)].format(sentence.rstrip(".!…, "))


_KIND = "strategy"


class FixedStrategy(NonBlocking):
    """Takes up what was said last, each time in the manner of the same strategy.

    The strategy view takes up the richest first. This does people as much good, and a small model
    can learn it.
    """

    def __init__(self, strategy: Strategy, seed: int = 0) -> None:
        """`seed` shifts the phrasing."""
        self.strategy, self.seed = strategy, seed

    def reply(self, messages: Sequence[Message]) -> str:
        """One utterance about what was said."""
        return compose_utterance(
            self.strategy, messages, turn_of(messages) + self.seed, rank_by_recency
        )


def parse_strategy_name(name: str) -> Strategy | None:
    """The strategy of "strategy:NAME", NAME in lower case; None for any other agent.

    UnknownName when there is no such strategy.
    """
    kind, _, which = name.partition(":")
    if kind != _KIND:
        return None
    known = {one.name.lower(): one for one in STRATEGIES}
    if which not in known:
        raise UnknownName.of("strategy", which, tuple(known), ", ".join(known))
    return known[which]
