"""A reward of one's own beside the environment's."""

import json

import numpy as np
import pytest
from paths import ROOT
from test_stops import run_command

from rlver_gym.policy.config import make_config
from rlver_gym.policy.learner import make_learner
from rlver_gym.policy.learning.rollouts import pack_rollouts
from rlver_gym.policy.models.own_reward import OwnReward
from rlver_gym.policy.run_training import run_training
from rlver_gym.util.errors import TrainingError

OWN = ROOT / "recordings" / "en" / "samples" / "own"
SEEN = []
SMALL = {
    "iterations": 1,
    "dialogues": 4,
    "group_size": 2,
    "max_reply_tokens": 8,
    "max_tokens": 1024,
    "eval_every": 1,
    "eval_dialogues": 2,
    "seed": 3,
}
LAST_WORDS = 3


def count_letters(reply):
    """A hundred points a letter."""
    SEEN.append(reply)
    return 100 * len(reply.text)


def exits(reply):
    raise SystemExit("no money")


def give_text(reply):
    return "a lot"


def give_nan(reply):
    return float("nan")


async def wait_for_it(reply):
    return 0.0


def need_more(reply, more):
    return 0.0


def collect(model, **changes):
    SEEN.clear()
    values = SMALL | {"model": str(model), "reward": "test_own_reward:count_letters"} | changes
    if values.get("eval_every") == 0:
        del values["eval_dialogues"]
    learner = make_learner(make_config(values, "the test"))
    try:
        return learner.collect()
    finally:
        learner.close()


@pytest.mark.parametrize("changes", [{}, {"compare": "replies"}])
def test_it_is_added_to_the_change_of_every_reply_that_was_said_or_tried(changes, tiny_folder):
    plain = collect(tiny_folder, reward=None, **changes)
    paid = collect(tiny_folder, **changes)
    for ours, theirs in zip(paid, plain, strict=True):
        assert ours.lines == theirs.lines
        assert ours.info["emotion"] == theirs.info["emotion"]
        assert ours.paid_N.tolist() == theirs.reward_N.tolist()
        users, said = ([x for x in ours.lines if x.speaker == who] for who in ("user", "agent"))
        texts = [line.text for line in said]
        assert ours.reward_N.tolist() == [
            change + 100 * len(text) for change, text in zip(theirs.reward_N, texts, strict=True)
        ]
        for turn, (_, text, thought) in enumerate(said):
            heard = tuple(line.text for line in users[: turn + 1])
            change, who = theirs.reward_N[turn], ours.info["persona"]
            expected = (text, thought, heard, tuple(texts[:turn]), change)
            assert any((*reply[:5], reply.persona) == (*expected, who) for reply in SEEN)
    gained_R = pack_rollouts(paid).reward_R - pack_rollouts(plain).reward_R
    assert sorted(gained_R) == sorted(100 * len(reply.text) for reply in SEEN)


def test_the_best_of_several_replies_is_the_best_by_both(tiny_folder):
    for one in collect(tiny_folder, algo="rft"):
        for turn, reward in enumerate(one.reward_N):
            tried = [x for x in one.alternatives if x.turn == turn]
            assert not [x for x in tried if x.reward > reward and not x.format_error]


def test_a_corpus_pays_it_too(tiny_folder):
    more = {"corpus": str(OWN), "group_size": 4, "eval_every": 0, "max_tokens": 4096}
    plain = pack_rollouts(collect(tiny_folder, reward=None, **more)).reward_R
    gained_R = pack_rollouts(collect(tiny_folder, **more)).reward_R - plain
    assert (gained_R >= 100).all()
    assert set(np.round(gained_R)) <= {100 * len(reply.text) for reply in SEEN}


def test_a_run_names_it_and_its_file_and_evaluates_without_it(tiny_folder, tmp_path):
    SEEN.clear()
    values = SMALL | {"model": str(tiny_folder), "reward": "test_own_reward:count_letters"}
    run_training(make_config(values, "the test"), out=tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["reward"] == values["reward"]
    state = tmp_path / "checkpoints" / "000001" / "state.json"
    assert json.loads(state.read_text())["reward_hash"] == OwnReward(values["reward"]).hash
    for line in (tmp_path / "evaluations.jsonl").read_text().splitlines():
        assert all(abs(one["return"]) < 100 for one in json.loads(line)["dialogues"])
    code, told = run_command("train", "--resume", "--out", tmp_path, "--iterations", 2)
    assert code != 0
    assert "reward: names a module, which a file cannot" in told
    state.write_text(state.read_text().replace('"reward_hash": "', '"reward_hash": "0'))
    words = ["--iterations", 2, "--reward", values["reward"]]
    code, told = run_command("train", "--resume", "--out", tmp_path, *words)
    assert code != 0
    assert "its file has changed" in told


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no_such_module:pay", "there is no module 'no_such_module'"),
        ("test_own_reward:no_such_name", "has no plain function of that name"),
        ("test_own_reward:LAST_WORDS", "has no plain function of that name"),
        ("test_own_reward:wait_for_it", "has no plain function of that name"),
        ("test_own_reward:need_more", "cannot be called with the reply alone .*more"),
    ],
)
def test_what_is_no_reward_is_named_before_anything_is_loaded(name, says):
    with pytest.raises(TrainingError, match=says):
        OwnReward(name)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("exits", r"failed \(SystemExit: no money \(.*test_own_reward.py, line \d+\)\)"),
        ("give_text", "must give a finite number, not str 'a lot'"),
        ("give_nan", "must give a finite number, not float nan"),
    ],
)
@pytest.mark.parametrize("workers", [1, 4])
def test_one_that_fails_ends_the_run_in_words(name, says, workers, tiny_folder):
    with pytest.raises(TrainingError, match=says):
        collect(tiny_folder, reward=f"test_own_reward:{name}", workers=workers)


@pytest.mark.parametrize("name", ["pay", "openai:a-b", ":pay", "a:b:c", ""])
def test_only_a_function_in_a_module_is_named(name):
    with pytest.raises(TrainingError, match="is named MODULE:NAME"):
        make_config({"reward": name}, "the test")
