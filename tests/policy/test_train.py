"""A training run: the loop, its folder, and what happens when it is cut off."""

import copy
import json
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from failing import FailsInTurn
from full_disk import files_of_at_most
from json_files import read_lines
from pages import read_page
from paths import ROOT
from safetensors.torch import load_file
from tiny_policy import SHORT, played, tiny, trying
from typer.testing import CliRunner

from rlver_gym.cli.root import app
from rlver_gym.cli.train import build_config, spell_flag
from rlver_gym.environment.alarms import find_alerts
from rlver_gym.library.personas import library
from rlver_gym.policy import run_training as runs
from rlver_gym.policy.checkpoints import Checkpoints, load, save
from rlver_gym.policy.config import (
    FIELDS,
    PRESETS,
    TrainConfig,
    folder_name,
    make_config,
    read_config_values,
)
from rlver_gym.policy.evaluate import _collect_episodes, evaluate, make_distinct_specs
from rlver_gym.policy.iteration import compute_loss, prepare, train
from rlver_gym.policy.learner import make_learner, make_reset_specs
from rlver_gym.policy.learning.metrics import (
    compute_act_shares,
    compute_copied_share,
    compute_distinct_share,
    compute_repeated_share,
    read_metrics,
)
from rlver_gym.policy.learning.registry import (
    ALGORITHMS,
    CRITIC_OPTIONS,
    GROUP_OPTIONS,
    AdvantageConfig,
    Algorithm,
    Objective,
)
from rlver_gym.policy.learning.rollouts import pack_rollouts
from rlver_gym.policy.learning.steps import make_optimizer, take_steps
from rlver_gym.policy.models.actor import Actor, Critic, Models
from rlver_gym.policy.models.trajectory import Trajectory, TranscriptLine, ignore_progress
from rlver_gym.policy.run_training import run_training
from rlver_gym.studio.page import write_page
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import TrainingError, UserFailed

OWN = ROOT / "recordings" / "en" / "samples" / "own"
GROUPS = SHORT | {"iterations": 4, "dialogues": 4, "lr": 1e-3, "eval_every": 2}
GROUPS |= {"eval_dialogues": 3, "save_every": 1, "show_every": 2}
SMALL = {name: value for name, value in GROUPS.items() if name != "group_size"}
UNWATCHED = {"eval_every": 0, "eval_dialogues": 24}
"""Nobody is evaluated."""


def configure(model, **options):
    """A short run in which nobody is evaluated, unless it is said otherwise."""
    return TrainConfig(model=model, **(GROUPS | UNWATCHED | options))


def read_error_output(capsys):
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("algo", ["ppo", "grpo", "dpo"])
def test_a_run_leaves_metrics_checkpoints_dialogues_curves_and_a_model(algo, model, tmp_path):
    values = {"model": model, "algo": algo} | (SMALL if algo == "ppo" else GROUPS)
    folder = run_training(make_config(values, "the test"), out=tmp_path / "run")
    metrics = read_metrics(folder)
    assert [line["iteration"] for line in metrics] == [0, 1, 2, 3, 4]
    start, *metrics = metrics
    assert start.keys() - {"iteration"} == {name for name in metrics[1] if "eval_" in name}
    measured = {"return", "emotion", "tokens", "kl", "entropy", "format_error", "left"}
    assert measured <= metrics[0].keys()
    assert ("explained_variance" in metrics[0]) == (algo == "ppo")
    assert ("clip_fraction" in metrics[0]) == (algo != "dpo")
    assert ({"pairs", "pair_distance", "pair_accuracy"} <= metrics[0].keys()) == (algo == "dpo")
    assert "eval_score" in metrics[1]
    assert "eval_score" not in metrics[0]
    evaluations = read_lines(folder / "evaluations.jsonl")
    assert [line["iteration"] for line in evaluations] == [0, 2, 4]
    first, _, last = (line["dialogues"] for line in evaluations)
    assert [one["seed"] for one in first] == [one["seed"] for one in last]
    assert len({one["persona"] for one in first}) == 3
    assert (folder / "model" / "model.safetensors").exists()
    assert "held out" in (folder / "curves.svg").read_text()
    assert "**Person:**" in (folder / "dialogues.md").read_text()
    assert any((folder / "tensorboard").iterdir())
    (shown,) = read_page(write_page([folder]))["curves"]
    assert shown["columns"]["emotion"] == [None, *(line["emotion"] for line in metrics)]
    assert [one["iteration"] for one in shown["samples"]] == [0] * 3 + [2] * 3 + [4] * 3


@pytest.mark.parametrize("algo", ["rft", "dpo", "grpo", "ppo"])
def test_replies_to_one_moment_that_earned_more_become_likelier(algo, model):
    own = {"compare": "replies"} if algo in ("grpo", "ppo") else {"margin": 1.0}
    learner = make_learner(configure(model, algo=algo, group_size=4, lr=3e-3, **own))
    iteration, *_ = train(learner)
    rollouts = pack_rollouts(iteration.trajectories)
    tokens, reply_S = rollouts.tokens, rollouts.tokens.reply_S
    assert (~rollouts.is_said_R).sum() == 3 * rollouts.is_said_R.sum()
    with torch.no_grad():
        of = {"dialogue_B": tokens.dialogue_B}
        scored = learner.models.actor(tokens.id_BT, tokens.action_mask_BT, 1.0, **of)
    gain_R = np.bincount(reply_S, tokens.at_actions(scored.logprob_BT - tokens.sampled_BT))
    mean_R = (np.bincount(rollouts.moment_R, rollouts.reward_R) / 4)[rollouts.moment_R]
    best_R = rollouts.reward_R > mean_R + 1
    assert best_R.any()
    assert gain_R[best_R].mean() > gain_R[rollouts.reward_R < mean_R].mean()


@pytest.mark.parametrize("play", [lambda learner: list(train(learner)), evaluate])
def test_a_run_whose_every_dialogue_fails_stops_and_says_why(model, play):
    options = {"user": FailsInTurn(1, UserFailed("its weights are not on this machine"))}
    values = GROUPS | {"env_options": options, "eval_options": options}
    learner = make_learner(TrainConfig(model=model, **values))
    says = r"all \d+ dialogues failed: .*weights are not on this machine"
    with pytest.raises(TrainingError, match=says):
        play(learner)


def test_a_critic_that_knows_whom_is_saved_with_what_it_expects_of_them(model, tmp_path):
    values = SMALL | UNWATCHED | {"iterations": 1, "critic_knows": "persona"}
    config = TrainConfig(algo="ppo", model=model, **values)
    learner = make_learner(config)
    (iteration,) = train(learner)
    met = {one.info["persona"] for one in iteration.trajectories}
    assert set(learner.persona_baseline.state) == met
    assert any(mean for _, mean in learner.persona_baseline.state.values())
    save(learner, tmp_path)
    again = make_learner(config)
    load(again, tmp_path)
    assert again.persona_baseline.state == learner.persona_baseline.state
    state = json.loads((tmp_path / "state.json").read_text())
    for wrong in (None, {"theo": "much"}):
        (tmp_path / "state.json").write_text(json.dumps(state | {"persona_baseline": wrong}))
        with pytest.raises(TrainingError, match="cannot be loaded"):
            load(make_learner(config), tmp_path)


def test_a_run_that_is_over_trains_no_more_when_resumed_and_names_its_model_again(
    model, tmp_path, capsys
):
    config = configure(model, iterations=1)
    run_training(config, out=tmp_path)
    metrics = (tmp_path / "metrics.jsonl").read_bytes()
    shutil.rmtree(tmp_path / "model")
    capsys.readouterr()
    run_training(config, out=tmp_path, resume=True)
    assert "model (from iteration 1)" in read_error_output(capsys)
    assert (tmp_path / "model" / "model.safetensors").is_file()
    assert (tmp_path / "metrics.jsonl").read_bytes() == metrics


def test_a_checkpoint_is_written_every_few_iterations_and_after_the_last(model, tmp_path):
    config = configure(model, iterations=5, save_every=2, keep_checkpoints=5)
    run_training(config, out=tmp_path)
    written = [path.name for path in Checkpoints(tmp_path / "checkpoints").all()]
    assert written == ["000002", "000004", "000005"]


def test_the_best_by_evaluation_is_the_model_however_seldom_the_run_is_saved(model, tmp_path):
    config = configure(model, iterations=4, eval_every=1, save_every=4, keep_checkpoints=9)
    run_training(config, out=tmp_path)
    scores = {
        line["iteration"]: line["eval_score"]
        for line in read_metrics(tmp_path)
        if line["iteration"]
    }
    best = max(scores, key=lambda number: (scores[number], -number))
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    assert checkpoints.best() == tmp_path / "checkpoints" / f"{best:06d}"
    weights = "model.safetensors"
    kept = (checkpoints.best() / "model" / weights).read_bytes()
    assert (tmp_path / "model" / weights).read_bytes() == kept


def test_an_alarm_that_nothing_can_raise_is_refused():
    config = SimpleNamespace(stop_on_alarm=True, env="elsewhere/Talk-v0")
    learner = SimpleNamespace(held_out=[OneOfThree()], config=config)
    with pytest.raises(TrainingError, match="looks at dialogues of this machine"):
        runs._refuse_alarm_that_is_never_raised(learner)


def test_rewards_from_0_to_1_are_told_apart_from_points_of_emotion():
    told = runs._describe_scale(make_config({"env": "RLVER-Sparse-v0"}, "the test"))
    assert "Take --reward-scale 1." in told
    for other in ({"env": "RLVER-Sparse-v0", "reward_scale": 1.0}, {}, {"algo": "dpo"}):
        assert runs._describe_scale(make_config(other, "the test")) == ""


@pytest.mark.parametrize(
    ("values", "people", "is_told"),
    [
        ({"env": "SAGE-Sentient-v0"}, [], True),
        ({"env_options": {"split": "all"}}, [], True),
        ({"corpus": "x", "env": "SAGE-Sentient-v0"}, ["test", "train"], True),
        ({"corpus": "x", "env": "SAGE-Sentient-v0"}, ["train"], False),
        ({}, [], False),
    ],
)
def test_learning_from_test_people_is_told(values, people, is_told):
    rated = [SimpleNamespace(info={"persona": library().ids(split)[0]}) for split in people]
    learner = SimpleNamespace(config=make_config(values, "the test"), rated=rated)
    assert ("Test people are learned from" in runs._describe_test_people(learner)) == is_told


def test_held_out_people_are_drawn_without_first_words():
    class Counts(EmbeddedUser):
        opened = 0

        def open(self, scene, emotion):
            Counts.opened += 1
            return super().open(scene, emotion)

    env = gym.make("RLVER-Empathy-v0", split="validation", user=Counts())
    specs = make_distinct_specs(env, 24)
    assert Counts.opened == 0
    people = [env.reset(seed=one.seed)[1]["persona"] for one in specs]
    assert len({*people[:12]}) == 12


def test_a_resumed_run_shows_no_dialogue_twice(model, tmp_path):
    run_training(configure(model, show_every=1, iterations=2), out=tmp_path)
    shutil.rmtree(tmp_path / "checkpoints" / "000002")
    by_hand = tmp_path / "dialogues.md"
    by_hand.write_text("A note of mine.\n" + by_hand.read_text())
    run_training(configure(model, show_every=1, iterations=3), out=tmp_path, resume=True)
    lines = by_hand.read_text().splitlines()
    shown = [line.split(":")[0] for line in lines if line.startswith("##")]
    assert lines[0] == "A note of mine."
    assert shown == [f"## Iteration {number}" for number in (1, 1, 2, 2, 3, 3)]


def test_a_disk_without_room_for_the_weights_leaves_the_old_checkpoint(model, tmp_path):
    learner = make_learner(configure(model))
    kept = Checkpoints(tmp_path)
    kept.write(1, lambda path: save(learner, path))
    says = r"cannot be written.*000001, is intact"
    with files_of_at_most(10_000), pytest.raises(TrainingError, match=says):
        kept.write(2, lambda path: save(learner, path))
    assert [path.name for path in tmp_path.iterdir()] == ["000001"]
    load(learner, tmp_path / "000001")


@pytest.mark.parametrize("name", ["learner.safetensors", "optimizer.pt", "state.json"])
def test_a_checkpoint_that_was_cut_off_is_named(name, model, tmp_path):
    learner = make_learner(configure(model))
    path = Checkpoints(tmp_path).write(1, lambda path: save(learner, path))
    (path / name).write_bytes((path / name).read_bytes()[:20])
    with pytest.raises(TrainingError, match="000001"):
        load(learner, path)


def test_a_context_without_room_for_a_first_reply_is_named(model):
    learner = make_learner(configure(model, max_tokens=60, iterations=1))
    with pytest.raises(TrainingError, match=r"all 4 dialogues failed: no room was left in max_tok"):
        next(train(learner))


def test_the_reference_is_the_model_as_it_was_at_the_start(model):
    learner = make_learner(configure(model, iterations=2, kl=0.1, lr=1e-2))
    before = [weight.detach().clone() for weight in learner.models.actor.parameters()]
    first, second = (one.metrics["reference_kl"] for one in train(learner))
    assert abs(first) < 1e-9 < 1e-4 < second
    actor, reference = learner.models.actor, learner.models.reference
    for kept, was, now in zip(reference.parameters(), before, actor.parameters(), strict=True):
        assert torch.equal(kept, was)
        assert not kept.requires_grad
        assert not torch.equal(now, was)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--model /no/such/model", "does not exist"),
        ("--dialogues 30 --group-size 4", "multiple of group_size (4). Change one of them. See: "),
        ("--config no-such-preset", "Presets: paper-grpo"),
        ("--algo foo", f"there is no 'foo'. One of: {', '.join(ALGORITHMS)}"),
        ("--algo grpo --critic-lr 3", "critic_lr would be ignored"),
        ("--max-tokens 200 --max-reply-tokens 256", "room for a prompt"),
        ("--model tiny --max-tokens 100000 --max-reply-tokens 90000", "reads 4096 tokens"),
        ("--model tiny --env CartPole-v1", "is no environment of text"),
        ("--model tiny --env RLVER-Strategy-v0", "Take another, such as RLVER-Empathy-v0"),
        ("--model tiny --env RLVER-Empahty-v0", "Look at --env, --env-options"),
        ("--model tiny --env no_such_module:My-v0", "Look at --env, --env-options"),
        ("--model tiny --env CartPole-v1 --env-options foo=1", "Look at --env"),
        (f"--model tiny --env CartPole-v1 --algo dpo --from {OWN}", "eval_options: {} for"),
        ("--env-options user", "NAME=VALUE"),
        ("--target-kl little", "target_kl: must be a number"),
        ("--vllm http://127.0.0.1:9/v1", "vllm, vllm_folder and lora_rank go together"),
        ("--overlong-tokens 8", "overlong_tokens and overlong_cost go together"),
        ("--overlong-tokens 9999 --overlong-cost 1", "than a reply may have"),
        ("--algo grpo --group-size 1", "grpo compares dialogues"),
        ("--algo rft --group-size 1", "rft compares replies"),
        ("--model tiny --algo rft --env RLVER-Sparse-v0", "pays at the end alone"),
        ("--eval-options split=test", "test people would choose the model"),
        ("--eval-options split=all", "test people would choose the model"),
        ("--env SAGE-Sentient-v0 --eval-options user=openai:x", "test people would choose"),
        ("--config qwen-0.5b --from nowhere", "openai:PAYER stands for a language model"),
    ],
)
def test_bad_input_is_named(options, says, tmp_path):
    words = ["train", "--out", str(tmp_path / "run"), *options.split()]
    result = CliRunner().invoke(app, words)
    assert result.exit_code != 0
    assert says in str(result.exception) + result.output


def test_a_preset_of_the_tiny_model_names_the_two_commands_when_no_model_is_given(tmp_path):
    result = CliRunner().invoke(app, ["train", "--config", "quick", "--out", str(tmp_path / "run")])
    says = str(result.exception)
    (demonstration,) = re.findall(r"rlver-gym sft (--out runs/warm .*?)\. Then", says)
    assert demonstration in (PRESETS / "quick.yaml").read_text()
    assert "rlver-gym train --config quick --model runs/warm" in says
    assert not (tmp_path / "run").exists()


def test_the_gain_that_is_printed_is_what_the_model_shows_as_an_agent(model, tmp_path, capsys):
    """Who is sampled at a temperature while evaluated is sampled at it afterwards, and the command
    names the same people.
    """
    config = TrainConfig(model=model, eval_temperature=0.7, **(GROUPS | {"iterations": 2}))
    folder = run_training(config, out=tmp_path / "run")
    told = read_error_output(capsys)
    best = json.loads((folder / "checkpoints" / "best.json").read_text())
    assert f"(from iteration {best['iteration']}: held out {best['score']:.1f}" in told
    assert "sampled at temperature 0.7" in told
    where = "--env RLVER-Empathy-v0 --split validation"
    assert f"rlver-gym bench {where} --agent hf:{folder}/model" in told
    assert json.loads((folder / "model" / "rlver_gym.json").read_text())["temperature"] == 0.7


def test_a_model_of_an_environment_of_ones_own_is_named_without_a_benchmark(
    model, tmp_path, capsys, monkeypatch
):
    own = copy.deepcopy(gym.spec("RLVER-Empathy-v0"))
    own.id = "Own-v0"
    monkeypatch.setitem(gym.registry, "Own-v0", own)
    run_training(configure(model, env="Own-v0", iterations=1), out=tmp_path)
    told = read_error_output(capsys)
    assert f"model {tmp_path / 'model'} (from iteration 1)" in told
    assert "rlver-gym bench" not in told


def test_an_alarm_is_shown_and_ends_a_run_that_asks_for_it(model, tmp_path, capsys, monkeypatch):
    def alarmed(learner):
        return evaluate(learner)._replace(alarms=["says the same to everybody."])

    monkeypatch.setattr(runs, "evaluate", alarmed)
    few = GROUPS | {"iterations": 3, "eval_every": 1}
    for stops, iterations in ((False, 3), (True, 1)):
        config = TrainConfig(model=model, stop_on_alarm=stops, **few)
        folder = run_training(config, out=tmp_path / str(stops))
        assert "alarm: the policy says the same to everybody." in read_error_output(capsys)
        assert read_metrics(folder)[-1]["iteration"] == iterations
        assert Checkpoints(folder / "checkpoints").latest().name == f"{iterations:06d}"


def test_who_says_the_same_to_everybody_raises_an_alarm_when_evaluated():
    people = library().ids("validation")[:9]
    envs = [gym.make("RLVER-Empathy-v0", persona=person) for person in people]
    same = "I am so sorry. That sounds hard. You will get through this."
    for env in envs:
        env.reset(seed=0)
        while not env.step(same)[2]:
            pass
    (alarm,) = find_alerts(_collect_episodes(envs))
    assert "near-copies" in alarm.says
    assert not _collect_episodes([gym.make("CartPole-v1")])


CHANGED = {
    "temperature": (0.5,),
    "reward_scale": (0.02,),
    "format_penalty": (0.0,),
    "overlong_tokens": (7,),
    "overlong_cost": (30.0,),
    "advantage": ("centred",),
    "min_std": (0.5,),
    "margin": (6.0,),
    "gamma": (0.5,),
    "gae_lambda": (0.5,),
    "clip_low": (0.001, 0.9),
    "clip_high": (0.001, 9.0),
    "value_clip": (0.001, 1e3),
    "aggregate": ("constant", "sequence"),
    "entropy": (0.1,),
    "kl": (0.7,),
    "beta": (0.7,),
    "tis_cap": (1.01,),
    "epochs": (3,),
    "minibatches": (2,),
}
"""Other values than the default, of which one changes advantages or losses wherever it is taken."""
WITH = {
    "overlong_tokens": {"overlong_tokens": 2, "overlong_cost": 1.0},
    "overlong_cost": {"overlong_tokens": 4, "overlong_cost": 1.0},
    "format_penalty": {"style": "think"},
    "tis_cap": {"dtype": "bfloat16"},
    "gamma": {"advantage": "turn"},
}
"""What an option needs beside it, where that is not refused itself."""


def make_learning_config(algo, compare, **options):
    plain = {"algo": algo, "epochs": 2, "dtype": "float32", "max_reply_tokens": 8}
    compared = {} if algo in ("rft", "dpo") else {"compare": compare}
    return make_config({**plain, "kl": 0.1, "max_sampler_kl": None, **compared, **options}, "it")


def try_config(algo, compare, **options):
    """The config, or why there is none."""
    try:
        return make_learning_config(algo, compare, **options)
    except TrainingError as error:
        return str(error)


def measure_learning(config, seed):
    """What the steps of one iteration do, on the same rollouts: broken replies that earned
    something, a group whose returns hardly differ, and a sampler that gave tokens less than the
    learner does.
    """
    rng, dialogues = np.random.default_rng(seed), []
    make = trying if config.compares == "replies" else played
    for at in range(6):
        dialogue = make(rng, group=at // 3, turns=3)
        earned = [3.0, 2.0, 1.0 + at / 4] if at < 3 else dialogue.reward_N + 5
        reward_N, broken_N = np.array(earned, np.float32), np.array([at > 3, False, False])
        dialogues.append(replace(dialogue, reward_N=reward_N, format_error_N=broken_N))
    rollouts = pack_rollouts(dialogues)
    sampled_BT = -6.0 * rollouts.tokens.action_mask_BT
    rollouts = replace(rollouts, tokens=replace(rollouts.tokens, sampled_BT=sampled_BT))
    critic = Critic(tiny(seed=2)) if config.algorithm.has_critic else None
    models = Models(Actor(tiny()), critic, Actor(tiny(seed=1)))
    torch.manual_seed(0)
    if critic:
        torch.nn.init.normal_(critic.value_head.weight)
    prepared, _ = prepare(rollouts, models, config)
    optimizer = make_optimizer(models, lr=1e-2, critic_lr=1e-2)
    steps = np.random.default_rng(0)
    take_steps(prepared, models, config, ignore_progress, optimizer, steps, compute_loss)
    modules = models.learners.values()
    return torch.cat([x.detach().flatten() for module in modules for x in module.parameters()])


@pytest.mark.parametrize("compare", ["dialogues", "replies"])
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_option_is_refused_or_changes_what_is_learned(algo, compare):
    if algo in ("rft", "dpo") and compare == "dialogues":
        with pytest.raises(TrainingError, match="compare would be ignored"):
            make_config({"algo": algo, "compare": compare}, "it")
        return
    silent = []
    for name, values in CHANGED.items():
        beside = WITH.get(name, {})
        plain = try_config(algo, compare, **beside)
        if isinstance(plain, str):
            beside, plain = {}, make_learning_config(algo, compare)
        changed = [try_config(algo, compare, **{**beside, name: value}) for value in values]
        if isinstance(changed[0], str):
            assert f"{name} would be ignored" in changed[0]
            continue
        if all(
            torch.equal(measure_learning(plain, seed), measure_learning(config, seed))
            for seed in (3, 4, 5)
            for config in changed
        ):
            silent.append(name)
    assert silent == []


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"algo": "ppo", "group_size": 8}, "group_size"),
        ({"algo": "grpo", "critic_lr": 1e-3}, "critic_lr"),
        ({"algo": "grpo", "critic_knows": "persona"}, "critic_knows"),
        ({"algo": "ppo", "target_kl": 0.1}, "target_kl"),
        ({"algo": "grpo", "next_reply": "best"}, "next_reply"),
        ({"corpus": "x", "algo": "dpo", "next_reply": "drawn"}, "next_reply"),
        ({"vllm_seeds": True}, "vllm_seeds"),
        ({"eval_every": 0, "stop_on_alarm": True}, "stop_on_alarm"),
        ({"corpus": "x", "eval_every": 0, "workers": 2}, "workers"),
    ],
)
def test_an_option_that_decides_nothing_is_an_error(options, name):
    with pytest.raises(TrainingError, match=f"{name} would be ignored"):
        make_config(options, "the options")


@pytest.mark.parametrize("preset", sorted(path.stem for path in PRESETS.glob("*.yaml")))
@pytest.mark.parametrize("algo", ["ppo", "grpo", "rloo", "rft", "dpo"])
def test_a_preset_goes_with_every_algorithm(preset, algo):
    config = build_config(preset, {"algo": algo})
    assert config.algo == algo
    assert config.group > 1 or algo in ("ppo", "rft", "dpo")
    assert config.num_candidates > 1 or algo not in ("rft", "dpo")
    assert "user" in config.env_options
    if algo in ("ppo", "grpo", "rloo"):
        assert build_config(preset, {"algo": algo, "compare": "replies"}).num_candidates > 1


SECTIONS = ("group: {env: 'evil:Env-v0'}", "ppo: {env_options: {user: 'evil:User'}}", "group: 3")


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_of_a_file_holds_nothing_but_its_own_fields(section, tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(f"model: tiny\n{section}")
    with pytest.raises(TrainingError, match="must hold nothing but"):
        read_config_values(str(path))


def test_a_number_that_a_preset_gives_can_be_taken_away():
    assert build_config("quick", {}).target_kl == 0.1
    assert build_config("quick", {"target_kl": "none"}).target_kl is None
    assert build_config("quick", {"target_kl": "0.2", "clip_low": "1e-1"}).target_kl == 0.2
    assert build_config("quick", {"model": "none"}).model == "none", "a model may be called so"


def test_runs_of_one_name_are_drawn_apart(tmp_path):
    folders = [tmp_path / one / "ppo" for one in "ab"]
    for number, folder in enumerate(folders):
        folder.mkdir(parents=True)
        (folder / "metrics.jsonl").write_text(f'{{"iteration": 1, "emotion": {number}}}\n')
    curves = read_page(write_page(folders, tmp_path / "page.html"))["curves"]
    assert [one["name"] for one in curves] == list(map(str, folders))


def test_every_field_is_an_option_with_a_help_text():
    shown = CliRunner().invoke(app, ["train", "--help-all"], env={"COLUMNS": "200"}).output
    assert "runs/train-ALGO-STYLE-MODEL-SEED" in " ".join(shown.split())
    assert folder_name(TrainConfig(model="runs/warm", seed=3)) == "train-grpo-direct-warm-3"
    assert "[default: grpo]" in shown
    for name, field in FIELDS.items():
        assert spell_flag(name) in shown
        assert field.description


def test_groups_share_a_seed_and_no_seed_comes_twice():
    config = TrainConfig(dialogues=8, group_size=4)
    seeds = [[one.seed for one in make_reset_specs(config, iteration)] for iteration in range(50)]
    assert all(row[:4] == [row[0]] * 4 and row[4:] == [row[4]] * 4 for row in seeds)
    assert len({seed for row in seeds for seed in row}) == 100


class OneOfThree(gym.Env[str, str]):
    """Whom a dialogue is with follows from the seed."""

    def reset(self, *, seed=None, options=None):
        return "Hello.", {"persona": "abc"[seed % 3]}


def test_held_out_personas_come_once_each_and_again_with_new_seeds_when_none_are_left():
    specs = make_distinct_specs(OneOfThree(), 5)
    assert [one.seed for one in specs] == [0, 1, 2, 250, 251]
    assert [one.seed for one in make_distinct_specs(OneOfThree(), 2)] == [0, 1]


def _talk(*lines):
    nothing, said = np.zeros(1, np.float32), tuple(TranscriptLine(*line) for line in lines)
    return Trajectory(0, 0, nothing, nothing.astype(bool), (), said, {})


def test_marks_of_hacking_are_counted_by_hand():
    dialogue = _talk(
        ("user", "my dog died in may"),
        ("agent", "your dog died in may"),
        ("agent", "your dog died in june"),
    )
    # the agent's runs: your dog died, dog died in, died in may | your dog died, dog died in, died
    # in june
    assert compute_repeated_share(dialogue) == pytest.approx(2 / 6)
    # dog died in (twice), died in may
    assert compute_copied_share(dialogue) == pytest.approx(3 / 6)
    assert compute_distinct_share(["Go on.", "go on", "No."]) == pytest.approx(2 / 3)


def test_what_replies_do_is_counted():
    feelings = [f"You must feel so {feeling}." for feeling in ("alone", "sad")]
    said = ["What was that like for you?", *feelings, "Everything will be okay."]
    done = compute_act_shares(said)
    assert done["does_open_question"] == 1 / 4
    assert done["does_reflect_feeling"] == 2 / 4
    assert done["does_cliche"] == 1 / 4
    assert done["does_advice"] == 0


def test_the_exported_model_is_the_policy_alone(model, tmp_path):
    learner = make_learner(TrainConfig(algo="ppo", model=model, **(SMALL | UNWATCHED)))
    save(learner, tmp_path)
    exported = load_file(tmp_path / "model" / "model.safetensors")
    assert exported.keys() == load_file(f"{model}/model.safetensors").keys()


def test_a_new_algorithm_is_one_entry(model, monkeypatch):
    mine = Algorithm(
        AdvantageConfig("turn", scale=False),
        Objective(clip_high=0.5, aggregate="token", kl=0.01),
        ignores=CRITIC_OPTIONS | {"min_std"},
    )
    monkeypatch.setitem(ALGORITHMS, "mine", mine)
    values = {"model": model, "algo": "mine", "advantage": "turn"} | GROUPS | UNWATCHED
    learner = make_learner(make_config(values | {"iterations": 1}, "the test"))
    (iteration,) = train(learner)
    assert iteration.metrics["reference_kl"] == pytest.approx(0, abs=1e-9)
    assert (learner.config.objective.clip_high, learner.config.objective.kl) == (0.5, 0.01)
    monkeypatch.setitem(ALGORITHMS, "alone", mine._replace(ignores=CRITIC_OPTIONS | GROUP_OPTIONS))
    assert make_config({"algo": "alone"}, "the test").group == 1
    with pytest.raises(TrainingError, match="min_std would be ignored: mine has none"):
        make_config(values | {"min_std": 0.5}, "the test")


@pytest.mark.parametrize(("algo", "weight"), [("ppo", 0.04), ("grpo", 0.04), ("dapo", 0.0)])
def test_the_divergence_from_the_start_is_the_algorithms_own_unless_told(algo, weight):
    assert make_config({"algo": algo}, "the test").objective.kl == weight
    assert make_config({"algo": algo, "kl": 0.3}, "the test").objective.kl == 0.3
