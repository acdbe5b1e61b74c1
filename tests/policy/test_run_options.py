"""Every option of a run, as far as it is none of the equations (test_train): refused, or seen in
what the run does.
"""

import hashlib
from types import SimpleNamespace

import pytest
from paths import ROOT
from test_train import CHANGED

from rlver_gym import RlverError
from rlver_gym.corpora.corpus import Corpus
from rlver_gym.policy import evaluate, learner, run_training
from rlver_gym.policy.config import FIELDS, make_config
from rlver_gym.policy.learning import micro_batches, steps
from rlver_gym.util.errors import TrainingError

OWN = ROOT / "recordings" / "en" / "samples" / "own"
PLAIN = {
    "iterations": 2,
    "dialogues": 6,
    "group_size": 2,
    "max_reply_tokens": 6,
    "max_tokens": 1024,
    "lr": 1e-2,
    "save_every": 1,
    "show_every": 1,
}
CORPUS = {"corpus": str(OWN), "group_size": 4, "max_tokens": 4096}
EVALUATED = {"eval_every": 1, "eval_dialogues": 2}
CONTEXTS = {
    "dialogues": EVALUATED,
    "nobody evaluated": {"eval_every": 0},
    "a corpus": CORPUS | EVALUATED,
    "a corpus alone": CORPUS | {"eval_every": 0},
}
WATCHING = {"eval_every", "eval_dialogues", "eval_options", "stop_on_alarm", "env", "env_options"}
"""What has another meaning where nobody is evaluated."""
CHANGES = {
    "env": {"env": "RLVER-Challenging-v0"},
    "env_options": {"env_options": {"user": "test_reference:Whimsical"}},
    "style": {"style": "think"},
    "language": {"language": "zh"},
    "system": {"system": "Be brief."},
    "seed": {"seed": 1},
    "iterations": {"iterations": 1},
    "dialogues": {"dialogues": 2},
    "max_reply_tokens": {"max_reply_tokens": 4},
    "max_tokens": {"max_tokens": 150},
    "workers": {"workers": 3},
    "algo": {"algo": "dr_grpo"},
    "compare": {"compare": "replies"},
    "lr": {"lr": 1e-3},
    "warmup": {"warmup": 2},
    "anneal": {"anneal": True},
    "grad_clip": {"grad_clip": 1e-6},
    "max_sampler_kl": {"max_sampler_kl": 1e-12},
    "gradient_checkpointing": {"gradient_checkpointing": True},
    "microbatch_tokens": {"microbatch_tokens": 100},
    "lora_rank": {"lora_rank": 2},
    "dtype": {"dtype": "bfloat16"},
    "vllm": {"vllm": "http://127.0.0.1:9/v1"},
    "vllm_folder": {"vllm_folder": "/nowhere"},
    "vllm_seeds": {"vllm_seeds": True},
    "critic_lr": {"critic_lr": 1e-2},
    "critic_knows": {"critic_knows": "persona"},
    "group_size": {"group_size": 3},
    "eval_every": {"eval_every": 2},
    "eval_dialogues": {"eval_dialogues": 1},
    "eval_options": {"eval_options": {"split": "demo"}},
    "eval_temperature": {"eval_temperature": 0.7},
    "stop_on_alarm": {"stop_on_alarm": True},
    "reference": {"reference": "test_reference:Whimsical"},
    "reference_options": {"reference_options": {"no_such_option": 1}},
    "reference_every": {"reference_every": 1},
    "reference_dialogues": {"reference_dialogues": 3},
    "stop_on_gap": {"stop_on_gap": 0.1},
    "save_every": {"save_every": 2},
    "keep_checkpoints": {"keep_checkpoints": 1},
    "show_every": {"show_every": 0},
    "target_kl": {"target_kl": 1e-9},
    "next_reply": {"next_reply": "best"},
    "reward": {"reward": "test_run_options:count_letters"},
}
NEEDS = {
    "critic_lr": {"algo": "ppo", "group_size": 4},
    "critic_knows": {"algo": "ppo", "group_size": 4},
    "next_reply": {"compare": "replies"},
    "target_kl": {"epochs": 2},
    "max_sampler_kl": {"dtype": "bfloat16"},
    "save_every": {"iterations": 4},
    "keep_checkpoints": {"iterations": 4},
    "reference_options": {"reference": "test_reference:Whimsical"},
    "reference_every": {"reference": "test_reference:Whimsical", "iterations": 3},
    "reference_dialogues": {"reference": "test_reference:Whimsical"},
    "stop_on_gap": {"reference": "test_reference:Whimsical"},
}
"""What an option needs beside it where it is for something."""
SAME = {("a corpus", "compare"), ("a corpus alone", "compare")}
"""Replies are what a corpus compares anyway."""


def count_letters(reply):
    return float(len(reply.text))


def test_the_walk_goes_over_every_option_of_a_run():
    assert not CHANGES.keys() & CHANGED.keys()
    assert CHANGES.keys() | CHANGED.keys() | {"model", "corpus"} == FIELDS.keys()


def note_calls(patch, seen, module, name):
    """What a function of the module is called with, as far as it is plain."""
    do = getattr(module, name)

    def note(*given, **named):
        values = [*enumerate(given), *named.items()]
        seen.append((name, [pair for pair in values if isinstance(pair[1], int | str)]))
        return do(*given, **named)

    patch.setattr(module, name, note)


def trace(values, folder):
    """What a run leaves, and what shows in no file; or why there was none."""
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (learner, "collect_rollouts"),
            (learner, "load_model"),
            (micro_batches, "split_into_micro_batches"),
            (steps, "split_into_micro_batches"),
        ):
            note_calls(patch, seen, module, name)
        few = Corpus(OWN).rated_replies()[:36]
        patch.setattr(Corpus, "rated_replies", lambda _: few)
        patch.setattr(evaluate, "find_alerts", lambda _: [SimpleNamespace(says="is bad.")])
        patch.setattr(run_training, "exceeds_gap", lambda config, *_: bool(config.stop_on_gap))
        try:
            run_training.run_training(make_config(values, "the test"), out=folder)
        except RlverError as error:
            return str(error)
    left = {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.name not in ("config.json", "state.json", "times.jsonl")
        and "tensorboard" not in path.parts
    }
    return f"{left} {seen}"


def is_refused(values):
    try:
        make_config(values, "the test")
    except TrainingError:
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("context", CONTEXTS)
def test_every_option_of_a_run_is_refused_or_seen(context, model, tmp_path):
    silent, traces = [], {}
    names = CHANGES.keys() if "eval_dialogues" in CONTEXTS[context] else WATCHING
    for name in sorted(names):
        change = CHANGES[name]
        plain = PLAIN | {"model": model} | CONTEXTS[context] | NEEDS.get(name, {})
        if is_refused(plain):
            plain = PLAIN | {"model": model} | CONTEXTS[context]
        assert not is_refused(plain)
        if is_refused(plain | change) or (context, name) in SAME:
            continue
        for number, values in enumerate((plain, plain | change)):
            if repr(values) not in traces:
                traces[repr(values)] = trace(values, tmp_path / f"{name}-{number}")
        if traces[repr(plain)] == traces[repr(plain | change)]:
            silent.append(name)
    assert silent == [], context
