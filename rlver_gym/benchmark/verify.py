"""Recompute a run: every appraisal, emotion, reward and answer must come out as it was recorded."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rlver_gym.agents import asks_server
from rlver_gym.benchmark.folder import EPISODES, TAPE, read_manifest
from rlver_gym.benchmark.plan import BenchPlan, fingerprint
from rlver_gym.chat.settings import ChatSettings
from rlver_gym.episode import Episode
from rlver_gym.errors import NotOnTape, RlverError, RunError
from rlver_gym.session import EmpathySession
from rlver_gym.users import SentientUser


class Divergence(NamedTuple):
    """The first thing in an episode that is not as recorded. `turn` counts from 1; 0 is the opening and the episode's own fields."""

    line: int
    episode: str
    turn: int
    what: str

    def __str__(self) -> str:
        return f"line {self.line}, episode {self.episode}, turn {self.turn}: {self.what}"


def verify(folder: Path, tape: Path | None = None) -> Iterator[Divergence | None]:
    """One result an episode of the run: None when it is sound, else its first divergence. At the end, one for what is missing.

    Needs none of the agents, and no server: what agents said is recorded, and what the server of an LLM user answered is on the run's tape
    (or on `tape`). Raises RunError when the folder or its tape cannot be read, or was made with cards or a user that are not these.
    """
    plan, manifest = _plan(folder)
    user = plan.make_user(_replaying(folder, manifest, tape) if asks_server(plan.user) else None)
    expected = plan.cases()
    path = folder / EPISODES
    try:
        data = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path}: cannot be read ({error}). Is {folder} the folder of a run?") from error
    if data and not data.endswith("\n"):
        raise RunError(f"{path}: the last line is cut off. Run the same bench command again to finish it.")
    lines = data.split("\n")[:-1]
    for number, line in enumerate(lines, 1):
        yield _check(line, number, plan, user, expected[number - 1] if number <= len(expected) else None)
    if len(lines) < len(expected):
        yield Divergence(
            len(lines) + 1,
            "/".join(map(str, expected[len(lines)])),
            0,
            f"{len(expected) - len(lines)} episodes of the plan are missing",
        )


def _plan(folder: Path) -> tuple[BenchPlan, Mapping[str, object]]:
    """The plan of the manifest, when all that the manifest pins is so here too, and the manifest."""
    manifest = read_manifest(folder)
    try:
        plan = BenchPlan.model_validate({**manifest["plan"], "personas": manifest["persona_folder"]})  # pyright: ignore[reportGeneralTypeIssues]
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"{folder}: the manifest does not hold a plan ({error}). Was it edited?") from error
    pinned = {**plan.judged, **{name: manifest[name] for name in ("package", "agents", "server") if name in manifest}}
    here = {**plan.judged, "env_card": plan.card.model_dump(mode="json"), "fingerprint": fingerprint(pinned)}
    for name, value in here.items():
        if manifest.get(name) != value:
            raise RunError(
                f"{folder} was made with other cards, another user version or an edited manifest: {name} is {_short(manifest.get(name))}, "
                f"here it is {_short(value)}. So it cannot be recomputed. Use the package version in its manifest."
            )
    return plan, manifest


def _replaying(folder: Path, manifest: Mapping[str, object], tape: Path | None) -> ChatSettings:
    """The way to the tape with the answers of the user's server."""
    for path in [tape] if tape else [folder / TAPE, Path(str(manifest.get("tape")))]:
        if path.exists():
            return ChatSettings(tape=path, tape_mode="replay")
    raise RunError(
        f"{tape or folder / TAPE}: there is no tape, so nothing can be recomputed without the server. Put the run's tape there, or name it with --tape."
    )


def _check(
    line: str, number: int, plan: BenchPlan, user: SentientUser, expected: tuple[str, str, int] | None
) -> Divergence | None:
    try:
        recorded = Episode.from_json(line)
    except RunError as error:
        return Divergence(number, "?", 0, str(error))
    name = "/".join(map(str, recorded.key))
    if recorded.key != expected:
        return Divergence(
            number, name, 0, f"the plan has {'/'.join(map(str, expected)) if expected else 'no more episodes'} here"
        )
    session = EmpathySession(user, plan.library.get(recorded.persona), plan.card, recorded.seed)
    try:
        again = replayed(session, recorded).to_json()
    except RlverError as error:
        return Divergence(number, name, len(session.dialogue.turns) + 1 if session.begun else 0, _why(error))
    found = _first_difference(json.loads(line), json.loads(again))
    if found:
        return Divergence(number, name, *found)
    return None if line == again else Divergence(number, name, 0, "its values are right, but they were written anew")


class _Found(NamedTuple):
    turn: int
    what: str


_SUMMARY = ("outcome", "final", "return")


def _first_difference(theirs: dict[str, Any], ours: dict[str, Any]) -> _Found | None:
    """Header fields, then turn by turn, then the summary; None when the records are equal."""
    if found := _fields(theirs, ours) or _values(
        theirs, ours, [name for name in ours if name not in (*_SUMMARY, "turns")]
    ):
        return _Found(0, found)
    their_turns, our_turns = theirs["turns"], ours["turns"]
    for turn, (recorded, recomputed) in enumerate(zip(their_turns, our_turns, strict=False), 1):
        if found := _fields(recorded, recomputed) or _values(recorded, recomputed, recomputed):
            return _Found(turn, found)
    last = len(our_turns)
    if len(their_turns) != last:
        return _Found(last, f"{len(their_turns)} turns are recorded, but it ends after {last}")
    found = _values(theirs, ours, _SUMMARY)
    return _Found(last, found) if found else None


def replayed(session: EmpathySession, recorded: Episode) -> Episode:
    """The episode that the recorded utterances give now, in a session of the same scene."""
    session.start()
    for turn in recorded.turns:
        if session.outcome is not None:
            break
        session.reply(turn.utterance)
    return Episode.of(session, recorded.agent)


def _why(error: RlverError) -> str:
    if isinstance(error, NotOnTape):
        return "the tape holds no answer to this: what was said or felt was changed after it was recorded, or it is not the run's tape"
    return str(error)


def _fields(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str | None:
    """The first field that one has and the other has not."""
    for name in theirs:
        if name not in ours:
            return f"the field {name!r} does not belong there"
    for name in ours:
        if name not in theirs:
            return f"the field {name!r} is missing"
    return None


def _values(theirs: Mapping[str, Any], ours: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """The first of the named fields in which they differ."""
    for name in names:
        if theirs[name] != ours[name] or type(theirs[name]) is not type(ours[name]):
            if name == "check":
                return "its text was changed after it was recorded (the checksum does not fit)"
            return f"{name} is recorded as {_short(theirs[name])}, recomputed it is {_short(ours[name])}"
    return None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:157]}…"
