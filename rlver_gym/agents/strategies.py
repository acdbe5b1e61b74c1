"""What a supporter can do next, and words for it about what this person said. Knows nothing of the person that was not said.

The strategies are those that support conversations are annotated with (ESConv, arXiv:2106.01144, table 1), and beside them what the hidden needs of RLVER
(arXiv:2507.03112, table 5) ask for.
"""

from collections.abc import Callable, Sequence
from enum import Enum

from rlver_gym.agents import phrases
from rlver_gym.agents.base import user_lines
from rlver_gym.agents.restate import clause, deeds, names, of_others, told
from rlver_gym.dialogue import Message
from rlver_gym.words import content


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
_A_LITTLE = 7
"""Words that a fact is about, below which another one goes with it."""


Taking = Callable[[Sequence[str], Sequence[str]], list[str]]
"""What to take up of the user's lines, given what was said already: `told` or `told_last`."""


def said(strategy: Strategy, messages: Sequence[Message], number: int, taking: Taking = told) -> str:
    """An utterance that does this, about what was told and not yet taken up. `number` varies the wording; the last message is the user's."""
    return _Speaker(messages, number, taking).said(strategy)


class _Speaker:
    """What there is to say in one turn."""

    def __init__(self, messages: Sequence[Message], number: int, taking: Taking) -> None:
        lines = user_lines(messages)
        spoken = [message.text for message in messages if message.speaker == "agent"]
        self.number = number
        self.facts = [fact for fact in taking(lines, spoken) if not any(clause(fact) in text for text in spoken)]
        self.who = next(iter(names(lines)), "the other person")

    def said(self, strategy: Strategy) -> str:
        facts = self.facts
        others, own = of_others(facts, [self.who]) or facts, deeds(facts) or facts
        match strategy:
            case Strategy.PRAISE:
                parts = (self.about(own), self.two(phrases.CREDIT))
            case Strategy.TAKE_SIDE:
                parts = (self.about(others), self.two(phrases.SIDE))
            case Strategy.REFLECT_FEELING:
                parts = (self.about(facts), self.two(phrases.FELT))
            case Strategy.LISTEN:
                parts = (self.about(facts), self.one(phrases.FELT), self.one(phrases.ASKING))
            case Strategy.MOTIVES:
                parts = (self.two(phrases.DRIVEN), self.about(others))
            case Strategy.OTHER_SIDE:
                parts = (self.about(others), self.two(phrases.SEEN))
            case Strategy.INVITE_REFLECTION:
                parts = (self.about(own), self.two(phrases.INWARD))
            case Strategy.SUGGEST:
                parts = (self.two(phrases.STEPS), self.about(facts))
            case Strategy.ASK:
                parts = (self.about(facts[:1]), self.one(phrases.ASKING))
            case Strategy.RESTATE:
                parts = (self.about(facts), self.about(facts[2:], self.number + 5))
            case Strategy.SHARE:
                parts = (self.about(facts[:1]), self.one(phrases.SHARING))
            case Strategy.ENCOURAGE:
                parts = (self.about(facts[:1]), self.two(phrases.HOPING))
        return " ".join(part for part in parts if part)

    def one(self, stock: Sequence[str], at: int | None = None) -> str:
        phrase = stock[(self.number if at is None else at) % len(stock)].format(who=self.who)
        return phrase[0].upper() + phrase[1:]

    def two(self, stock: Sequence[str]) -> str:
        return f"{self.one(stock, 2 * self.number)} {self.one(stock, 2 * self.number + 1)}"

    def about(self, chosen: Sequence[str], number: int | None = None) -> str:
        """What they told; when it was short, with one thing more. Empty when there is nothing new."""
        if not chosen:
            return ""
        first = clause(chosen[0])
        more = f", and {clause(chosen[1])}" if len(chosen) > 1 and len(content(first)) < _A_LITTLE else ""
        lead = phrases.LEADS[(self.number if number is None else number) % len(phrases.LEADS)]
        return f"{lead}{first}{more}."
