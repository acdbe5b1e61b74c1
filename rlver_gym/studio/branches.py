"""Another reply from any turn of a recorded dialogue, kept in studio/branches.jsonl."""

import secrets
from threading import Lock
from typing import NamedTuple

from rlver_gym.bench.side_files import BRANCHES
from rlver_gym.core.cards import MAX_TURNS
from rlver_gym.core.dialogue import Dialogue, Turn
from rlver_gym.environment.episode import parse_turn, turn_to_dict
from rlver_gym.environment.session import EmpathySession
from rlver_gym.studio.request_fields import Name, TurnNumber, Words
from rlver_gym.studio.runs import Run, Runs
from rlver_gym.studio.speakers import Speakers, make_offline_user
from rlver_gym.studio.talks import snapshot_before
from rlver_gym.studio.views import Json
from rlver_gym.util.errors import DialogueError, RunError, UnknownName
from rlver_gym.util.json_lines import append_json, read_json_lines

YOU = "you"


class _Branch(NamedTuple):
    """What was said instead, from a turn (counted from 1) on, and by whom."""

    id: str
    dialogue: str
    turn: int
    by: tuple[str, ...] = ()
    turns: tuple[Turn, ...] = ()

    def to_dict(self) -> Json:
        return {**self._asdict(), "turns": [turn_to_dict(turn) for turn in self.turns]}


class Branches:
    """The branches of all open runs. The file's last line of an id is what it has come to."""

    def __init__(self, runs: Runs, speakers: Speakers) -> None:
        self._runs, self._speakers = runs, speakers
        self._lock = Lock()

    def of(self, run: Name, dialogue: Name) -> list[Json]:
        return [
            branch for branch in self.all_of(self._runs.run(run)) if branch["dialogue"] == dialogue
        ]

    def all_of(self, run: Run) -> list[Json]:
        return [branch.to_dict() for branch in _read_branches(run).values()]

    def begin(
        self,
        run: Name,
        dialogue: Name,
        turn: TurnNumber,
        words: Words = "",
        agent: Name = "",
        to_the_end: bool = False,
    ) -> Json:
        """Say something else at a turn: words, or what an agent says, and (`to_the_end`) goes on
        to say. RlverError where the dialogue cannot be held again here. What an agent remembers
        beside the messages is lost with the end of the request.
        """
        benched = self._runs.run(run)
        count = len(benched.find(dialogue).turns)
        if turn > count:
            raise UnknownName(f"there is no turn {turn} in {dialogue}. It has {count}.")
        branch = _Branch(secrets.token_hex(4), dialogue, turn)
        return self._extend(benched, branch, words, agent, to_the_end)

    def go_on(
        self, run: Name, branch: Name, words: Words = "", agent: Name = "", to_the_end: bool = False
    ) -> Json:
        """The next turn of a branch. DialogueError when another request has taken it."""
        benched = self._runs.run(run)
        kept = _read_branches(benched)
        if branch not in kept:
            raise UnknownName(f"there is no branch {branch[:80]!r} in {run}. Begin one.")
        return self._extend(benched, kept[branch], words, agent, to_the_end)

    def _extend(self, run: Run, branch: _Branch, words: str, agent: str, to_the_end: bool) -> Json:
        session, by = self._replay(run, branch), list(branch.by)
        speaker = self._speakers.make_agent(agent, session.scene) if agent else None
        while True:
            messages = tuple(session.dialogue.messages())
            session.reply(speaker.reply(messages) if speaker else words)
            by.append(agent or YOU)
            if session.outcome is not None or not (to_the_end and agent):
                break
        turns = session.dialogue.turns[branch.turn - 1 :]
        longer = branch._replace(by=tuple(by), turns=turns).to_dict()
        with self._lock:  # for the file alone: an agent may take its time
            if _read_branches(run).get(branch.id, branch) != branch:
                raise DialogueError("the branch has gone on meanwhile. Load it anew.")
            append_json(run.folder, BRANCHES, longer)
        return longer

    def _replay(self, run: Run, branch: _Branch) -> EmpathySession:
        """The record up to the branch's turn, and everything said in the branch, said again."""
        episode = run.find(branch.dialogue)
        card, persona = self._runs.cards(run, episode)
        session = EmpathySession(make_offline_user(), persona, card, episode.seed)
        recorded = Dialogue(episode.opening, episode.turns)
        session.restore(snapshot_before(session, recorded, branch.turn))
        for turn in branch.turns:
            session.reply(turn.utterance)
        return session


def _read_branches(run: Run) -> dict[str, _Branch]:
    branches: dict[str, _Branch] = {}
    for where, line in read_json_lines(run.folder, BRANCHES):
        try:
            turns = tuple(parse_turn(turn, number) for number, turn in enumerate(line["turns"], 1))
            names = tuple(map(str, line["by"]))
            if not turns or len(names) != len(turns) or line["turn"] not in range(1, MAX_TURNS + 1):
                raise ValueError("its turns do not fit")
            key = str(line["id"])
            branches[key] = _Branch(key, str(line["dialogue"]), line["turn"], names, turns)
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"{where}: is no branch ({error}). Remove the line.") from error
    return branches
