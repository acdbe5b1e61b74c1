"""The five sets by lm-evaluation-harness (EleutherAI), on a local model or a server."""

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rlver_gym.bench.general_checks import is_answer_correct
from rlver_gym.util.errors import RunError, needs_extra
from rlver_gym.util.json_text import parse_json
from rlver_gym.util.yaml_file import load_yaml

_MAX_TOKENS = 64


@lru_cache(maxsize=1)
def load_sets() -> Mapping[str, list[dict[str, Any]]]:
    return load_yaml("rlver_gym.bench", "general.yaml")


def run_general_benchmarks(
    model: str, base_url: str | None = None, sets: tuple[str, ...] = (), device: str = "cpu"
) -> dict[str, Any]:
    """The share of right answers by set, in percent with its standard error, and every answer.
    `model`: openai:MODEL with `base_url`, or the folder of a model that transformers reads, on
    `device`.
    """
    with needs_extra("general"):
        from lm_eval import (  # noqa: PLC0415 (takes seconds)  # pyright: ignore[reportMissingImports]
            simple_evaluate,
        )
    os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
    chosen = {name: load_sets()[name] for name in sets or load_sets()}
    name, _, rest = model.partition(":")
    if name == "openai":
        kind, arguments = (
            "local-chat-completions",
            f"model={rest},base_url={_find_chat_url(base_url)}",
        )
    else:
        kind, arguments = "hf", f"pretrained={model},dtype=float32,device={device}"
        if not Path(model).is_dir():
            raise RunError(f"{model}: is no folder of a model. Give one, or openai:MODEL.")
    with TemporaryDirectory() as folder:
        tasks = [_define_harness_task(set_, items, Path(folder)) for set_, items in chosen.items()]
        found = simple_evaluate(
            model=kind, model_args=arguments, tasks=tasks, apply_chat_template=True,
            log_samples=True, bootstrap_iters=0, batch_size=1 if kind != "hf" else 8,
        )  # fmt: skip
    if found is None:
        raise RunError("the harness gave no result.")
    return {
        "model": model,
        "sets": {set_: _summarise_samples(found["samples"][set_]) for set_ in chosen},
        "harness": found.get("lm_eval_version"),
    }


def _find_chat_url(base_url: str | None) -> str:
    url = base_url or os.environ.get("OPENAI_BASE_URL")
    if not url:
        raise RunError("where the server is must be said: --base-url http://HOST:PORT/v1")
    return f"{url.rstrip('/')}/chat/completions"


def _define_harness_task(name: str, items: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    path = folder / f"{name}.jsonl"
    rows = [{"ask": item["ask"], "item": json.dumps(item)} for item in items]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(path)}, "cache_dir": str(folder / "cache")},
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{ask}}",
        "doc_to_target": "{{item}}",
        "process_results": _score_answer,
        "generation_kwargs": {"until": ["\n\n\n"], "max_gen_toks": _MAX_TOKENS, "do_sample": False},
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }


def _score_answer(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    return {"acc": float(is_answer_correct(results[0], parse_json(doc["item"])))}


def _summarise_samples(samples: list[dict[str, Any]]) -> dict[str, Any]:
    ordered = sorted(samples, key=lambda one: one["doc_id"])
    right = [bool(one["acc"]) for one in ordered]
    share = sum(right) / len(right)
    return {
        "right": 100 * share,
        "error": 100 * sqrt(share * (1 - share) / len(right)),
        "answers": [one["filtered_resps"][0] for one in ordered],
        "is_right": right,
    }
