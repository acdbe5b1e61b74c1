"""One dialogue between an agent and a sentient user. Knows no gym and no torch: every loop is a thin layer on this."""

from typing import NamedTuple

from rlver_gym.cards import EnvCard
from rlver_gym.dialogue import Appraisal, Dialogue, Reason, Turn
from rlver_gym.emotion import MAX_CHANGE, Outcome, moved
from rlver_gym.errors import DialogueError, UserFailed
from rlver_gym.persona import Persona
from rlver_gym.rewards import REWARDS
from rlver_gym.users.base import Scene, SentientUser
from rlver_gym.utterance import cleaned


class Snapshot(NamedTuple):
    """Everything that moves in a session: restore it to go on from there, as often as wanted."""

    emotion: int
    dialogue: Dialogue | None
    outcome: Outcome | None


class EmpathySession:
    """A dialogue: `start`, then `reply` until `outcome` is set."""

    def __init__(self, user: SentientUser, persona: Persona, card: EnvCard, seed: int = 0) -> None:
        """The same user, persona, card, seed and utterances give the same dialogue."""
        self.user = user
        self.scene = Scene(persona, card, seed)
        self._now = Snapshot(card.start, None, None)

    @property
    def emotion(self) -> int:
        """The emotion score now, in [0, 100]."""
        return self._now.emotion

    @property
    def dialogue(self) -> Dialogue:
        """What was said so far."""
        if self._now.dialogue is None:
            raise DialogueError("the dialogue has not begun. Call start() (or the environment's reset()) first.")
        return self._now.dialogue

    @property
    def outcome(self) -> Outcome | None:
        """How the dialogue ended; None while it goes on."""
        return self._now.outcome

    def start(self) -> str:
        """The user's first words. Called again, it begins anew."""
        card = self.scene.card
        opening = self.user.open(self.scene, card.start)
        self._now = Snapshot(card.start, Dialogue(opening), None)
        return opening

    def heard(self, utterance: str) -> str:
        """The utterance as the user would hear it now; nothing is said yet. Raises what `reply` would raise for it."""
        if self.outcome is not None:
            raise DialogueError(
                f"the dialogue is over ({self.outcome}). Call start() (or the environment's reset()) for a new one."
            )
        _ = self.dialogue
        return cleaned(utterance, self.scene.card.max_utterance_chars, self.scene.card.overlong)

    def reply(self, utterance: str) -> Turn:
        """Say something to the user; the turn holds the appraisal, the new emotion, the reward and the user's answer.

        A user that raises UserFailed ends the dialogue: outcome "failed", emotion as before, reward 0, no answer.
        Raises DialogueError before the start and after the end, UtteranceError for what is not usable text.
        """
        words = self.heard(utterance)
        dialogue = self.dialogue.said(words)
        try:
            turn = self._taken(dialogue, words)
        except UserFailed as failure:
            nothing = Appraisal(0, "", (Reason("failed", 0.0, f"the user failed: {failure}"),))
            turn = Turn(words, nothing, self.emotion, 0.0, Outcome.FAILED, "")
        self._now = Snapshot(turn.emotion, dialogue.answered(turn), turn.outcome)
        return turn

    def _taken(self, dialogue: Dialogue, words: str) -> Turn:
        card = self.scene.card
        appraisal = self.user.appraise(self.scene, self.emotion, dialogue)
        if not -MAX_CHANGE <= appraisal.change <= MAX_CHANGE:
            raise ValueError(
                f"the user {self.user.kind!r} changed the emotion by {appraisal.change}; at most {MAX_CHANGE} points a turn are allowed"
            )
        emotion = moved(self.emotion, appraisal.change)
        outcome = card.outcome(emotion, len(dialogue.turns) + 1)
        reward = REWARDS[card.reward](self.emotion, emotion, outcome)
        answer = self.user.speak(self.scene, emotion, dialogue, appraisal)
        return Turn(words, appraisal, emotion, reward, outcome, answer)

    def snapshot(self) -> Snapshot:
        """The state as a value; it can be pickled, kept, and restored into any session of the same scene."""
        return self._now

    def restore(self, snapshot: Snapshot) -> None:
        """Go back (or over) to a snapshot. Raises DialogueError for what is none."""
        if not isinstance(snapshot, Snapshot):
            raise DialogueError(f"cannot restore a {type(snapshot).__name__}. Give what snapshot() gave.")
        self._now = snapshot
