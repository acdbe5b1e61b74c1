"""Models of other families, and folders of models that were damaged or made by somebody hostile: an
error in words, and never their code, a pipe waited for, or a silent agent.
"""

import json
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tiny_policy import SHORT, SIZES

from rlver_gym import Message
from rlver_gym.policy.config import TrainConfig
from rlver_gym.policy.iteration import train
from rlver_gym.policy.learner import make_learner
from rlver_gym.policy.models.agent import HFAgent, fingerprint_model
from rlver_gym.policy.models.model import load_model
from rlver_gym.policy.models.tiny_model import build_tokenizer
from rlver_gym.util.errors import AgentError, TrainingError

TOKENIZER = build_tokenizer(["hello there, how are you today"] * 5, 300)
WIDE = SIZES | {"vocab_size": len(TOKENIZER), "max_position_embeddings": 2048}
NARROW = {"vocab_size": len(TOKENIZER), "hidden_size": 32, "num_hidden_layers": 2}
GPT = {"vocab_size": len(TOKENIZER), "n_embd": 32, "n_layer": 2, "n_head": 4}
FAMILIES = {
    "GPT2LMHeadModel": GPT | {"n_positions": 2048},
    "LlamaForCausalLM": WIDE,
    "Qwen2ForCausalLM": WIDE,
    "MptForCausalLM": {"vocab_size": len(TOKENIZER), "d_model": 32, "n_layers": 2, "n_heads": 4},
    "OPTForCausalLM": NARROW | {"ffn_dim": 48, "num_attention_heads": 4, "word_embed_proj_dim": 32},
}
"""Families that learn and speak here, with what makes them tiny."""
REFUSED = {
    "BloomForCausalLM": (NARROW | {"n_head": 4}, "BloomForCausalLM takes no cache of keys"),
    "MambaForCausalLM": (NARROW | {"state_size": 8}, "has layers of linear_attention"),
    "RwkvForCausalLM": (NARROW | {"attention_hidden_size": 32}, "reads a text otherwise"),
    "BartForCausalLM": (
        {"vocab_size": len(TOKENIZER), "d_model": 32, "decoder_layers": 2}
        | {"decoder_attention_heads": 4, "decoder_ffn_dim": 48, "max_position_embeddings": 2048},
        "reads a text otherwise when it comes in parts",
    ),
    "T5ForConditionalGeneration": (
        {"vocab_size": len(TOKENIZER), "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2},
        "Is it a causal language model",
    ),
}


def write_model(name, sizes, folder):
    """A model of that class with random weights."""
    family = getattr(transformers, name)
    torch.manual_seed(0)
    family(family.config_class(**sizes)).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return folder


def make_config(folder):
    return TrainConfig(**SHORT | {"model": str(folder), "max_reply_tokens": 4, "lr": 1e-3})


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_learns_and_speaks(name, one_thread, tmp_path):
    folder = write_model(name, FAMILIES[name], tmp_path)
    (iteration,) = train(make_learner(make_config(folder)))
    assert len(iteration.trajectories) == 2
    assert iteration.metrics["sampler_kl"] < 0.01
    assert isinstance(HFAgent(str(folder)).reply([Message("user", "Hi.")]), str)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of Bart's own decoder
@pytest.mark.parametrize("name", REFUSED)
def test_a_family_that_cannot_be_sampled_from_is_refused_in_words(name, one_thread, tmp_path):
    sizes, says = REFUSED[name]
    folder = write_model(name, sizes, tmp_path)
    with pytest.raises(TrainingError, match=says):
        make_learner(make_config(folder))
    with pytest.raises(AgentError, match=says):
        HFAgent(str(folder))


class _Code:
    def __reduce__(self):
        return os.mkdir, ("ran",)


def edit_json(name, **values):
    def edit(folder):
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values))

    return edit


def remove(name):
    return lambda folder: (folder / name).unlink()


def write(name, data):
    return lambda folder: (folder / name).write_bytes(data)


def put_pipe(name):
    def put(folder):
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return put


def bring_code(folder):
    own = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
    edit_json("config.json", auto_map=own, model_type="own")(folder)
    (folder / "own.py").write_text("import os\nos.mkdir('ran')\n", encoding="utf-8")


def pickle_code(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(_Code(), protocol=2))


def drop_tensor(folder):
    path = folder / "model.safetensors"
    weights = {name: one for name, one in load_file(path).items() if "q_proj.weight" not in name}
    save_file(weights, path, {"format": "pt"})


def quantize(method, **options):
    return edit_json("config.json", quantization_config={"quant_method": method, **options})


DAMAGES = {
    "code of its own": (bring_code, "contains custom code"),
    "weights that are code": (pickle_code, "pickled, which can hold code"),
    "weights that are none": (write("model.safetensors", b"\xff" * 99), "header too large"),
    "a tensor missing": (drop_tensor, "lacks weights: model.layers.0.self_attn.q_proj.weight"),
    "no weights": (remove("model.safetensors"), "no file named model.safetensors"),
    "no tokenizer.json": (remove("tokenizer.json"), "knows no words.*tokenizer.json"),
    "a tokenizer that is a list": (write("tokenizer.json", b"[1]"), "cannot be loaded from"),
    "an attention kernel": (
        edit_json("config.json", attn_implementation="flash_attention_2"),
        "FlashAttention2 .*are the packages here that it needs",
    ),
    "gptq": (quantize("gptq", bits=4), "pip install optimum"),
    "a text for a size": (edit_json("config.json", hidden_size="x"), "expected int"),
    "a pipe for weights": (put_pipe("model.safetensors"), "is a pipe or a device"),
    "a pipe for a tokenizer": (put_pipe("tokenizer.json"), "is a pipe or a device"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_or_hostile_model_is_an_error_in_words(name, model, tmp_path, monkeypatch):
    damage, says = DAMAGES[name]
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    damage(folder)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AgentError, match=says) as error:
        HFAgent(str(folder))
    assert len(str(error.value)) < 800
    assert not (tmp_path / "ran").exists()


def test_pickled_weights_that_are_tensors_are_read(model, tmp_path):
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert load_model(str(folder)).num_parameters() == load_model(model).num_parameters()


@pytest.mark.timeout(60)
def test_a_pipe_is_not_waited_for_when_a_model_is_pinned(model, tmp_path):
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    put_pipe("extra.safetensors")(folder)
    with pytest.raises(AgentError, match="it is a pipe"):
        fingerprint_model(str(folder))
