"""Be the supporter: dialogues that somebody holds here with a simulated person, kept in memory."""

import secrets
from collections import OrderedDict
from threading import RLock
from typing import TypeVar

from rlver_gym.core.cards import env_card, shipped_env_ids
from rlver_gym.core.dialogue import Dialogue
from rlver_gym.environment.episode import Episode
from rlver_gym.environment.session import EmpathySession
from rlver_gym.environment.snapshot import Snapshot
from rlver_gym.library.personas import library
from rlver_gym.studio.people import read_lean_card
from rlver_gym.studio.request_fields import Name, Seed, Words
from rlver_gym.studio.speakers import Speakers, make_offline_user
from rlver_gym.studio.views import Json, view_session
from rlver_gym.util.errors import DialogueError, check_known

MAX_OPEN = 200
T = TypeVar("T")


class OpenDialogues(OrderedDict[str, T]):
    """What is open, by an id; the oldest makes room for another one."""

    def put(self, value: T) -> str:
        key = secrets.token_hex(4)
        self[key] = value
        while len(self) > MAX_OPEN:
            self.popitem(last=False)
        return key

    def take(self, key: str) -> T:
        """DialogueError when it is gone."""
        try:
            return self[key]
        except KeyError:
            raise DialogueError("this talk is not open any more. Begin a new one.") from None


class Talks:
    """All talks with a simulated person."""

    def __init__(self, speakers: Speakers, personas: str | None = None) -> None:
        """`speakers`: who may give a hint; `personas`: as `library` takes them."""
        self._speakers, self._personas = speakers, personas
        self._open: OpenDialogues[EmpathySession] = OpenDialogues()
        self._lock = RLock()

    def begin(self, env: Name, persona: Name = "", seed: Seed = 0, card: Words = "") -> Json:
        """Hear the first words of somebody, or of the person of a lean card."""
        known = shipped_env_ids()
        check_known("environment", env, known)
        who = read_lean_card(card) if card else library(self._personas).get(persona)
        session = EmpathySession(make_offline_user(), who, env_card(env), seed)
        session.start()
        with self._lock:
            return {"id": self._open.put(session), **view_session(session)}

    def say(self, talk: Name, words: Words) -> Json:
        with self._lock:
            session = self._open.take(talk)
            session.reply(words)
            return {"id": talk, **view_session(session)}

    def hint(self, talk: Name, agent: Name) -> Json:
        """What an agent would say now; nothing is said."""
        session = self._open.take(talk)
        speaker = self._speakers.make_agent(agent, session.scene)
        return {"words": speaker.reply(tuple(session.dialogue.messages()))}

    def undo(self, talk: Name) -> Json:
        with self._lock:
            session = self._open.take(talk)
            dialogue = session.dialogue
            session.restore(snapshot_before(session, dialogue, len(dialogue.turns)))
            return {"id": talk, **view_session(session)}

    def record(self, talk: Name) -> Json:
        """The talk as a line of a run's episodes.jsonl, by the agent "human"."""
        return {"line": Episode.of(self._open.take(talk), "human").to_json()}


def snapshot_before(session: EmpathySession, dialogue: Dialogue, turn: int) -> Snapshot:
    """The state of the session's dialogue before a turn, counted from 1."""
    kept = dialogue.turns[: max(0, turn - 1)]
    emotion = kept[-1].emotion if kept else session.scene.card.start
    return Snapshot(emotion, Dialogue(dialogue.opening, kept), None)
