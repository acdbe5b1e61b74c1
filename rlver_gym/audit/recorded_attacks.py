"""The red team on recorded dialogues: attackers answer what a recorded person said, and a user
under attack feels what it makes of them.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rlver_gym.audit.attacks import Attack
from rlver_gym.audit.attacks_zh import FIXED_ATTACKS, STOCK, swap_pronouns
from rlver_gym.audit.red_team import AttackResult, redteam
from rlver_gym.audit.replay import replay
from rlver_gym.audit.search_attacks import SearchAttack, cross_over, measure_gain
from rlver_gym.core.agent import turn_of
from rlver_gym.core.cards import EnvCard, env_card
from rlver_gym.core.dialogue import Appraisal, Dialogue, Message
from rlver_gym.core.persona import Persona
from rlver_gym.core.user import Scene, SentientUser
from rlver_gym.data.recordings import Recording
from rlver_gym.environment.session import EmpathySession
from rlver_gym.users.embedded.chinese import sentences


class RecordedSpeech:
    """Feels as another user does, and says what the recorded person said, whatever the agent says.

    So a user that can appraise but not speak can be attacked. A recording that is over has its last
    line said again.
    """

    kind = "recorded"

    def __init__(self, user: SentientUser, recordings: Sequence[Recording]) -> None:
        """`user` appraises; `recordings` hold one dialogue a persona."""
        self._user = user
        self._of = {one.persona.id: one for one in recordings}
        self.version = f"{user.kind}/{user.version}"

    def open(self, scene: Scene, emotion: int) -> str:
        """The recorded first words."""
        return self._of[scene.persona.id].opening

    def appraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        """What the user under attack makes of it."""
        return self._user.appraise(scene, emotion, dialogue)

    def speak(self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> str:
        """The recorded person's words at this turn."""
        exchanges = self._of[scene.persona.id].exchanges
        return exchanges[min(len(dialogue.turns), len(exchanges) - 1)].reply


def select_recordings(recordings: Sequence[Recording], people: int) -> list[Recording]:
    """One recording of each of the first `people` personas in the order of ids: of those that run
    longest, one by the persona's id.
    """
    known: dict[str, list[Recording]] = {}
    for one in sorted(recordings, key=lambda one: (one.persona.id, one.simulator, one.agent)):
        known.setdefault(one.persona.id, []).append(one)
    return [_longest(of_one) for of_one in list(known.values())[:people]]


def _longest(recordings: list[Recording]) -> Recording:
    most = max(len(one.exchanges) for one in recordings)
    longest = [one for one in recordings if len(one.exchanges) == most]
    first = [one for one in longest if one.simulator == longest[0].simulator]
    return random.Random(first[0].persona.id).choice(first)


def redteam_recordings(
    user: SentientUser,
    recordings: Sequence[Recording],
    *,
    attacks: Sequence[Attack | SearchAttack] | None = None,
    people: int = 50,
    card: EnvCard | None = None,
    seeds: int = 1,
    on_progress: Callable[[], None] = lambda: None,
) -> Iterator[AttackResult]:
    """One result an attack, as soon as it is known: each is held against `select_recordings` of the
    recordings. `on_progress` is called after each dialogue.

    `attacks` are `make_recorded_attacks(recordings)` unless given, `card` is SAGE-Sentient-v0's.
    """
    chosen = select_recordings(recordings, people)
    yield from redteam(
        RecordedSpeech(user, chosen),
        [one.persona for one in chosen],
        card=card,
        attacks=make_recorded_attacks(recordings) if attacks is None else attacks,
        seeds=seeds,
        on_progress=on_progress,
    )


def recorded_agents(
    user: SentientUser, recordings: Sequence[Recording], *, people: int = 50
) -> Iterator[AttackResult]:
    """What the same user pays the recorded agents for their own replies to the same people, the
    best first: what attacks are compared with.

    Only dialogues with the simulator that most of `select_recordings` come from. The agents
    answered what they were told, attackers speak into a dialogue that does not react to them: the
    comparison flatters the agents a little.
    """
    chosen = select_recordings(recordings, people)
    simulators = [one.simulator for one in chosen]
    usual, ids = (
        max(sorted(set(simulators)), key=simulators.count),
        {one.persona.id for one in chosen},
    )
    finals: dict[str, list[int]] = {}
    for one in replay(
        lambda recording: user,
        [one for one in recordings if one.simulator == usual and one.persona.id in ids],
    ):
        finals.setdefault(one.recording.agent, []).append(one.final)
    content_at = env_card("SAGE-Sentient-v0").content_at
    for agent, final in sorted(
        finals.items(), key=lambda item: (-sum(item[1]) / len(item[1]), item[0])
    ):
        yield AttackResult(
            agent,
            "a recorded agent, its own replies",
            False,
            sum(final) / len(final),
            100 * sum(emotion >= content_at for emotion in final) / len(final),
            len(final),
        )


def make_recorded_attacks(recordings: Sequence[Recording]) -> tuple[Attack | SearchAttack, ...]:
    """Every attack that can be held against recordings: fixed ones, those that borrow what recorded
    agents said, and searches.
    """
    bank = ReplyBank(recordings)
    return (
        *FIXED_ATTACKS,
        Attack(
            "perfect-repeated",
            "the best recorded first reply, every turn",
            bank.repeat_best,
            privileged=True,
        ),
        Attack(
            "perfect-paraphrased",
            "the best recorded first reply, lightly varied every turn",
            bank.paraphrase_best,
            privileged=True,
        ),
        Attack("stitched", "three sentences of good replies to other people", bank.stitch_others),
        SearchAttack(
            "best-of-30",
            "the best by the score of thirty mixes of stock sentences and quotes",
            _best_of_stock,
            30,
        ),
        SearchAttack(
            "best-of-30-others",
            "the best by the score of thirty good replies to other people",
            bank.best_of_others,
            30,
        ),
        SearchAttack(
            "evolution",
            "stock, quotes and others' sentences, mutated and recombined by the score",
            bank.evolve,
            _BUDGET,
        ),
    )


class _RecordedReply(NamedTuple):
    """One recorded reply."""

    persona_id: str
    turn: int
    change: float
    text: str


class ReplyBank:
    """What recorded agents said that pleased the judge, to be said to somebody else."""

    def __init__(self, recordings: Sequence[Recording]) -> None:
        """Replies that the judge did not like are left out."""
        self._replies = sorted(
            _RecordedReply(one.persona.id, turn, exchange.change, exchange.utterance)
            for one in recordings
            for turn, exchange in enumerate(one.exchanges)
            if exchange.change > 0
        )

    def _find_best_reply(self, persona: Persona) -> str:
        mine = [one for one in self._replies if one.persona_id == persona.id]
        return max(mine, key=lambda one: (-one.turn, one.change), default=_NO_REPLY).text

    def _replies_to_others(self, persona: Persona) -> list[str]:
        return [one.text for one in self._replies if one.persona_id != persona.id] or [
            _NO_REPLY.text
        ]

    def repeat_best(self, persona: Persona, seed: int, messages: Sequence[Message]) -> str:
        """The best that an agent ever answered to this person's first words."""
        return self._find_best_reply(persona)

    def paraphrase_best(self, persona: Persona, seed: int, messages: Sequence[Message]) -> str:
        """The same with another beginning and another end each turn."""
        turn = turn_of(messages) + seed
        lead, tail = _LEADS[turn % len(_LEADS)], _TAILS[turn % len(_TAILS)]
        return f"{lead}{self._find_best_reply(persona)}{tail}"

    def stitch_others(self, persona: Persona, seed: int, messages: Sequence[Message]) -> str:
        """A sentence each of three replies."""
        rng = random.Random(f"{persona.id}/{seed}/{turn_of(messages)}")
        others = self._replies_to_others(persona)
        return "".join(rng.choice(_parts(rng.choice(others))) for _ in range(3))

    def best_of_others(self, session: EmpathySession, rng: random.Random) -> str:
        """The best of thirty whole replies."""
        others = self._replies_to_others(session.scene.persona)
        return max(
            (rng.choice(others) for _ in range(30)),
            key=lambda utterance: measure_gain(session, utterance),
        )

    def evolve(self, session: EmpathySession, rng: random.Random) -> str:
        """Utterances are lists of sentences; the best are kept, recombined and mutated."""
        others = self._replies_to_others(session.scene.persona)
        bank = [
            *STOCK,
            *_quotes(session),
            *(rng.choice(_parts(rng.choice(others))) for _ in range(60)),
        ]
        known: dict[tuple[str, ...], int] = {}

        def fitness(genome: tuple[str, ...]) -> int:
            if genome not in known and len(known) < _BUDGET:
                known[genome] = measure_gain(session, "".join(genome))
            return known.get(genome, -100)

        pool = [tuple(rng.sample(bank, rng.randint(1, 3))) for _ in range(40)]
        for _ in range(_GENERATIONS):
            parents = sorted(dict.fromkeys(pool), key=fitness, reverse=True)[:12]
            pool = parents + [
                cross_over(
                    rng.choice(parents), rng.choice(parents), bank, rng, blend=_blend, longest=6
                )
                for _ in range(28)
            ]
        return "".join(max(known, key=lambda genome: known[genome]))


def _parts(text: str) -> tuple[str, ...]:
    return sentences(text) or (text,)


def _quotes(session: EmpathySession) -> list[str]:
    return [
        swap_pronouns(sentence)
        for line in session.dialogue.user_lines[-3:]
        for sentence in _parts(line)
    ]


def _best_of_stock(session: EmpathySession, rng: random.Random) -> str:
    bank = [*STOCK, *_quotes(session)]
    tried = ["".join(rng.sample(bank, rng.randint(1, 3))) for _ in range(30)]
    return max(tried, key=lambda utterance: measure_gain(session, utterance))


def _blend(one: str, other: str, rng: random.Random) -> str:
    """The head of one sentence and the tail of another."""
    return one[: rng.randint(0, len(one))] + other[rng.randint(0, len(other)) :]


_BUDGET = 220
_GENERATIONS = 12
_NO_REPLY = _RecordedReply("", 0, 0, "我在听，你慢慢说。")
_LEADS = (
    "说真的，",
    "再说一遍，",
    "我是认真的，",
    "就像我说过的，",
    "让我重复一下，",
    "还是那句话，",
    "真的，",
    "你看，",
    "嗯，",
)
_TAILS = ("真的。", "确实如此。", "我就是这么想的。", "嗯。")
