"""Seven simple agents that anybody's agent should be compared with.

None of them knows the person; most do not look at them.
"""

import random
import string
from collections.abc import Callable, Sequence

from rlver_gym.agents import phrases
from rlver_gym.agents.quoting import rank_by_recency
from rlver_gym.agents.strategies import quote_sentence
from rlver_gym.core.agent import NonBlocking, turn_of, user_lines
from rlver_gym.core.dialogue import Message

COMFORT = (
    "I'm so sorry you're going through this. Please know that you are not alone.",
    "That sounds really hard. Stay strong, everything will be okay.",
    "I understand how you feel. Things will get better with time, I'm sure of it.",
    "Your feelings are valid, and it is okay to feel this way. I'm here for you.",
    "You've got this. You are stronger than you think, so hang in there.",
    "What a difficult time this must be. Be gentle with yourself today.",
    "Every storm passes in the end. Believe in yourself and keep your head up.",
    "I can imagine how tough this is. Sending you warmth and good thoughts.",
    "Try to stay positive, brighter days will come. You deserve happiness.",
    "One day at a time. I really hope you feel better soon.",
)
PRAISE = (
    "You are amazing, really. I admire you so much.",
    "Wow, what an incredible person you are. I'm impressed.",
    "You are so strong and so brave. Not everyone would manage that.",
    "I have great respect for you. You should be proud of yourself.",
    "You are wonderful, and you handle everything brilliantly.",
    "What a fantastic attitude. You are an inspiration to everyone.",
    "You did great, absolutely great. Hats off to you.",
    "You have such a remarkable heart. People are lucky to know you.",
    "Honestly, you are one of the most impressive people I have talked to.",
    "Great job. You deserve all the credit in the world.",
)
ADVICE = (
    (
        "Here is what you can do:\n1. Make a list of what bothers you.\n2. Talk openly with the"
        " people involved.\n3. Set clear boundaries.\n4. Get enough sleep."
    ),
    (
        "I suggest three steps:\n1. Write down your goals.\n2. Try a short walk every day.\n3."
        " Consider seeing a therapist."
    ),
    (
        "You should do the following:\n1. Communicate honestly.\n2. Take a break from the"
        " situation.\n3. Focus on things you can control."
    ),
    (
        "Some options for you:\n1. Schedule a calm conversation.\n2. Prepare what you want to"
        " say.\n3. Listen to the other side.\n4. Agree on next steps."
    ),
    (
        "To deal with stress:\n1. Try deep breathing.\n2. Keep a journal.\n3. Limit your screen"
        " time.\n4. Exercise three times a week."
    ),
    (
        "My recommendations:\n1. Identify the root cause.\n2. Brainstorm solutions.\n3. Choose the"
        " best one.\n4. Review the result in a week."
    ),
    (
        "Consider this plan:\n1. Find a trusted friend to talk to.\n2. Pick up a hobby again.\n3."
        " Reward yourself for small wins."
    ),
    (
        "Practical tips:\n1. Plan your week on Sunday.\n2. Say no more often.\n3. Ask for help"
        " early.\n4. Drink enough water."
    ),
    "You need to act now:\n1. Decide what you want.\n2. Tell the others clearly.\n3. Stick to it.",
    (
        "A checklist for you:\n1. Collect the facts.\n2. Get professional help if it lasts.\n3."
        " Keep a routine.\n4. Be patient with yourself."
    ),
)


class Phrasebook(NonBlocking):
    """Says one stock utterance after the other, whatever it hears."""

    def __init__(self, phrases: Sequence[str], seed: int = 0) -> None:
        """`seed` shifts where it begins."""
        self.phrases = phrases
        self.seed = seed

    def reply(self, messages: Sequence[Message]) -> str:
        """The next phrase."""
        return self.phrases[(turn_of(messages) + self.seed) % len(self.phrases)]


class Silent(NonBlocking):
    """Says nothing."""

    def reply(self, messages: Sequence[Message]) -> str:
        """The empty string."""
        return ""


class Echo(NonBlocking):
    """Gives the user's last words back, letter by letter."""

    def reply(self, messages: Sequence[Message]) -> str:
        """The user's last message."""
        return messages[-1].text


class Gibberish(NonBlocking):
    """Types random letters."""

    def __init__(self, seed: int = 0) -> None:
        """`seed` chooses the letters."""
        self.seed = seed

    def reply(self, messages: Sequence[Message]) -> str:
        """Twelve "words" of random letters."""
        rng = random.Random(f"{self.seed}/{turn_of(messages)}")
        return " ".join(
            "".join(rng.choices(string.ascii_lowercase, k=rng.randint(3, 9))) for _ in range(12)
        )


class Listener(NonBlocking):
    """Quotes something short that was said, names a feeling, and asks.

    The same way for everybody.
    """

    def __init__(self, seed: int = 0) -> None:
        """`seed` shifts the phrasing."""
        self.seed = seed

    def reply(self, messages: Sequence[Message]) -> str:
        """A quotation when there is something short and new, a feeling, and an open question."""
        number = turn_of(messages) + self.seed
        spoken = [message.text for message in messages if message.speaker == "agent"]
        parts = [
            quote_sentence(fact, number)
            for fact in rank_by_recency(user_lines(messages)[-2:], spoken)[:1]
        ]
        start = len(messages[0].text)  # so that people hear the phrases in other pairs
        parts += [
            phrases.FELT[(3 * number + start) % len(phrases.FELT)],
            phrases.ASKING[number % len(phrases.ASKING)],
        ]
        return " ".join(parts)


BASELINES: dict[str, Callable[[int], object]] = {
    "silent": lambda seed: Silent(),
    "echo": lambda seed: Echo(),
    "gibberish": Gibberish,
    "advice": lambda seed: Phrasebook(ADVICE, seed),
    "comfort": lambda seed: Phrasebook(COMFORT, seed),
    "praise": lambda seed: Phrasebook(PRAISE, seed),
    "listener": Listener,
}
"""Makers by name; each takes a seed."""
