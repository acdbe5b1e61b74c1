"""The fidelity report: its statistics against numbers worked out by hand, and the command on a
small set of own recordings.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from paths import DATA
from typer.testing import CliRunner

from rlver_gym.agents import make_agent
from rlver_gym.audit.fidelity_checks import auc
from rlver_gym.audit.fidelity_report import run_checks
from rlver_gym.audit.left_out import split_agents
from rlver_gym.audit.replay import Swap, replay, swap_replies
from rlver_gym.cli import app
from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Appraisal, Dialogue, Reason
from rlver_gym.core.library import library
from rlver_gym.core.persona import HiddenNeed
from rlver_gym.data.recordings import Recording, read_recordings
from rlver_gym.environment.session import EmpathySession
from rlver_gym.io.correlation import correlation, correlation_within, spearman
from rlver_gym.io.errors import RecordingError, UserFailed
from rlver_gym.users import EmbeddedUser, Scene

RECORDINGS = DATA / "recordings_zh.jsonl"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("recordings")
    shutil.copy(RECORDINGS, where / "judge__several.jsonl")
    return where


@pytest.fixture(scope="module")
def recordings(folder: Path) -> list[Recording]:
    return read_recordings(folder)


class Remembers:
    """A user that feels what the recording says; it is told by the words alone."""

    kind, version = "remembers", "1"

    def __init__(self, recordings: list[Recording], sign: int = 1) -> None:
        self._changes = {
            (one.persona.id, exchange.utterance): sign * exchange.change
            for one in recordings
            for exchange in one.exchanges
        }

    def open(self, scene: Scene, emotion: int) -> str:
        return ""

    def appraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        change = self._changes.get((scene.persona.id, dialogue.utterance or ""), -10)
        return Appraisal(change, "", (Reason("known", change, "known"),))

    def speak(self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> str:
        return ""


def test_within_takes_group_means_out() -> None:
    a, b = np.array([1.0, 2, 11, 12]), np.array([2.0, 1, 2, 1])
    group = np.array(["x", "x", "y", "y"])
    assert correlation_within(a, b, group) == pytest.approx(-1)
    assert correlation(a, b) == pytest.approx(-0.0995, abs=1e-3)
    assert correlation(a, np.ones(4)) == 0


def test_spearman_shares_ranks_of_ties() -> None:
    assert spearman(np.array([1.0, 2, 3]), np.array([10.0, 20, 15])) == pytest.approx(0.5)
    assert spearman(np.array([1.0, 1, 3]), np.array([1.0, 1, 9])) == pytest.approx(1)


def test_auc_counts_ties_half() -> None:
    assert auc([Swap(2, 1), Swap(1, 1), Swap(0, 1), Swap(5, -5)]) == pytest.approx(0.625)


def test_a_user_that_feels_what_was_recorded_agrees_perfectly(recordings: list[Recording]) -> None:
    user = Remembers(recordings)
    for one in replay(lambda _: user, recordings):
        assert one.final == one.recording.final
        assert [heard.change for heard in one.turns] == [
            exchange.change for exchange in one.recording.exchanges
        ]
    checks = {
        check.name: check for check in run_checks("perfect", lambda _: user, recordings).checks
    }
    assert checks["partial r"].value == pytest.approx(1)
    assert checks["dialogue r within persona"].value == pytest.approx(1)
    assert checks["swapped-reply AUC"].value > 0.5


def test_a_user_that_feels_the_opposite_disagrees(recordings: list[Recording]) -> None:
    user = Remembers(recordings, sign=-1)
    checks = {
        check.name: check for check in run_checks("opposite", lambda _: user, recordings).checks
    }
    assert checks["partial r"].value == pytest.approx(-1)
    assert checks["dialogue r within persona"].value < -0.8


class FailsAt(Remembers):
    """A user whose server breaks down with some people."""

    def __init__(self, recordings: list[Recording], *people: str) -> None:
        super().__init__(recordings)
        self._people = people

    def appraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        if scene.persona.id in self._people:
            raise UserFailed("the server gave no usable answer")
        return super().appraise(scene, emotion, dialogue)


def test_a_failure_costs_its_dialogue_and_not_the_report(recordings: list[Recording]) -> None:
    person = recordings[0].persona.id
    user, others = (
        FailsAt(recordings, person),
        [one for one in recordings if one.persona.id != person],
    )
    section = run_checks("fails", lambda _: user, recordings)
    assert len(section.failures) == len(recordings) - len(others)
    assert (
        section.failures[0]
        == f"{recordings[0].agent} with {person}: the server gave no usable answer"
    )
    assert section[1:-1] == run_checks("never asked", lambda _: Remembers(recordings), others)[1:-1]


def test_a_user_that_fails_at_everybody_is_no_report(recordings: list[Recording]) -> None:
    user = FailsAt(recordings, *(one.persona.id for one in recordings))
    with pytest.raises(UserFailed, match="no usable answer"):
        run_checks("fails", lambda _: user, recordings)


def test_replay_never_shows_recorded_emotions(recordings: list[Recording]) -> None:
    seen = []

    class Spy(Remembers):
        def appraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
            seen.extend((turn.appraisal.change, turn.emotion) for turn in dialogue.turns)
            return Appraisal(1, "", (Reason("one", 1, ""),))

    user = Spy([])
    replay(lambda _: user, recordings)
    swap_replies(lambda _: EmbeddedUser(), recordings)
    assert seen
    assert {change for change, _ in seen} == {1}


def test_halves_are_seeded_and_share_nobody() -> None:
    pairs = split_agents(("a", "b", "c", "d"), 5)
    assert pairs == split_agents(("d", "c", "b", "a"), 5)
    assert all(not set(one) & set(other) and len(one) == len(other) == 2 for one, other in pairs)


def test_the_command_prints_checks_with_intervals_and_draws(folder: Path, tmp_path: Path) -> None:
    figure = tmp_path / "figure.svg"
    arguments = ["fidelity", str(folder), "--simulator", "", "--no-left-out"]
    result = CliRunner().invoke(app, [*arguments, "--figure", str(figure)])
    assert result.exit_code == 0, result.output
    assert "turn-1 r within persona" in result.stdout
    assert "0.94" in result.stdout
    assert figure.read_text(encoding="utf-8").startswith("<svg")
    printed = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    sections = printed["sections"]
    assert {name: printed[name] for name in sections[0]["summary"]} == sections[0]["summary"]
    assert len(sections[0]["agents"]) >= 3
    for _, value, low, high, _ in sections[0]["checks"]:
        assert low <= value + 1e-9 or value <= high + 1e-9


def test_a_missing_simulator_is_named(folder: Path) -> None:
    result = CliRunner().invoke(app, ["fidelity", str(folder), "--simulator", "nobody"])
    assert result.exit_code != 0
    assert "nobody" in str(result.exception)


def record(
    folder: Path, agents: tuple[str, ...], people: tuple[str, ...], *, sign: int = 1, **told: str
) -> None:
    """What the embedded user feels when these agents talk to these shipped people, as recordings of
    a judge named reader.
    """
    for agent in agents:
        lines = []
        for person in people:
            session = EmpathySession(
                EmbeddedUser(), library().get(person), env_card("SAGE-Sentient-v0"), 0
            )
            session.start()
            speaker = make_agent(agent, session.scene.persona)
            while session.outcome is None:
                session.reply(speaker.reply(tuple(session.dialogue.messages())))
            messages: list[dict] = [
                {"role": "user", "text": session.dialogue.opening, "emotion": 40}
            ]
            for turn in session.dialogue.turns:
                messages.append({"role": "agent", "text": turn.utterance})
                felt = {"change": sign * turn.appraisal.change, "emotion": turn.emotion}
                messages.append({"role": "user", "text": turn.reply or "", **felt})
            line = {
                "simulator": "reader",
                "agent": agent,
                "persona": person.partition("/")[0],
                **told,
            }
            lines.append(json.dumps({**line, "final": session.emotion, "messages": messages}))
        (folder / f"reader__{agent}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def printed_summary(folder: Path) -> dict:
    result = CliRunner().invoke(app, ["fidelity", str(folder), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


PEOPLE = library().ids("demo")[:3]


def test_recordings_of_shipped_people_are_judged_by_their_cards(tmp_path: Path) -> None:
    record(tmp_path, ("listener", "oracle", "adaptive"), PEOPLE)
    summary = printed_summary(tmp_path)
    assert summary["turns"] >= 20
    assert [
        summary[name] for name in ("within_r", "within_agent_r", "turn1_r", "agents_rho", "sign")
    ] == [1] * 5
    assert summary["gap"] is None
    assert all(replayed == recorded for replayed, recorded in summary["agents"].values())


def test_a_judge_of_the_other_opinion_disagrees_wholly(tmp_path: Path) -> None:
    record(tmp_path, ("listener", "oracle"), PEOPLE, sign=-1)
    assert printed_summary(tmp_path)["within_r"] == -1


def test_the_need_that_a_recording_names_counts(tmp_path: Path) -> None:
    person, need = PEOPLE[0], HiddenNeed.PRAISE
    assert library().get(person).need is not need
    record(tmp_path, ("adaptive",), (f"{person}/{need}",), need=need)
    (one,) = read_recordings(tmp_path)
    assert one.persona.need is need
    assert one.persona.situation.anchors == library().get(person).situation.anchors


def test_somebody_unknown_must_be_described(tmp_path: Path) -> None:
    record(tmp_path, ("adaptive",), PEOPLE[:1])
    path = tmp_path / "reader__adaptive.jsonl"
    path.write_text(
        path.read_text(encoding="utf-8").replace(PEOPLE[0], "nobody-known"), encoding="utf-8"
    )
    with pytest.raises(RecordingError, match="need, disposition: must be told"):
        read_recordings(tmp_path)
