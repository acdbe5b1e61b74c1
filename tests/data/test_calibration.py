"""Calibration on a small set of own recordings and on ratings: it finds what was put in, again and
again the same.
"""

import json
import math
from pathlib import Path

import pytest
from paths import DATA
from typer.testing import CliRunner

from rlver_gym.cli import app
from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.persona import HiddenNeed
from rlver_gym.data.calibrate import fit_weights
from rlver_gym.data.recordings import RatedUtterance, read_rated_utterances, read_recordings
from rlver_gym.io.errors import CardError, RecordingError, UnknownName
from rlver_gym.users import EmbeddedUser, Scene, make_user
from rlver_gym.users.embedded.weights import read_weights, shipped_weights

RECORDINGS = DATA / "recordings_zh.jsonl"


def rating(need: str, said: str, change: float, number: int) -> str:
    who = {
        "id": f"p{number}",
        "need": need,
        "disposition": "passive",
        "story": "My neighbour sued me over a burst pipe.",
    }
    dialogue = [
        {"role": "user", "text": "My neighbour sues me over a pipe."},
        {"role": "agent", "text": said},
    ]
    return json.dumps(
        {"persona": who, "dialogue": dialogue, "change": change, "agent": f"a{number % 3}"}
    )


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    """People who like open questions about the pipe and do not like threats."""
    lines = []
    for number in range(60):
        need = list(HiddenNeed)[number % 8]
        lines.append(
            rating(
                need,
                "What did the neighbour say about the pipe, and how was that for you?",
                4,
                number,
            )
        )
        lines.append(
            rating(
                need, "I will tell everyone about the pipe or else you will regret it.", -6, number
            )
        )
    path = tmp_path / "ratings.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_weights_find_what_the_ratings_hold(ratings: Path) -> None:
    weights = fit_weights(read_rated_utterances(ratings))
    assert weights.features["open_question"].anyone > 0.2
    assert weights.features["threat"].anyone < -0.2
    assert weights.language == "en"


def test_the_command_writes_the_same_file_again_and_the_user_reads_it(
    ratings: Path, tmp_path: Path
) -> None:
    for name in ("a.json", "b.json"):
        result = CliRunner().invoke(app, ["calibrate", str(ratings), "--out", str(tmp_path / name)])
        assert result.exit_code == 0, result.output
        assert "…" not in result.stdout, "eighty columns hold every number"
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    said = [
        CliRunner().invoke(
            app,
            [
                "appraise",
                "--persona",
                "theo-the-burst-pipe",
                "--user",
                f"embedded:{tmp_path / 'a.json'}",
                "--json",
                text,
            ],
        )
        for text in (
            "What did the neighbour say when the pipe burst upstairs?",
            "Or else you will regret it, neighbour.",
        )
    ]
    good, bad = (json.loads(result.stdout) for result in said)
    assert good["change"] > bad["change"]
    assert sum(reason["points"] for reason in good["reasons"]) == good["change"]


def test_the_shipped_weights_say_where_they_come_from() -> None:
    weights = shipped_weights("zh")
    assert weights.provenance["recipe"]
    assert weights.provenance["data"]
    assert set(weights.provenance["scores"])
    assert {name.split("-")[0] for name in weights.presets} == {"deepseek", "gpt"}
    deepseek, gpt = (weights.preset(name)[1] for name in ("deepseek", "gpt"))
    assert deepseek.values == (-10, -5, 5, 10)
    assert deepseek.mean < gpt.mean


def test_each_need_is_worth_what_serves_it() -> None:
    features = shipped_weights("zh").features
    for act, need in (
        ("praise", "praise"),
        ("invite", "listening"),
        ("reflect_prompt", "reflection"),
        ("concrete", "practical_advice"),
    ):
        worth = {one: features[act].of(one) for one in HiddenNeed}
        assert max(worth, key=worth.__getitem__) == need, act


def test_presets_differ_in_kindness() -> None:
    harsh, kind = EmbeddedUser(preset="deepseek-v3"), make_user("embedded:gpt-4o")
    changes = [
        [
            user.appraise(
                Scene(one.persona, env_card("SAGE-Sentient-v0"), 0), 40, one.dialogue
            ).change
            for one in recorded()
        ]
        for user in (harsh, kind)
    ]
    assert sum(changes[0]) < sum(changes[1])
    assert harsh.version != kind.version


def recorded() -> list[RatedUtterance]:
    return read_rated_utterances(RECORDINGS)


def test_every_appraisal_of_a_recording_adds_up() -> None:
    user, card = EmbeddedUser(), env_card("SAGE-Sentient-v0")
    for one in recorded():
        for emotion in (12, 40, 97):
            appraisal = user.appraise(Scene(one.persona, card, 0), emotion, one.dialogue)
            assert math.fsum(reason.points for reason in appraisal.reasons) == appraisal.change
            assert -10 <= appraisal.change <= 10
            assert 0 <= emotion + appraisal.change <= 100


def test_a_profile_can_be_appraised_but_not_spoken_for() -> None:
    one = recorded()[0]
    scene = Scene(one.persona, env_card("SAGE-Sentient-v0"), 0)
    user = EmbeddedUser()
    appraisal = user.appraise(scene, 40, one.dialogue)
    assert appraisal.thought
    with pytest.raises(Exception, match="appraise for it, not speak"):
        user.speak(scene, 40, one.dialogue, appraisal)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "is not JSON"),
        ("[1]", "not a JSON object"),
        ('{"persona": "nobody"}', "is no rating"),
        (
            (
                '{"persona": "theo-the-burst-pipe", "dialogue": [{"role": "agent", "text": "x"}],'
                ' "change": 1}'
            ),
            "user, agent",
        ),
        (
            (
                '{"persona": "theo-the-burst-pipe", "dialogue": [{"role": "user", "text": "x"},'
                ' {"role": "agent", "text": "y"}], "change": 1e9}'
            ),
            "change: must be at most 10",
        ),
        (
            (
                '{"persona": "theo", "dialogue": [{"role": "user", "text": "x"}, {"role": "agent",'
                ' "text": "y"}], "change": 1}'
            ),
            "no persona",
        ),
        ('{"messages": []}', "is no recording"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text("\n" + line, encoding="utf-8")
    with pytest.raises(RecordingError, match=says):
        read_rated_utterances(path)


def test_too_little_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "few.jsonl"
    path.write_text(rating("praise", "Well done with the pipe.", 3, 0), encoding="utf-8")
    with pytest.raises(RecordingError, match="too few"):
        fit_weights(read_rated_utterances(path))


def test_missing_folders_and_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"no \.jsonl file"):
        read_recordings(tmp_path)
    with pytest.raises(CardError, match=r"No such file.*Make one with"):
        read_weights(tmp_path / "none.json")
    (tmp_path / "x.json").write_text("{}", encoding="utf-8")
    with pytest.raises(CardError, match="no weights file"):
        make_user(f"embedded:{tmp_path / 'x.json'}")
    with pytest.raises(UnknownName, match="deepseek"):
        EmbeddedUser(preset="claude")


def test_line_separators_inside_texts_do_not_split_lines(tmp_path: Path) -> None:
    value = json.loads(RECORDINGS.read_text(encoding="utf-8").split("\n")[0])
    value["messages"][1]["text"] += "\u2028好的"
    path = tmp_path / "a__b.jsonl"
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    assert len(read_recordings(tmp_path)) == 1


def test_own_users_are_made_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_user.py").write_text(
        "from rlver_gym.users import EmbeddedUser\nclass Mine(EmbeddedUser):\n    kind ="
        " 'mine'\nclass Not: pass\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert make_user("mine_user:Mine").kind == "mine"
    with pytest.raises(UnknownName, match="lacks"):
        make_user("mine_user:Not")
    with pytest.raises(UnknownName, match="cannot be made"):
        make_user("mine_user:Nobody")


def test_a_dialogue_without_a_reply_is_silence() -> None:
    one = recorded()[0]
    scene = Scene(one.persona, env_card("SAGE-Sentient-v0"), 0)
    silent = EmbeddedUser().appraise(scene, 40, Dialogue(one.dialogue.opening).with_utterance(""))
    assert silent.change < 0
    assert "silence" in {reason.code for reason in silent.reasons}
