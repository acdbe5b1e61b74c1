"""Files of a training run that were edited, damaged or made by somebody else: a clear error, and
never code from a config.
"""

import json
import os

import pytest

from rlver_gym.policy.checkpoints import Checkpoints, read_state
from rlver_gym.policy.config import list_presets, make_config, read_config_values, resume_config
from rlver_gym.policy.curves import write_curves
from rlver_gym.policy.learning.metrics import read_metrics
from rlver_gym.util.errors import TrainingError

GOOD = (
    '{"iteration": 1, "emotion": 40.0, "return": -2.5, "kl": null}\n{"iteration": 2, "emotion":'
    ' 41.5, "return": 0.5, "kl": 0.1}\n'
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(GOOD, encoding="utf-8")
    return tmp_path


def test_good_metrics_are_read_and_a_line_cut_off_is_left_out(folder):
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"iteration": 3, "emo')
    assert [line["iteration"] for line in read_metrics(folder)] == [1, 2]
    picture = write_curves(folder)
    assert picture is not None
    assert "polyline" in picture.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 3: is no JSON"),
        ("[1]", "line 3: must be an object"),
        ("{}", "line 3: holds no iteration"),
        ('{"iteration": "3"}', "line 3: holds no iteration"),
        ('{"iteration": true}', "line 3: holds no iteration"),
        ('{"iteration": -1}', "line 3: holds no iteration"),
        ('{"iteration": 3, "emotion": "40"}', "line 3: 'emotion' is no number"),
        ('{"iteration": 3, "emotion": NaN}', "line 3: 'emotion' is no number"),
        ('{"iteration": 3, "emotion": -Infinity}', "line 3: 'emotion' is no number"),
        ('{"iteration": 3, "emotion": 1e308}', "line 3: 'emotion' is no number"),
        ('{"iteration": 3, "emotion": [40]}', "line 3: 'emotion' is no number"),
        ('{"iteration": 3, "\\u001b[31m": "x"}', "is no number"),
        ('{"iteration": 3, "emotion": 1, "emotion": 2}', "stands twice"),
    ],
)
def test_edited_metrics_are_named_by_file_and_line(folder, line, says):
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    with pytest.raises(TrainingError, match=says) as error:
        write_curves(folder)
    assert str(folder / "metrics.jsonl") in str(error.value)
    assert "\x1b" not in str(error.value)
    assert len(str(error.value)) < 600


@pytest.mark.timeout(100)
def test_a_device_or_a_pipe_in_a_run_folder_is_not_waited_for(folder):
    (folder / "metrics.jsonl").unlink()
    (folder / "metrics.jsonl").symlink_to("/dev/zero")
    with pytest.raises(TrainingError, match="leads out of the folder"):
        read_metrics(folder)
    os.mkfifo(folder / "best.json")
    with pytest.raises(TrainingError, match="it is a pipe, not a regular file"):
        Checkpoints(folder).best()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"iteration": "1", "score": 1}',
        '{"iteration": 1}',
        '{"iteration": 1, "score": "x"}',
        '{"iteration": 1e999}',
        "[" * 900,
    ],
)
def test_a_best_that_was_edited_is_named_with_its_remedy(tmp_path, text):
    (tmp_path / "best.json").write_text(text, encoding="utf-8")
    says = r"best\.json: does not say which checkpoint is best.*Remove it"
    with pytest.raises(TrainingError, match=says):
        Checkpoints(tmp_path).best()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("model: &a tiny\nenv: *a", "line 1: YAML anchors and aliases"),
        ("- a", "must hold fields"),
        ("", "must hold fields"),
        ("model: " + "x" * 300_000, "larger than 256 KiB"),
        ("seed: 1\nseed: 2", "stands here twice"),
        ("env: os:Env-v0", "env: names a module"),
        (
            "env_options: {user: 'subprocess:Popen'}",
            r"env_options\.user: names a module.*--env-options user=",
        ),
        ("eval_options: {user: 'subprocess:Popen'}", r"eval_options\.user: names a module"),
        ("reference: subprocess:Popen", "reference: names a module.*--reference MODULE:NAME"),
        ("reference: reader:x", "reference: names another file.*--reference reader:FILE"),
        ("modell: tiny", "modell: remove this field, or correct its name"),
        ('"\\e[31m": tiny', "\ufffd\\[31m: remove this field"),
    ],
)
def test_a_hostile_config_is_one_error(tmp_path, text, says):
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TrainingError, match=says) as error:
        make_config(read_config_values(str(path)), str(path))
    assert str(path) in str(error.value)
    assert len(str(error.value)) < 600


OLD = {
    "a shared critic": ({"critic": "shared"}, "made by a version with other options: .* no critic"),
    "two that left": ({"kl_estimator": "k3", "fsdp": True}, "this one has no fsdp, kl_estimator"),
    "a mean over dialogues": ({"aggregate": "dialogue"}, "aggregate: "),
    "bounds before the only step": ({"clip_low": 0.1}, "clip_low would be ignored"),
    "an algorithm that left": ({"algo": "general"}, "there is no 'general'"),
}
"""What runs of earlier versions hold."""


@pytest.mark.parametrize("name", OLD)
def test_a_run_of_an_earlier_version_is_refused_in_words(tmp_path, name):
    changes, says = OLD[name]
    values = make_config({}, "it").model_dump(mode="json") | changes
    (tmp_path / "config.json").write_text(json.dumps(values), encoding="utf-8")
    with pytest.raises(TrainingError, match=says) as error:
        resume_config(tmp_path, {})
    assert str(tmp_path / "config.json") in str(error.value)


@pytest.mark.parametrize("preset", list_presets())
@pytest.mark.parametrize("more", [{}, {"eval_every": 0}, {"corpus": "x", "style": "direct"}])
def test_a_run_of_a_preset_goes_on_with_what_it_saved(tmp_path, preset, more):
    config = make_config(read_config_values(preset, more) | more, preset)
    saved = config.model_dump(mode="json")
    del saved["reward"]  # an option that came later
    (tmp_path / "config.json").write_text(json.dumps(saved), encoding="utf-8")
    assert resume_config(tmp_path, {}) == config
    assert resume_config(tmp_path, {"iterations": 999}).iterations == 999


def test_own_users_that_are_no_code_stand_in_a_config(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(
        "env_options: {user: 'openai:MODEL', split: train}\neval_options: {user: embedded}",
        encoding="utf-8",
    )
    config = make_config(read_config_values(str(path)), str(path))
    assert config.env_options["user"] == "openai:MODEL"


EDITS = {
    "a list": lambda state: [state],
    "no iteration": lambda state: {name: state[name] for name in state.keys() - {"iteration"}},
    "a text for the iteration": lambda state: {**state, "iteration": "7"},
    "an iteration below zero": lambda state: {**state, "iteration": -1},
    "a config that is none": lambda state: {**state, "config": "tiny"},
    "a text for the start of the reference": lambda state: {**state, "reference_start": "0"},
    "a list of expectations": lambda state: {**state, "persona_baseline": [1]},
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_checkpoint_is_named_with_its_remedy(tmp_path, name):
    state = {
        "iteration": 7,
        "version": "0.1.0",
        "config": {},
        "persona_baseline": {"noor": [3, 1.5]},
        "reference_start": {"apart": {"noor": 2.5}, "agreement": [0.5, 0.25, 0.75]},
        "reward_hash": "0ab1",
    }
    (tmp_path / "state.json").write_text(json.dumps(state), encoding="utf-8")
    assert read_state(tmp_path) == state
    (tmp_path / "state.json").write_text(json.dumps(EDITS[name](state)), encoding="utf-8")
    says = r"is no checkpoint .*Remove it to go on from the one before"
    with pytest.raises(TrainingError, match=says):
        read_state(tmp_path)
