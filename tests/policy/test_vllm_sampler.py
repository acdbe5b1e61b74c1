"""A policy that talks through a vLLM server. The server here is one on loopback that does what is
asked of vLLM with a real model and real adapters; vLLM itself wants a GPU.
"""

import json
from pathlib import Path

import pytest
from asking import answering
from commands import run_processes
from completions import completion
from tiny_policy import SHORT

peft = pytest.importorskip("peft", reason="adapters need peft: pip install '.[lora]'")
from rlver_gym.policy.config import TrainConfig, make_config
from rlver_gym.policy.iteration import train
from rlver_gym.policy.learner import make_learner
from rlver_gym.policy.models.model import load_model
from rlver_gym.policy.models.sampler import ModelSampler, Prompt, Sampling
from rlver_gym.util.errors import TrainingError

pytestmark = pytest.mark.filterwarnings(
    "ignore:.is_gradient_checkpointing. is deprecated:FutureWarning"
)
"""What peft asks transformers 5.23 for."""


class Vllm:
    """One base model and the adapters that it was told to load, one request at a time."""

    def __init__(self, model):
        self.model = model
        self.adapters = {}
        self.told = []
        self.keys = set()

    def __call__(self, request):
        self.keys.add(request.headers.get("authorization"))
        return self.answer(request.path, json.loads(request.body))

    def answer(self, path, asked):
        if path == "/v1/load_lora_adapter":
            self.told.append(("load", asked["lora_name"]))
            if asked["lora_name"] in self.adapters:
                says = f"The lora adapter '{asked['lora_name']}' has already been loaded."
                return 400, {"error": {"message": says}}
            if not (Path(asked["lora_path"]) / "adapter_config.json").exists():
                return 404, {"error": {"message": "no adapter there"}}
            adapted = peft.PeftModel.from_pretrained(
                load_model(self.model, device="cpu"), asked["lora_path"]
            )
            self.adapters[asked["lora_name"]] = ModelSampler(adapted)
            return 200, "Success"
        if path == "/v1/unload_lora_adapter":
            self.told.append(("unload", asked["lora_name"]))
            is_there = self.adapters.pop(asked["lora_name"], None)
            return (200, "Success") if is_there else (404, {"error": {}})
        if asked["model"] not in self.adapters:
            return 404, {"error": {"message": f"the model {asked['model']} does not exist"}}
        sampler, stops = self.adapters[asked["model"]], frozenset(asked["stop_token_ids"])
        sampler.forget()
        sampling = Sampling(asked["max_tokens"], stops, asked["temperature"])
        (drawn,) = sampler.sample([Prompt(0, asked["prompt"], asked.get("seed", 0))], sampling)
        return 200, completion(
            drawn.ids, drawn.logprobs, "stop" if drawn.ids[-1] in stops else "length"
        )


@pytest.fixture
def vllm(model):
    vllm = Vllm(model)
    with answering(vllm) as vllm.url:
        yield vllm


def config(model, address, folder, **others):
    values = SHORT | {"model": model, "iterations": 3, "dialogues": 4, "lora_rank": 4}
    values |= {"dtype": "float32", "vllm": address, "vllm_folder": folder}
    return TrainConfig.model_validate({**values, "vllm_seeds": bool(address), **others})


def test_the_server_samples_with_the_weights_of_every_iteration(model, vllm, tmp_path, monkeypatch):
    monkeypatch.setenv("VLLM_API_KEY", "k-123")
    through = list(train(make_learner(config(model, vllm.url, tmp_path))))
    alone = list(train(make_learner(config(model, None, None))))
    for one, other in zip(through, alone, strict=True):
        assert one.metrics["sampler_kl"] < 1e-6, "the server's weights are the learner's"
        assert [played.lines for played in one.trajectories] == [
            played.lines for played in other.trajectories
        ]
        assert one.metrics["return"] == other.metrics["return"]
    names = [name for what, name in vllm.told if what == "load"]
    assert len(set(names)) == 3
    assert vllm.told == [
        ("load", names[0]),
        ("load", names[1]),
        ("unload", names[0]),
        ("load", names[2]),
        ("unload", names[1]),
    ]
    assert [path.name for path in tmp_path.iterdir()] == [names[2]], (
        "earlier adapters are cleared away"
    )
    assert vllm.keys == {"Bearer k-123"}


@pytest.mark.slow
def test_two_processes_sample_with_the_weights_of_every_iteration(model, vllm, tmp_path):
    out, folder = tmp_path / "run", tmp_path / "adapters"
    ended = run_processes(
        2,
        f"train --model {model} --iterations 3 --dialogues 4 --max-reply-tokens 8 --lr 1e-2"
        " --lora-rank 4 --dtype float32 --vllm-seeds true --eval-every 2 --eval-dialogues 2"
        f" --vllm {vllm.url} --vllm-folder {folder} --out {out}",
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["iteration"] for line in lines] == [0, 1, 2, 3]
    assert all(line["sampler_kl"] < 1e-6 for line in lines[1:])
    assert len({name for what, name in vllm.told if what == "load"}) == 4, (
        "before three rounds, and for the last evaluation"
    )
    assert not vllm.adapters
    assert not list(folder.iterdir())


def test_a_server_that_lost_them_is_given_equal_weights_again(model, vllm, tmp_path):
    learner = make_learner(config(model, vllm.url, tmp_path))
    learner.sampler.refresh()
    (name,) = vllm.adapters
    learner.sampler.refresh()
    assert list(vllm.adapters) == [name], "it has them already, and says so"
    vllm.adapters.clear()
    learner.sampler.refresh()
    assert list(vllm.adapters) == [name]
    next(train(learner))


@pytest.mark.slow
def test_equal_runs_share_a_server_and_leave_nothing_behind(model, vllm, tmp_path):
    one, other = (make_learner(config(model, vllm.url, tmp_path)) for _ in range(2))
    one.sampler.refresh()
    other.sampler.refresh()
    assert len(vllm.adapters) == len(list(tmp_path.iterdir())) == 2
    list(train(one))
    one.close()
    next(train(other))
    other.close()
    assert not vllm.adapters
    assert not list(tmp_path.iterdir())


def test_a_server_that_does_not_see_the_folder_is_told_of(model, vllm, tmp_path):
    learner = make_learner(config(model, vllm.url, tmp_path))
    vllm.answer = lambda path, asked: (404, {"error": {"message": "no such folder"}})
    with pytest.raises(
        TrainingError, match=r"did not load lora adapter .*no such folder.*does it see"
    ):
        next(train(learner))


def test_a_folder_that_cannot_be_written_is_named(model, vllm, tmp_path):
    (tmp_path / "file").write_text("")
    learner = make_learner(config(model, vllm.url, tmp_path / "file"))
    with pytest.raises(TrainingError, match=r"cannot be written .* --vllm-folder"):
        next(train(learner))


@pytest.mark.parametrize(
    "missing",
    [{"vllm": None}, {"vllm_folder": None}, {"lora_rank": 0}],
    ids=["address", "folder", "adapters"],
)
def test_the_three_options_go_together(model, missing, tmp_path):
    whole = {"vllm": "http://127.0.0.1:9/v1", "vllm_folder": tmp_path, "lora_rank": 4}
    make_config({"model": model, **whole}, "the options")
    with pytest.raises(TrainingError, match="go together"):
        make_config({"model": model, **whole, **missing}, "the options")
