"""Dialogues appraised again by another user."""

from rlver_gym import Appraisal, EmpathySession, Scene
from rlver_gym.core.dialogue import Dialogue
from rlver_gym.environment.rescore import reappraise, reappraise_texts
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import UserFailed

REPLIES = (
    "What was that like for you?",
    "It sounds lonely to carry all of that.",
    "Buy a boat.",
    "I see.",
)


def hold(card, persona_id):
    session = EmpathySession(EmbeddedUser(), library().get(persona_id), card, seed=3)
    session.start()
    for reply in REPLIES:
        if session.outcome is None:
            session.reply(reply)
    return session


def test_the_same_user_feels_what_it_felt(card):
    for persona in library().ids("demo"):
        session = hold(card, persona)
        texts = [one.text for one in session.dialogue.messages()]
        felt = reappraise_texts(EmbeddedUser(), session.scene, texts)
        assert felt is not None
        assert card.final_emotion(x.appraisal.change for x in felt) == session.emotion


class Leaving(EmbeddedUser):
    """Takes everything badly, and fails for a boat."""

    def appraise(self, scene, emotion, dialogue):
        if "boat" in dialogue.utterance:
            raise UserFailed("no boats")
        return Appraisal(-10, "", ())


def test_what_follows_the_end_of_another_user_counts_no_more_and_a_failure_is_no_score(card):
    texts = ["It hurts.", "One.", "a", "Two.", "b", "Three.", "c", "Four.", "d", "Buy a boat."]
    scene = Scene(library().get(library().ids("demo")[0]), card, 0)
    felt = reappraise_texts(Leaving(), scene, texts)
    assert felt is not None
    assert [turn.emotion for turn in felt] == [30, 20, 10, 0]
    assert reappraise_texts(Leaving(), scene, texts[:1] + texts[-1:]) is None


def test_what_is_said_after_the_end_of_another_user_is_appraised_at_the_start_emotion(card):
    scene = Scene(library().get(library().ids("demo")[0]), card, 0)
    recorded = Dialogue.of_words("It hurts.", [("Go.", "No.")] * 8, card.start)
    felt = list(reappraise(Leaving(), scene, recorded))
    ends = [one.emotion for one in felt].index(0)
    assert card.final_emotion(x.appraisal.change for x in felt) == 0
    assert felt[ends + 1].emotion == felt[0].emotion == card.start - 10
