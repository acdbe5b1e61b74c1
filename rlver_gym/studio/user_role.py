"""Be the one in need: an agent supports you, and you rate each reply as it feels."""

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from rlver_gym.bench.raters import RATINGS
from rlver_gym.core.agent import Agent
from rlver_gym.core.dialogue import Message, clean_utterance
from rlver_gym.core.emotion import apply_change
from rlver_gym.studio.request_fields import Change, Name, Rater, Words
from rlver_gym.studio.speakers import Speakers
from rlver_gym.studio.talks import OpenDialogues
from rlver_gym.studio.views import Json
from rlver_gym.util.errors import DialogueError, UtteranceError
from rlver_gym.util.json_lines import append_json

KIND = {"kind": "first_person"}
DIALOGUES = "dialogues.jsonl"
START, MAX_CHARS = 40, 4_000


@dataclass
class _UserRoleDialogue:
    """What somebody said, what was replied, and how each reply felt as far as it is rated."""

    rater: str
    agent: str
    key: str
    speaker: Agent
    said: list[str] = field(default_factory=list)
    replies: list[str] = field(default_factory=list)
    changes: list[int] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)
    """Held while the agent answers, which may take its time: others do not wait for it."""

    def say(self, words: str) -> None:
        """Say something; the agent replies. UtteranceError for nothing."""
        if not words.strip():
            raise UtteranceError("Say what is on your mind first.")
        said = [*self.said, clean_utterance(words, MAX_CHARS, "truncate")]
        messages = []
        for at, text in enumerate(said):
            messages.append(Message("user", text))
            messages += [Message("agent", reply) for reply in self.replies[at : at + 1]]
        reply = self.speaker.reply(tuple(messages))
        self.said = said
        self.replies.append(clean_utterance(reply, MAX_CHARS, "truncate"))

    def view(self, talk: str) -> Json:
        """As the page shows it, with the emotion line from the start."""
        line = [START]
        for change in self.changes:
            line.append(apply_change(line[-1], change))
        names = ("rater", "agent", "key", "said", "replies", "changes")
        return {"id": talk, "line": line, **{name: getattr(self, name) for name in names}}


class UserRoleDialogues:
    """All talks of this kind that are open."""

    def __init__(self, folder: Path, speakers: Speakers) -> None:
        self._folder, self._speakers = folder, speakers
        self._open: OpenDialogues[_UserRoleDialogue] = OpenDialogues()

    def begin(self, rater: Rater, agent: Name, words: Words) -> Json:
        """The first words. UnknownName for an agent that may not support a person in need."""
        speaker = self._speakers.make_agent(agent, None)
        key = f"{agent}/{rater}/{secrets.randbelow(10**9)}"
        dialogue = _UserRoleDialogue(rater, agent, key, speaker)
        dialogue.say(words)
        self._keep(dialogue)
        return dialogue.view(self._open.put(dialogue))

    def _keep(self, dialogue: _UserRoleDialogue) -> None:
        """What was said so far; a later line of the dialogue replaces an earlier one."""
        words = {"agent": dialogue.agent, "said": dialogue.said, "replies": dialogue.replies}
        append_json(self._folder, DIALOGUES, {**_place(dialogue), **words})

    def rate(self, talk: Name, change: Change) -> Json:
        """How the last reply felt; kept at once. A second rating replaces the first."""
        dialogue = self._open.take(talk)
        with dialogue.lock:
            turn = len(dialogue.replies)
            rating = {**_place(dialogue), "turn": turn, "change": change}
            append_json(self._folder, RATINGS, rating)
            dialogue.changes[turn - 1 :] = [change]  # not before it is on the disk
            return dialogue.view(talk)

    def say(self, talk: Name, words: Words) -> Json:
        """Go on. DialogueError before the last reply was rated."""
        dialogue = self._open.take(talk)
        with dialogue.lock:
            if len(dialogue.changes) < len(dialogue.replies):
                raise DialogueError("rate the last reply first: how did it feel?")
            dialogue.say(words)
            self._keep(dialogue)
            return dialogue.view(talk)


def _place(dialogue: _UserRoleDialogue) -> Json:
    return {"dialogue": dialogue.key, "rater": dialogue.rater, **KIND}
