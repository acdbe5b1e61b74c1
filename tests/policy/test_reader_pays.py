"""The reader pays a policy that is its own base with adapters: one set of weights."""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from threading import Event, Lock

import numpy as np
import pytest
from tiny_policy import SHORT

from rlver_gym import Dialogue
from rlver_gym.library.personas import library
from rlver_gym.policy.config import make_config
from rlver_gym.policy.iteration import train
from rlver_gym.policy.learner import make_learner
from rlver_gym.policy.models.model import find_causal_lm
from rlver_gym.policy.run_training import _summarise_training
from rlver_gym.users.reader import ReaderUser
from rlver_gym.users.reader_states import LAYOUT, NUM_KINDS, FrozenStates
from rlver_gym.util.errors import UnknownName
from rlver_gym.util.model_cache import SHARED


@pytest.fixture
def head(tmp_path, tiny_folder):
    """A head by lot."""
    states = FrozenStates.load(str(tiny_folder), (1,), "cpu", "float32")
    size, chance = NUM_KINDS * states.width, np.random.default_rng(0)
    about = {
        "base": "tiny",
        "fingerprint": states.fingerprints()[0],
        "layout": LAYOUT,
        "depths": [1],
        "embedded": 0.5,
        "read": 0.5,
        "constant": 0.0,
    }
    np.savez(
        tmp_path / "head.npz",
        about=np.array(json.dumps(about)),
        mean=np.zeros(size),
        scale=np.ones(size),
        weight=chance.normal(size=(size, 7)),
        intercept=np.zeros(7),
        basis=np.zeros((size, 1)),
        near=np.array(1e3),
    )
    return tmp_path / "head.npz"


def learn(model, head, **more):
    values = SHORT | {"model": str(model), "env_options": {"user": f"reader:{head}"}, **more}
    return make_learner(make_config(values, "the test"))


def test_the_reader_is_the_policy_without_its_adapters(tiny_folder, head, monkeypatch):
    pytest.importorskip("peft", reason="needs peft: pip install '.[lora]'")
    persona = library().get(library().ids("demo")[0])
    asked = [(persona, Dialogue("Hello.").with_utterance(text)) for text in ("Oh no.", "I see.")]
    base = ReaderUser(head, base=str(tiny_folder), device="cpu", dtype="float32").read(asked)
    monkeypatch.setattr(FrozenStates, "load", lambda *_: pytest.fail("a second model is loaded"))
    learner = learn(tiny_folder, head, lora_rank=4)
    decoder = find_causal_lm(learner.models.actor.model).get_decoder()
    (iteration,) = train(learner)
    assert iteration.metrics
    adapters = [x for name, x in decoder.named_parameters() if "lora_B" in name]
    assert any(one.abs().max() > 0 for one in adapters), "the policy is another by now"
    readers = [env.unwrapped.user for env in learner.envs]
    assert {id(user._load().model) for user in readers} == {id(decoder)}
    for before, now in zip(base, readers[0].read(asked), strict=True):
        assert now.change == pytest.approx(before.change, abs=0.05)
    hooks = [hook for layer in decoder.layers for hook in layer._forward_hooks.values()]
    assert not any(isinstance(hook, partial) for hook in hooks)
    learner.close()
    assert not SHARED


def test_many_workers_read_and_sample_with_one_model_in_turn(tiny_folder, head):
    """A reading beside a sample would take the other's states, and its adapters from it."""
    pytest.importorskip("peft", reason="needs peft: pip install '.[lora]'")
    values = {"lora_rank": 4, "dialogues": 8, "group_size": 4, "compare": "replies", "workers": 8}
    learner = learn(tiny_folder, head, **values)
    layer = find_causal_lm(learner.models.actor.model).get_decoder().layers[0]
    inside, crowded = Lock(), []

    def enter(*_):
        crowded.append(not inside.acquire(blocking=False))
        time.sleep(0.002)

    layer.register_forward_pre_hook(enter)
    layer.register_forward_hook(lambda *_: inside.release() if inside.locked() else None)
    learner.collect()
    learner.close()
    assert len(crowded) > 20
    assert not any(crowded)


def test_prompts_keep_their_marks_while_the_reader_splits_them(tiny_folder, head):
    pytest.importorskip("peft", reason="needs peft: pip install '.[lora]'")
    learner = learn(tiny_folder, head, lora_rank=4)
    shared = SHARED[str(tiny_folder)]
    states = FrozenStates(shared.model, shared.tokenizer, (1,))
    done = Event()

    def read():
        for number in count():
            if done.is_set():
                return
            states._tokenize(f" said {number}")

    with ThreadPoolExecutor() as pool:
        reading = [pool.submit(read) for _ in range(2)]
        prompts = {tuple(learner.renderer.opening("Hello.")) for _ in range(1000)}
        done.set()
    assert not any(one.exception() for one in reading)
    learner.close()
    assert len(prompts) == 1


def test_a_policy_that_learns_whole_is_no_base(tiny_folder, head):
    learner = learn(tiny_folder, head)
    with pytest.raises(UnknownName, match="not in the package"):
        next(train(learner))


def test_a_policy_of_another_base_is_named(tiny_folder, head, tmp_path):
    pytest.importorskip("peft", reason="needs peft: pip install '.[lora]'")
    with np.load(head) as file:
        values = dict(file)
    about = json.loads(str(values["about"])) | {"fingerprint": "0" * 12}
    np.savez(tmp_path / "other.npz", **values | {"about": np.array(json.dumps(about))})
    learner = learn(tiny_folder, tmp_path / "other.npz", lora_rank=4)
    with pytest.raises(UnknownName, match="the policy is another model"):
        next(train(learner))
    learner.close()


@pytest.mark.parametrize(
    ("options", "base"), [({}, "runs/sft"), ({"base": "qwen"}, "qwen"), ({"user": "embedded"}, "")]
)
def test_the_benchmark_that_is_proposed_names_the_readers_base(tmp_path, options, base):
    values = {"model": "runs/sft", "lora_rank": 4, "env_options": {"user": "reader", **options}}
    config = make_config(values, "the test")
    told = _summarise_training(config, tmp_path, 1, {}, is_alarmed=False)
    assert re.findall(r"--user-option base=(\S+)", told) == ([base] if base else [])
