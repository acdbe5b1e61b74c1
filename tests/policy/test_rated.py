"""Learning from the rated replies of a corpus, and drawing replies to rate."""

import itertools
import shutil

import numpy as np
import pytest
import torch
from interrupts import end_in, heeding_ctrl_c
from paths import ROOT
from typer.testing import CliRunner

from rlver_gym.cli.root import app
from rlver_gym.corpora.corpus import Corpus
from rlver_gym.policy import iteration as one_iteration
from rlver_gym.policy.config import make_config
from rlver_gym.policy.iteration import train
from rlver_gym.policy.learner import make_learner
from rlver_gym.policy.learning.rollouts import pack_rollouts
from rlver_gym.policy.models.model import load_tokenizer
from rlver_gym.policy.models.renderer import Renderer
from rlver_gym.policy.rated import draw_moments, group_by_moment, read_rated_moments
from rlver_gym.policy.run_training import run_training
from rlver_gym.util.errors import TrainingError
from rlver_gym.util.stop import StopRequested

OWN = ROOT / "recordings" / "en" / "samples" / "own"
SMALL = {"dialogues": 6, "iterations": 3, "max_tokens": 4000, "eval_every": 0, "lr": 3e-3}


@pytest.fixture(scope="module")
def renderer(tiny_folder):
    return Renderer(load_tokenizer(str(tiny_folder)), "Be kind.")


def test_a_rated_moment_is_a_dialogue_of_one_turn_with_every_reply_and_its_mean_change(renderer):
    moments = read_rated_moments(OWN, renderer, 10_000)
    replies = Corpus(OWN).rated_replies()
    assert len(moments) == 214
    rollouts, rated = pack_rollouts(moments[:3]), group_by_moment(replies)[:3]
    wanted = [[reply.mean("change") for reply in place] for place in rated]
    for number, changes in enumerate(wanted):
        assert rollouts.reward_R[rollouts.dialogue_R == number].tolist() == changes
    (said,) = moments[0].sequences
    assert renderer.parse(said.id_T[said.action_mask_T].tolist()).text == rated[0][0].text
    heard = renderer.tokenizer.decode(said.id_T[~said.action_mask_T])
    assert rated[0][0].dialogue.opening in heard
    whole = read_rated_moments(ROOT / "recordings" / "en" / "policies", renderer, 10_000, 1)
    assert len(whole) == len(Corpus(ROOT / "recordings" / "en" / "policies").rated_replies())


def test_moments_come_once_a_pass_in_an_order_of_the_seed(renderer):
    moments = read_rated_moments(OWN, renderer, 10_000)[:10]
    drawn = [one.group for at in range(5) for one in draw_moments(moments, 4, at, seed=1)]
    numbers = [one.group for one in moments]
    assert sorted(drawn[:10]) == sorted(drawn[10:]) == sorted(numbers)
    assert drawn[:10] != drawn[10:]
    again = [one.group for at in range(5) for one in draw_moments(moments, 4, at, seed=1)]
    assert drawn == again


@pytest.mark.parametrize("algo", ["dpo", "grpo", "ppo", "rft"])
def test_replies_that_readers_liked_become_likelier(algo, tiny_folder):
    values = SMALL | {"model": str(tiny_folder), "algo": algo, "corpus": str(OWN)}
    own = {"dpo": {"margin": 1.0}, "rft": {"margin": 1.0}, "ppo": {"critic_lr": 1e-3}}.get(algo, {})
    learner = make_learner(make_config(values | own | {"kl": 0.0}, "the test"))
    learner.rated = learner.rated[:6]
    rollouts = pack_rollouts(learner.rated)
    tokens = rollouts.tokens

    def score():
        with torch.no_grad():
            logprob_BT = learner.models.actor(tokens.id_BT, tokens.action_mask_BT).logprob_BT
        return np.bincount(tokens.reply_S, tokens.at_actions(logprob_BT)) / rollouts.tokens_R

    before = score()
    for iteration in train(learner):
        assert "sampler_kl" not in iteration.metrics
    gain_R = score() - before
    mean_R = np.bincount(rollouts.moment_R, rollouts.reward_R) / np.bincount(rollouts.moment_R)
    is_liked_R = rollouts.reward_R > mean_R[rollouts.moment_R]
    assert gain_R[is_liked_R].mean() > gain_R[~is_liked_R].mean()


def test_a_run_from_a_corpus_stops_after_an_iteration_and_is_resumed_exactly(tiny_folder, tmp_path):
    values = SMALL | {"model": str(tiny_folder), "algo": "dpo", "corpus": str(OWN), "save_every": 1}
    whole = run_training(make_config(values, "it"), out=tmp_path / "whole")
    cut = tmp_path / "cut"
    with pytest.MonkeyPatch.context() as patch, heeding_ctrl_c():
        end_in(patch, (one_iteration, "take_steps", 1), "SIGTERM")
        with pytest.raises(StopRequested):
            run_training(make_config(values, "it"), out=cut)
    assert not (cut / "checkpoints" / "000002").exists()
    run_training(make_config(values, "it"), out=cut, resume=True)
    names = ("metrics.jsonl", "checkpoints/000003/learner.safetensors")
    for name in names:
        assert (cut / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"compare": "dialogues"}, "leave --compare dialogues"),
        ({"style": "think"}, "style think out"),
        ({"reference": "reader"}, "reference would be ignored"),
        ({"group_size": 8}, "group_size would be ignored"),
        ({"max_tokens": 101, "max_reply_tokens": 100}, "no moment with 2 rated replies of at most"),
    ],
)
def test_what_does_not_go_with_a_corpus_is_refused(options, says, tiny_folder):
    values = {"model": str(tiny_folder), "corpus": str(OWN), "eval_every": 0, **options}
    with pytest.raises(TrainingError, match=says):
        make_learner(make_config(values, "the test"))


def test_a_run_from_a_corpus_is_evaluated_with_many_workers(tiny_folder):
    values = {"model": str(tiny_folder), "corpus": str(OWN), "workers": 8}
    assert make_config(values, "the test").workers == 8


def test_replies_drawn_at_moments_are_a_corpus_to_rate(tiny_folder, tmp_path):
    out, people = tmp_path / "drawn", ["joon-moved-for-them"]
    command = ["sample", str(tiny_folder), "--at", str(OWN), "--replies", "3", "--moments", "2"]
    command += ["--reply-tokens", "8", "--persona", *people, "--name", "tiny"]
    for folder in (out, tmp_path / "again"):
        shown = CliRunner().invoke(app, [*command, "--out", str(folder)])
        assert shown.exit_code == 0, shown.exception
    drawn = Corpus(out)
    assert [(x.persona, len(x.replies)) for x in drawn.moments] == [(people[0], 3)] * 2
    assert {reply.supporter for x in drawn.moments for reply in x.replies} == {"tiny"}
    source = {moment.id: moment for moment in Corpus(OWN).moments}
    for moment in drawn.moments:
        assert moment.opening == source[moment.source].opening
        assert moment.turns == [
            turn.model_copy(update={"id": None}) for turn in source[moment.source].turns
        ]
    texts, again = (
        [[x.text for x in moment.replies] for moment in corpus.moments]
        for corpus in (drawn, Corpus(tmp_path / "again"))
    )
    assert texts == again
    assert len(set(itertools.chain(*texts))) > 1
    taken = CliRunner().invoke(app, [*command, "--out", str(out)])
    assert "is there already" in str(taken.exception)


@pytest.mark.parametrize(
    ("options", "supporters", "says"),
    [
        (["--name", ""], None, "--name: "),
        (["--name", "x" * 198], None, "--name: "),
        ([], "[]", "supporters.json of the corpus is empty"),
        (["--persona", "nobody", "--persona", "joon-moved-for-them"], None, "moment with nobody"),
    ],
)
def test_what_cannot_be_written_is_told_before_a_model_is_loaded(
    options, supporters, says, tmp_path
):
    corpus = shutil.copytree(OWN, tmp_path / "corpus")
    if supporters:
        (corpus / "supporters.json").write_text(supporters, encoding="utf-8")
    words = ["sample", "no/such/model", "--at", str(corpus), "--out", str(tmp_path / "out")]
    shown = CliRunner().invoke(app, [*words, *options])
    assert isinstance(shown.exception, TrainingError)
    assert says in str(shown.exception)
