"""What a warm start learns from: demonstrations from a file, or dialogues of the benchmark's agents with people of the training split."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field, ValidationError

from rlver_gym.agents import make_agent
from rlver_gym.cards import env_card
from rlver_gym.dialogue import Message
from rlver_gym.errors import TrainingError
from rlver_gym.library import field_errors, library
from rlver_gym.policy.exchange import another, content_words, with_others
from rlver_gym.recordlines import Line, Text
from rlver_gym.session import EmpathySession
from rlver_gym.untrusted import files
from rlver_gym.untrusted.jsontext import parse_json
from rlver_gym.users import EmbeddedUser
from rlver_gym.words import sentences

AGENTS = ("comfort", "advice", "strategy:listen", "strategy:reflect_feeling")
"""Who speaks in lessons unless others are named: what most say to anyone, and what one says who listens, half and half."""
_PLANS = {
    "comfort": "They hurt. I comfort them.",
    "advice": "They are stuck. I advise them.",
    "strategy:listen": "They want to be heard. I ask.",
    "strategy:reflect_feeling": "They want to be felt. I name it.",
}
"""What these agents might have thought: what the person wants, and what to do."""
_NO_PLAN = "What do they need to hear?"
_MAX_BYTES = 1 << 30
"""Of a file of demonstrations."""


class Lesson(NamedTuple):
    """What was said in a dialogue, line by line: the person begins, the agent ends."""

    users: tuple[str, ...]
    replies: tuple[str, ...]
    plans: tuple[str, ...]
    """What the agent may have thought before each reply; only a policy that thinks learns it."""
    only_last: bool = False
    """Only the last reply is to be learned: the others are somebody else's."""


def read_lessons(path: Path) -> list[Lesson]:
    """Demonstrations from a JSONL file as `rlver-gym export` writes it: rows of "messages" (--to openai), or of "prompt" and "completion" (--to sft).

    System messages are left out: the policy is given a prompt of its own. TrainingError names file and line.
    """
    found = []
    for number, line in files.read_lines(path, error=TrainingError, max_bytes=_MAX_BYTES):
        if not line.strip():
            continue
        try:
            row = _Row.model_validate(parse_json(line))
            said = [one for one in (row.messages or [*row.prompt, *row.completion]) if one.role != "system"]
            if (
                not said
                or len(said) % 2
                or any(one.role != ("user", "assistant")[at % 2] for at, one in enumerate(said))
            ):
                raise ValueError("it must go user, assistant, user, …, and end with the assistant")
        except ValueError as error:
            problem = field_errors(error, "the whole line")[0] if isinstance(error, ValidationError) else str(error)
            raise TrainingError(
                f"{path}:{number}: is no demonstration ({problem}). Write the file with: rlver-gym export … --to sft, or --to openai"
            ) from None
        users, replies = tuple(one.content for one in said[::2]), tuple(one.content for one in said[1::2])
        found.append(Lesson(users, replies, ("",) * len(replies), only_last=row.messages is None))
    if not found:
        raise TrainingError(f"{path}: holds no demonstrations.")
    return found


class _ChatLine(Line):
    role: Literal["system", "user", "assistant"]
    content: Text


class _Row(Line):
    messages: list[_ChatLine] | None = None
    prompt: list[_ChatLine] = Field(default_factory=list)
    completion: list[_ChatLine] = Field(default_factory=list)


def lessons(agents: Sequence[str], count: int, seed: int = 0) -> Iterator[Lesson]:
    """`count` dialogues, each reply by one of the named agents, drawn by lot; what the last reply was answered is left out.

    Whoever learns from them says now this, now that to the same person, and can find out which does them good.
    """
    card, user, cards = env_card("RLVER-Empathy-v0"), EmbeddedUser(), library()
    people = cards.ids("train")
    rng = np.random.default_rng(seed)
    for number in map(int, rng.permutation(count)):
        persona = cards.get(people[number % len(people)])
        speakers = [make_agent(name, persona, seed=number) for name in agents]
        session, plans = EmpathySession(user, persona, card, seed=number), []
        session.start()
        while session.outcome is None:
            drawn = int(rng.integers(len(speakers)))
            session.reply(speakers[drawn].reply(tuple(session.dialogue.messages())))
            plans.append(_PLANS.get(agents[drawn], _NO_PLAN))
        said: list[Message] = list(session.dialogue.messages())
        yield Lesson(
            tuple(one.text for one in said[:-1] if one.speaker == "user"),
            tuple(one.text for one in said if one.speaker == "agent"),
            tuple(plans),
        )


def lessons_for_small(agents: Sequence[str], count: int, share: float, seed: int = 0) -> Iterator[Lesson]:
    """`lessons`, a `share` of them with sentences patched together, and a share with words exchanged, so that a small model learns to repeat and not to recite."""
    yield from exchanged(patched(lessons(agents, count, seed), agents, share, seed), share, seed)


def patched(originals: Iterable[Lesson], agents: Sequence[str], share: float, seed: int = 0) -> Iterator[Lesson]:
    """The lessons, a `share` of them with people whose sentences nobody ever said: the front of one and the back of another, answered by the agents
    anew. They must know of people only what they are told: the oracle would speak of somebody else.

    Where only words are exchanged, a small model knows sixty people's sentences again by their little words, and garbles those of strangers.
    """
    known = list(originals)
    pool = sorted({sentence for lesson in known for line in lesson.users for sentence in sentences(line)})
    people, rng = library(), np.random.default_rng(seed)
    for number, lesson in enumerate(known):
        if rng.random() >= share:
            yield lesson
            continue
        somebody = people.get(people.ids("train")[0])
        speakers = [make_agent(name, somebody, seed=number) for name in agents]
        said: list[Message] = []
        plans = []
        for line in lesson.users:
            said.append(Message("user", " ".join(_with_another_end(part, pool, rng) for part in sentences(line))))
            drawn = int(rng.integers(len(speakers)))
            said.append(Message("agent", speakers[drawn].reply(tuple(said))))
            plans.append(_PLANS.get(agents[drawn], _NO_PLAN))
        yield Lesson(tuple(one.text for one in said[::2]), tuple(one.text for one in said[1::2]), tuple(plans))


def _with_another_end(sentence: str, pool: Sequence[str], rng: np.random.Generator) -> str:
    front, back = sentence.split(), pool[int(rng.integers(len(pool)))].split()
    return " ".join(front[: rng.integers(1, len(front) + 1)] + back[rng.integers(len(back)) :])


def exchanged(originals: Iterable[Lesson], share: float, seed: int = 0) -> Iterator[Lesson]:
    """The lessons, a `share` of them with the person's content words exchanged for others wherever they are said in the dialogue."""
    known = list(originals)
    vocabulary = exchangeable(known)
    rng = np.random.default_rng(seed)
    for lesson in known:
        yield _exchanged(lesson, vocabulary, rng) if rng.random() < share else lesson


def exchangeable(known: Sequence[Lesson]) -> list[str]:
    """The words that people say and agents do not unless they heard them."""
    own = {word for lesson in known for word in _first_said(lesson)}
    return sorted({word for lesson in known for line in lesson.users for word in content_words(line)} - own)


def _exchanged(lesson: Lesson, vocabulary: Sequence[str], rng: np.random.Generator) -> Lesson:
    heard = {word for line in lesson.users for word in content_words(line)}
    instead = {word: another(vocabulary, rng) for word in vocabulary if word in heard}
    users, replies = (tuple(with_others(line, instead) for line in lines) for lines in lesson[:2])
    return lesson._replace(users=users, replies=replies)


def _first_said(lesson: Lesson) -> Iterator[str]:
    """The words that the agent said without having heard them."""
    heard: set[str] = set()
    for line, reply in zip(lesson.users, lesson.replies, strict=True):
        heard.update(content_words(line))
        yield from (word for word in content_words(reply) if word not in heard)
