"""How people answer: what the agent did decides in which of their manners, for every reason there
is.
"""

import ast
from pathlib import Path

import pytest

from rlver_gym.conversation.parse import Act
from rlver_gym.core import ledger
from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Reason, ReasonCode, Turn
from rlver_gym.core.ledger import ACT_IN_WORDS, KIND_IN_WORDS
from rlver_gym.core.library import library
from rlver_gym.core.persona import Anchors, Disposition, Manner, Persona
from rlver_gym.environment.session import EmpathySession
from rlver_gym.users import EmbeddedUser
from rlver_gym.users.embedded import appraise, evidence
from rlver_gym.users.embedded.appraise import FORM_IN_WORDS
from rlver_gym.users.embedded.priors import load_priors
from rlver_gym.users.embedded.speech.react import REACTION_TO
from rlver_gym.users.embedded.speech.reactions import ANSWERS, reaction_to
from rlver_gym.users.embedded.weights import FACTORS

SALAD = (
    "That of you you SaturdayItG lonely to carry carry That must you hurt That that You youYouYou"
    " worn worn with by life."
)
FOOTBALL = (
    "Jonas scored twice on Saturday, and Priya's team won the football match three to one in the"
    " rain. Their coach cried, and the whole stadium sang until midnight."
)
FAMILIES = {
    "act": {*ACT_IN_WORDS, "told_back"},
    "prior": {act for acts in load_priors().acts.values() for act in acts},
    "anchor": set(KIND_IN_WORDS),
    "temper": set(Disposition),
}
"""What may follow the colon of a code."""


def codes_of(module: object) -> set[str]:
    """The codes that a module of the appraiser adds to the ledger, as they stand in its source; of
    a code put together, what stands before the colon.
    """
    tree = ast.parse(Path(str(getattr(module, "__file__", ""))).read_text(encoding="utf-8"))
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    added = [call.args[0] for call in calls if call.func.attr == "add"]  # pyright: ignore[reportAttributeAccessIssue]
    parts = [node for code in added for node in ast.walk(code)]
    fixed = {
        ReasonCode[node.attr].value
        for node in parts
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "ReasonCode"
    }
    return fixed | {
        node.value
        for node in parts
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@pytest.mark.parametrize(
    "module", [appraise, evidence, ledger], ids=lambda module: module.__name__.rpartition(".")[2]
)
def test_every_code_that_the_appraiser_adds_has_an_answer(module: object) -> None:
    codes = codes_of(module)
    assert len(codes) > 2
    for code in codes:
        family, colon, _ = code.partition(":")
        if colon:
            assert {f"{family}:{one}" for one in FAMILIES[family]} <= ANSWERS.keys()
        elif code != "/":
            assert code in ANSWERS


def test_every_factor_has_an_answer() -> None:
    assert {*FACTORS, "whole"} <= ANSWERS.keys()


def test_every_form_that_measured_weights_weigh_has_an_answer() -> None:
    assert FORM_IN_WORDS.keys() <= ANSWERS.keys()


def test_every_manner_of_the_cards_answers_something() -> None:
    felt = {
        manner for answer in ANSWERS.values() for manner in (answer.gain, answer.loss) if manner
    }
    done = {act.value for act in Act} - {Act.COMMAND}
    asked = {"unknown", "unsure", "not_yet", "corrects", "yes", "no", "asked_again"}
    said = {*REACTION_TO.values(), "unconfirmed"}
    voice = {"openers", "tags"}
    assert felt | done | asked | said | voice == {
        name for name in Manner.model_fields if not name.startswith("goodbye")
    }


def test_anchors_of_every_kind_have_an_answer() -> None:
    assert {f"anchor:{kind}" for kind in Anchors.model_fields} <= ANSWERS.keys()


def first_turn(persona: Persona, utterance: str) -> Turn:
    session = EmpathySession(EmbeddedUser(), persona, env_card("RLVER-Empathy-v0"), 0)
    session.start()
    return session.reply(utterance)


@pytest.mark.parametrize(
    "words", [SALAD, FOOTBALL], ids=["word salad", "somebody else's football match"]
)
@pytest.mark.parametrize("persona_id", library().ids("demo"))
def test_what_nobody_can_follow_puzzles(persona_id: str, words: str) -> None:
    person = library().get(persona_id).person
    turn = first_turn(library().get(persona_id), words)
    assert turn.reply.startswith(person.manner.puzzled)
    assert turn.appraisal.thought in person.thoughts.puzzled


@pytest.mark.parametrize(
    "code", ["broken", "torn", "elsewhere", "strangers", "nonsense", "silence", "foreign"]
)
def test_all_that_does_not_belong_puzzles(code: str) -> None:
    assert (
        reaction_to((Reason(code, -2.0, "why"), Reason("act:advice", -1.0, "why")), -3) == "puzzled"
    )


def test_a_word_from_elsewhere_puzzles_nobody() -> None:
    reasons = (Reason("elsewhere", -0.25, "why"), Reason("act:advice", -0.5, "why"))
    assert reaction_to(reasons, -1) == "pushed"


def test_what_is_unwelcome_adds_up() -> None:
    """A list of advice with a stock phrase in it is advice."""
    reasons = (
        Reason("act:cliche", -2.5, "why"),
        Reason("act:advice", -2.0, "why"),
        Reason("list", -1.5, "why"),
    )
    assert reaction_to(reasons, -6) == "pushed"


def test_what_hurts_is_never_the_answer_to_a_gain() -> None:
    """Weights that were measured may give an insult a few points."""
    assert (
        reaction_to((Reason("act:insult", 0.5, "why"), Reason("act:validate", 0.25, "why")), 1)
        == "heard"
    )
