"""The prompt of a policy: the same in training, sampling and the benchmark."""

import json

import pytest
from paths import ROOT
from typer.testing import CliRunner

from rlver_gym import Message
from rlver_gym.bench.folder import MANIFEST
from rlver_gym.cli.root import app
from rlver_gym.core.agent import agent_prompt
from rlver_gym.corpora.corpus import Corpus
from rlver_gym.corpora.demonstrations import Demonstration
from rlver_gym.policy.config import make_config
from rlver_gym.policy.learner import make_learner
from rlver_gym.policy.models.agent import HFAgent, ReplyConfig
from rlver_gym.policy.models.model import load_tokenizer
from rlver_gym.policy.models.sampler import ModelSampler
from rlver_gym.policy.models.tiny_model import build_tiny_model
from rlver_gym.policy.run_sft import teach
from rlver_gym.policy.run_training import run_training
from rlver_gym.policy.sft_config import make_sft_config
from rlver_gym.util.errors import AgentError, TrainingError, UnknownName

OWN = ROOT / "recordings" / "en" / "samples" / "own"
SMALL = {"iterations": 1, "dialogues": 2, "group_size": 2, "max_reply_tokens": 6, "eval_every": 0}
BRIEF = ReplyConfig(system="Be brief.", max_reply_tokens=6)
PLANS = ReplyConfig(system="Plan, then speak.", style="think", max_reply_tokens=6)
ZH = ReplyConfig(system=agent_prompt("zh"), max_reply_tokens=6)


@pytest.fixture(scope="module")
def model(one_thread, tmp_path_factory):
    """A folder without a reply config; those that a test writes go with the next."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    build_tiny_model(folder, seed=3, hidden=32, layers=1, vocab=600)
    return folder


def put(folder, reply_config):
    (folder / "rlver_gym.json").unlink(missing_ok=True)
    if reply_config is not None:
        reply_config.write(folder)


def as_messages(users, replies):
    lines = [Message("user", users[0])]
    for reply, user in zip(replies, users[1:], strict=True):
        lines += [Message("agent", reply), Message("user", user)]
    return lines


CASES = {
    "a folder that says nothing": (None, {}, agent_prompt()),
    "a folder with a prompt": (BRIEF, {}, "Be brief."),
    "a folder in another language": (ZH, {}, agent_prompt("zh")),
    "a prompt of one's own": (BRIEF, {"system": "Say little."}, "Say little."),
    "a policy that thinks": (PLANS, {"style": "think"}, "Plan, then speak."),
}


@pytest.mark.parametrize("case", CASES)
def test_train_sample_and_agent_send_the_same_tokens_for_the_same_dialogue(
    case, model, tmp_path, monkeypatch
):
    reply_config, options, prompt = CASES[case]
    put(model, reply_config)
    learner = make_learner(make_config({"model": str(model), **SMALL, **options}, "the test"))
    system = {name: text for name, text in options.items() if name == "system"}
    agent = HFAgent(str(model), options=system)
    assert learner.config.prompt == agent.reply_config.system == prompt

    def sent_by_agent(users, replies):
        return agent._prompt(as_messages(users, replies))[0]

    for trajectory in learner.collect():
        users = [line.text for line in trajectory.lines if line.speaker == "user"]
        replies = [line.text for line in trajectory.lines if line.speaker == "agent"]
        assert len(trajectory.sequences) > 1 or options.get("style") != "think"
        for turn, sequence in enumerate(trajectory.sequences):  # of a direct one the first alone
            sent = sequence.id_T[: sequence.action_mask_T.argmax()].tolist()
            assert sent == sent_by_agent(users[: turn + 1], replies[:turn])

    drawn = []
    sample = ModelSampler.sample

    def record(self, prompts, sampling):
        drawn.extend(list(one.ids) for one in prompts)
        return sample(self, prompts, sampling)

    monkeypatch.setattr(ModelSampler, "sample", record)
    words = ["--moments", "3", "--replies", "2", "--reply-tokens", "4", "--temperature", "1"]
    words += [word for name, text in system.items() for word in (f"--{name}", text)]
    command = ["sample", str(model), "--at", str(OWN), "--out", str(tmp_path / "drawn"), *words]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.exception
    for at, moment in enumerate(Corpus(tmp_path / "drawn").moments):
        users = [moment.opening, *(turn.user for turn in moment.turns)]
        sent = sent_by_agent(users, [turn.agent for turn in moment.turns])
        assert drawn[2 * at] == drawn[2 * at + 1] == sent
    if "style" not in options:
        values = {**SMALL, **options, "corpus": str(OWN), "algo": "dpo"}
        del values["group_size"]
        rated = make_learner(make_config({"model": str(model), **values}, "the test")).rated
        sequences = [moment.sequences[0] for moment in rated]
        learned = {tuple(x.id_T[~x.action_mask_T].tolist()) for x in sequences}
        assert {tuple(ids) for ids in drawn} <= learned


def test_the_prompt_of_a_warm_start_is_that_of_its_training_and_of_what_was_trained(
    model, tmp_path
):
    put(model, None)
    told = [Demonstration(("I lost it.",), ("Oh no.",), ("",))]
    warm, out = tmp_path / "warm", tmp_path / "run"
    values = {"model": str(model), "epochs": 1, "held_out": 0, "system": "Be brief."}
    teach(make_sft_config(values, "the test"), told, warm)
    assert json.loads((warm / "sft.json").read_text())["config"]["system"] == "Be brief."
    config = make_config({"model": str(warm), **SMALL, "save_every": 1}, "the test")
    run_training(config, out=out)
    assert json.loads((out / "config.json").read_text())["system"] == "Be brief."
    again = tmp_path / "again"
    teach(
        make_sft_config({**values, "system": None, "model": str(out / "model")}, "it"), told, again
    )
    for folder in (warm, out / "model", again):
        assert ReplyConfig.read(folder).system == "Be brief."
    agent = HFAgent(str(out / "model"))
    assert "Be brief." in load_tokenizer(str(warm)).decode(
        agent._prompt([Message("user", "Hi.")])[0]
    )

    ReplyConfig(system="Be long.").write(warm)
    resumed = ["train", "--resume", "--out", str(out), "--iterations", "2"]
    assert CliRunner().invoke(app, resumed).exit_code == 0, "what config.json says goes on"
    assert ReplyConfig.read(out / "model").system == "Be brief."
    with pytest.raises(TrainingError, match="system"):
        run_training(config, out=out, resume=True)


REFUSED = {
    "for another style": (BRIEF, {"style": "think"}, TrainingError, "lost with style think"),
    "in another language": (BRIEF, {"language": "zh"}, TrainingError, "language zh"),
    "two prompts": (
        BRIEF,
        {"language": "zh", "system": "Say little."},
        TrainingError,
        "language would be ignored",
    ),
    "no reply config": ("{", {}, AgentError, "cannot be read"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_prompt_that_would_be_lost_is_refused(case, model):
    said, options, error, words = REFUSED[case]
    if isinstance(said, str):
        (model / "rlver_gym.json").write_text(said)
    else:
        put(model, said)
    with pytest.raises(error, match=words):
        make_learner(make_config({"model": str(model), **SMALL, **options}, "the test"))


def test_the_package_s_own_prompt_follows_the_style_and_the_language(model):
    put(model, ReplyConfig())
    values = {"model": str(model), **SMALL, "style": "think"}
    assert make_learner(make_config(values, "it")).config.prompt == agent_prompt("en", "think")
    put(model, ZH)
    values = {"model": str(model), **SMALL, "style": "think", "language": "zh"}
    assert make_learner(make_config(values, "it")).config.prompt == agent_prompt("zh", "think")


def test_options_of_a_model_in_a_folder_replace_what_it_says_and_are_pinned(model, tmp_path):
    put(model, BRIEF)
    words = ("system=Say little.", "max_reply_tokens=3", "temperature=0.5")
    options = [word for pair in words for word in ("--agent-option", pair)]
    command = f"bench --agent hf:{model} --split demo --seeds 1 --out {tmp_path / 'run'}".split()
    shown = CliRunner().invoke(app, [*command, *options])
    assert shown.exit_code == 0, shown.exception
    pinned = json.loads((tmp_path / "run" / MANIFEST).read_text())["plan"]["agent_options"]
    assert pinned == {"system": "Say little.", "max_reply_tokens": 3, "temperature": 0.5}
    agent = HFAgent(str(model), options=pinned)
    assert agent.reply_config == ReplyConfig(**pinned)
    assert agent._sampling.max_tokens == 3
    with pytest.raises(UnknownName, match="temperature"):
        HFAgent(str(model), options={"temprature": 0})
    with pytest.raises(AgentError, match="max_reply_tokens"):
        HFAgent(str(model), options={"max_reply_tokens": 0})
