"""Hold dialogues with attackers and see what they are paid. Works on any simulated user."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rlver_gym.bench.attacks.attacks import FIXED_ATTACKS, Attack
from rlver_gym.bench.attacks.search import SEARCH_ATTACKS
from rlver_gym.core.agent import turn_of
from rlver_gym.core.cards import EnvCard, env_card
from rlver_gym.core.dialogue import Message
from rlver_gym.core.emotion import Outcome
from rlver_gym.core.persona import Persona
from rlver_gym.core.user import SentientUser
from rlver_gym.environment.rollout import run_episode
from rlver_gym.environment.session import EmpathySession
from rlver_gym.util.interval import mean_or_nan


class AttackResult(NamedTuple):
    """Mean final emotion in points and content people in percent; nan when all failed."""

    attack: str
    what: str
    searching: bool
    final: float
    content: float
    dialogues: int
    """All that were held, those that failed included."""
    failed: int = 0
    """In how many the user failed: they count in nothing else."""


def run_attacks(
    user: SentientUser,
    personas: Sequence[Persona],
    *,
    card: EnvCard | None = None,
    attacks: Sequence[Attack] = (*FIXED_ATTACKS, *SEARCH_ATTACKS),
    seeds: int = 1,
    on_progress: Callable[[], None] = lambda: None,
) -> Iterator[AttackResult]:
    """One result an attack, as soon as it is known. `on_progress` is called after each dialogue.

    `card` is SAGE-Sentient-v0's unless given. The user may be any `SentientUser`; searching attacks
    call it some hundred times a turn.
    """
    card = card or env_card("SAGE-Sentient-v0")
    for attack in attacks:
        sessions = []
        for seed in range(seeds):
            for persona in personas:
                session = EmpathySession(user, persona, card, seed)
                sessions.append(run_episode(session, _Attacker(attack, session)))
                on_progress()
        ended = [session for session in sessions if session.outcome is not Outcome.FAILED]
        yield AttackResult(
            attack.name,
            attack.what,
            attack.is_searching,
            mean_or_nan([session.emotion for session in ended]),
            100 * mean_or_nan([session.outcome is Outcome.CONTENT for session in ended]),
            len(sessions),
            len(sessions) - len(ended),
        )


class _Attacker:
    """An attack in the place of an agent."""

    def __init__(self, attack: Attack, session: EmpathySession) -> None:
        self._attack, self._session = attack, session
        self._rng = random.Random(f"{attack.name}/{session.scene.persona.id}/{session.scene.seed}")

    def reply(self, messages: Sequence[Message]) -> str:
        of_turn = random.Random(f"{self._session.scene.seed}/{turn_of(messages)}")
        return self._attack.say(self._session, self._rng if self._attack.is_searching else of_turn)
