"""What all tests share."""

import pytest

from rlver_gym.cards import EnvCard, env_card
from rlver_gym.library import library
from rlver_gym.persona import Persona
from rlver_gym.session import EmpathySession
from rlver_gym.users import EmbeddedUser


@pytest.fixture(scope="session")
def persona() -> Persona:
    """A demo persona: passive, wants praise."""
    return library().get(library().ids("demo")[-1])


@pytest.fixture(scope="session")
def card() -> EnvCard:
    """The training environment's card."""
    return env_card("RLVER-Empathy-v0")


@pytest.fixture
def session(persona: Persona, card: EnvCard) -> EmpathySession:
    """A dialogue that has begun."""
    session = EmpathySession(EmbeddedUser(), persona, card, seed=0)
    session.start()
    return session
