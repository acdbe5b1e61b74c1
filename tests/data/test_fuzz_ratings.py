"""Ratings, recordings and weights, damaged in any way: each is one bounded error that names the
file, or can be used.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from fuzzing import assert_clear, damaged_bytes, damaged_json, effort
from hostile_cards import weights_file
from hypothesis import given
from hypothesis import strategies as st
from paths import DATA

from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.library import library
from rlver_gym.data.recordings import RatedUtterance, read_rated_utterances, read_recordings
from rlver_gym.io.errors import CardError, RecordingError
from rlver_gym.users import EmbeddedUser, Scene

RECORDING = json.loads((DATA / "recordings_zh.jsonl").read_text(encoding="utf-8").split("\n")[0])
RATING = {
    "persona": {
        "id": "p",
        "need": "praise",
        "disposition": "passive",
        "story": "A burst pipe.",
        "language": "en",
    },
    "dialogue": [
        {"role": "user", "text": "A pipe burst."},
        {"role": "agent", "text": "What happened?"},
    ],
    "change": 3.5,
    "emotion": 40,
    "agent": "a",
    "rater": "r",
}
PROFILE = {
    "id": "zh-lin",
    "player": "**姓名**：林\n年龄：30",
    "scene": "### 一\n画展。\n### 可能的反应\n…",
    "main_cha": "负面型",
    "task": "夸奖",
    "cha_group": "['a', 'b']",
}
WEIGHTS = weights_file()
DIALOGUE = Dialogue("A pipe burst at night.").with_utterance(
    "What did the neighbour say when the pipe burst?"
)


def check_lines(data: bytes) -> None:
    """The data as a file of ratings and as a folder of recordings."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "judge__agent.jsonl"
        path.write_bytes(data)
        found: list[RatedUtterance] = []
        for read in (
            lambda: read_rated_utterances(path),
            lambda: [one for it in read_recordings(Path(folder)) for one in it.rated_utterances()],
        ):
            try:
                found += read()
            except RecordingError as error:
                assert_clear(error)
        for one in found[:3]:
            assert 0 <= one.emotion <= 100
            assert -100 <= one.change <= 100
            scene = Scene(one.persona, env_card("SAGE-Sentient-v0"), 0)
            assert -10 <= EmbeddedUser().appraise(scene, one.emotion, one.dialogue).change <= 10


def check_weights(value: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "weights.json"
        path.write_text(json.dumps(value), encoding="utf-8")
        try:
            user = EmbeddedUser(path)
        except CardError as error:
            assert_clear(error, str(path), 20_000)
            return
        persona = (
            library().get("theo-the-burst-pipe").model_copy(update={"language": value["language"]})
        )
        for emotion in (0, 55, 100):
            scene = Scene(persona, env_card("SAGE-Sentient-v0"), 0)
            appraisal = user.appraise(scene, emotion, DIALOGUE)
            assert sum(reason.points for reason in appraisal.reasons) == appraisal.change
            assert 0 <= emotion + appraisal.change <= 100


def as_line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


LINES = st.sampled_from([RECORDING, RATING, PROFILE])
DAMAGED_LINES = st.one_of(
    LINES.flatmap(damaged_json).map(as_line),
    LINES.flatmap(damaged_json).map(lambda value: as_line(value) + as_line(RECORDING)),
    LINES.flatmap(lambda value: damaged_bytes(as_line(value))),
)


@effort(few=40, many=3000)
def test_damaged_lines_of_ratings_recordings_and_profiles(examples: Any) -> None:
    examples(given(DAMAGED_LINES)(check_lines))()


@effort(few=40, many=3000)
def test_damaged_weights(examples: Any) -> None:
    examples(given(damaged_json(WEIGHTS))(check_weights))()
