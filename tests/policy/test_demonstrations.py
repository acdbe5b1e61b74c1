"""What a warm start learns from, and what a tiny model brings along."""

import pytest
import torch
from json_files import write_lines

from rlver_gym.bench.export.demonstrations import generate_demonstrations
from rlver_gym.core.words import FUNCTION_WORDS
from rlver_gym.corpora.demonstrations import Demonstration, read_demonstrations
from rlver_gym.policy.learning.metrics import read_metrics
from rlver_gym.policy.models.actor import Actor
from rlver_gym.policy.models.agent import ReplyConfig
from rlver_gym.policy.models.model import load_model, load_tokenizer
from rlver_gym.policy.models.renderer import Renderer
from rlver_gym.policy.run_sft import teach
from rlver_gym.policy.sft import (
    SupervisedLearner,
    hold_out,
    measure_cross_entropy,
    tokenize_demonstration,
)
from rlver_gym.policy.sft_config import make_sft_config
from rlver_gym.util.errors import TrainingError

HEARD = Demonstration(
    ("My brother sold the piano.", "Nobody asked me."),
    ("So your brother sold the piano. Tell me everything.", "Everything?"),
    ("They want to be heard.", "They have more to say."),
)


def test_demonstrations_end_with_what_the_agent_said():
    told = list(generate_demonstrations(["comfort", "listener"], 4))
    assert len(told) == 4
    assert all(len(one.users) == len(one.replies) == len(one.plans) > 0 for one in told)
    assert told == list(generate_demonstrations(["comfort", "listener"], 4))


def test_plans_go_with_what_their_agents_say():
    told = list(generate_demonstrations(["comfort", "strategy:listen"], 6))
    plans = {plan for one in told for plan in one.plans}
    assert len(plans) == 2
    (comforting,) = [plan for plan in plans if "comfort" in plan]
    for one in told:
        for reply, line, plan in zip(one.replies, one.users, one.plans, strict=True):
            words = {word for word in line.strip(".!?").split() if len(word) > 6}
            given_back = any(word in reply for word in words - FUNCTION_WORDS)
            assert given_back <= (plan != comforting), (plan, line, reply)


def test_a_policy_that_thinks_learns_plans_and_one_that_does_not_never_reads_them(tiny_folder):
    tokenizer = load_tokenizer(str(tiny_folder))
    renderers = (Renderer(tokenizer, "Be kind.", style) for style in ("direct", "think"))
    direct, think = (tokenize_demonstration(HEARD, renderer) for renderer in renderers)
    texts = [[tokenizer.decode(one.id_T) for one in played.sequences] for played in (direct, think)]
    assert "want to be heard" not in texts[0][0]
    first, second = texts[1]
    assert "<think>They want to be heard.</think>So your brother" in first
    assert "want to be heard" not in second
    assert "<think>They have more to say.</think>Everything?" in second
    said = tokenizer.decode(think.sequences[1].id_T[think.sequences[1].action_mask_T])
    assert said.startswith("<think>They have more to say.</think>Everything?")


def taught(model, out, told, **how):
    """The losses of the steps of a warm start that is written to `out`."""
    values = {"model": str(model), "lr": 3e-3, "held_out": 0, **how}
    teach(make_sft_config(values, "the test"), told, out)
    return [line["loss"] for line in read_metrics(out) if "loss" in line]


def test_a_warm_start_that_breaks_says_so(tiny_folder, tmp_path):
    with pytest.raises(TrainingError, match="--lr"):
        taught(tiny_folder, tmp_path / "model", [HEARD] * 16, lr=1e30)


@pytest.mark.parametrize(
    ("told", "share", "held_out"),
    [
        ([("Ann", "a"), ("Ann", "b"), ("Ben", "c"), ("Cy", "d")], 0.34, [{"Ann"}, {"Ben"}, {"Cy"}]),
        ([("", "a"), ("", "a"), ("", "b"), ("", "c")], 0.34, [{"a"}, {"b"}, {"c"}]),
        ([("Ann", "a"), ("Ben", "b"), ("Cy", "c")], 0.3, [set()]),
        ([("Ann", "a"), ("Ben", "b"), ("Cy", "c")], 0.0, [set()]),
    ],
)
def test_whole_people_are_held_out_and_where_nobody_is_named_whole_dialogues(told, share, held_out):
    demonstrations = [HEARD._replace(who=who, users=(begin, "")) for who, begin in told]
    drawn = []
    for seed in range(20):
        split = hold_out(demonstrations, share, seed)
        assert split == hold_out(demonstrations, share, seed)
        names = [{one.who or one.users[0] for one in part} for part in split]
        assert sum(map(len, split)) == len(told)
        assert not names[0] & names[1]
        drawn.append(names[1])
    assert all(names in drawn for names in held_out)
    assert all(names in held_out for names in drawn)


def test_the_loss_of_people_held_out_is_written_down_before_and_after_each_pass(
    tiny_folder, tmp_path, capsys
):
    told = [HEARD._replace(who=f"person {at}") for at in range(9)]
    told.append(Demonstration(("I lost it.",), ("Oh no, your ring.",), ("",), who="person 9"))
    seed = next(at for at in range(99) if hold_out(told, 0.1, at).held_out == told[9:])
    out = tmp_path / "model"
    taught(tiny_folder, out, told, epochs=3, held_out=0.1, seed=seed, reply_tokens=9)
    lines = [line for line in read_metrics(out) if "held_out_loss" in line]
    assert [line["iteration"] for line in lines] == [0, 2, 4, 6]
    renderer = Renderer(load_tokenizer(str(out)), ReplyConfig.read(out).system)
    unheard = [tokenize_demonstration(told[9], renderer)]
    for folder, line in ((tiny_folder, lines[0]), (out, lines[-1])):
        loss = measure_cross_entropy(Actor(load_model(str(folder))), unheard)
        assert line["held_out_loss"] == pytest.approx(loss, rel=1e-4)
    shown = " ".join(capsys.readouterr().err.split())
    assert f"held out after step 6: loss {lines[-1]['held_out_loss']:.3f}" in shown
    assert f"held out {lines[0]['held_out_loss']:.3f}, then" in shown


def test_no_logits_are_made_but_of_what_is_learned_and_gradients_skip_the_entropy(
    tiny_folder, monkeypatch
):
    """The largest tensors of a step are logits in float32."""
    model = load_model(str(tiny_folder))
    renderer = Renderer(load_tokenizer(str(tiny_folder)), "Be kind.")
    told = tokenize_demonstration(HEARD._replace(only_last=True), renderer)
    learner = SupervisedLearner(Actor(model), [told], epochs=1, lr=1e-3)
    logits = []
    head = model.get_output_embeddings()
    assert head
    head.register_forward_hook(lambda _, __, out: logits.append(out.shape))
    softmax, with_gradient = torch.Tensor.softmax, []

    def note_and_compute(*given):
        with_gradient.append(torch.is_grad_enabled())
        return softmax(*given)

    monkeypatch.setattr(torch.Tensor, "softmax", note_and_compute)
    learner.learn()
    assert logits == [(told.sequences[0].action_mask_T.sum(), head.weight.shape[0])]
    assert with_gradient == [False]


def written(path, *rows):
    write_lines(path, rows)
    return path


def chat(*texts):
    return [
        {"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)
    ]


SYSTEM = {"role": "system", "content": "Be kind."}
CHAT = chat("It hurts.", "What does?", "All of it.", "I see.")


def test_demonstrations_are_read_as_they_are_exported(tmp_path):
    whole = {"messages": [SYSTEM, *CHAT], "metadata": {"final": 80, "persona": "ann"}}
    single = {"prompt": CHAT[:3], "completion": CHAT[3:]}
    first, second = read_demonstrations(written(tmp_path / "good.jsonl", whole, single))
    said = ("It hurts.", "All of it."), ("What does?", "I see."), ("", "")
    assert first == Demonstration(*said, who="ann")
    assert second == Demonstration(*said, only_last=True)


def test_of_a_single_reply_only_its_own_tokens_are_learned(tiny_folder):
    renderer = Renderer(load_tokenizer(str(tiny_folder)), "system")
    (whole,) = tokenize_demonstration(HEARD, renderer).sequences
    (single,) = tokenize_demonstration(HEARD._replace(only_last=True), renderer).sequences
    assert (single.id_T == whole.id_T).all()
    assert (single.action_mask_T == (whole.turn_T == 1)).all()
    assert 0 < single.action_mask_T.sum() < whole.action_mask_T.sum()


NO_MESSAGES = [CHAT[:1], CHAT[1::-1], "hello", []]


@pytest.mark.parametrize("row", [{"text": "hello"}, *({"messages": one} for one in NO_MESSAGES)])
def test_what_is_no_demonstration_is_named(tmp_path, row):
    path = written(tmp_path / "bad.jsonl", {"messages": CHAT[:2]}, row)
    with pytest.raises(TrainingError, match=r"bad.jsonl:2: is no demonstration"):
        read_demonstrations(path)


def test_an_empty_file_holds_no_demonstrations(tmp_path):
    with pytest.raises(TrainingError, match="no demonstrations"):
        read_demonstrations(written(tmp_path / "empty.jsonl"))


def test_a_warm_start_from_demonstrations_lowers_the_loss_and_notes_how_long_replies_are(
    tiny_folder, tmp_path
):
    data = written(tmp_path / "good.jsonl", *[{"messages": CHAT}] * 8)
    told = read_demonstrations(data)
    losses = taught(tiny_folder, tmp_path / "model", told, epochs=6, data=[data])
    assert losses[-1] < losses[0] - 0.3
    assert 2 <= ReplyConfig.read(tmp_path / "model").max_reply_tokens <= 12


@pytest.mark.slow
def test_in_half_precision_nearly_the_same_is_learned_and_weights_stay_whole(tiny_folder, tmp_path):
    told = list(generate_demonstrations(["comfort"], 8))
    how = {"epochs": 2, "lr": 1e-3}
    whole = taught(tiny_folder, tmp_path / "whole", told, dtype="float32", **how)
    half = taught(tiny_folder, tmp_path / "half", told, dtype="bfloat16", **how)
    assert half != whole
    assert half == pytest.approx(whole, rel=0.02)
    written_as = {one.dtype for one in load_model(str(tmp_path / "half")).parameters()}
    assert written_as == {torch.float32}


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
def test_adapters_learn_and_are_merged_into_what_is_written(tiny_folder, tmp_path):
    pytest.importorskip("peft", reason="adapters need peft: pip install '.[lora]'")
    told, out = [HEARD] * 8, tmp_path / "model"
    how = {"epochs": 6, "lr": 1e-2, "lora_rank": 4}
    losses = taught(tiny_folder, out, told, **how)
    assert losses[-1] < losses[0] - 0.2
    before, after = (load_model(str(folder)).state_dict() for folder in (tiny_folder, out))
    assert before.keys() == after.keys()
    embedded = (one["model.embed_tokens.weight"] for one in (before, after))
    assert torch.equal(*embedded), "only linear layers have adapters"
    assert any(not torch.equal(before[name], after[name]) for name in before)


def test_a_warm_start_does_not_write_over_what_is_there(tiny_folder, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(TrainingError, match=r"is not empty. Choose another folder with --out"):
        taught(tiny_folder, tmp_path, [HEARD])
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_demonstrations_without_thoughts_teach_no_thinking(tiny_folder, tmp_path):
    told = read_demonstrations(written(tmp_path / "good.jsonl", {"messages": CHAT[:2]}))
    with pytest.raises(TrainingError, match="no thoughts"):
        taught(tiny_folder, tmp_path / "model", told, style="think")
