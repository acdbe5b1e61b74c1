"""What is exported, read by those it is for: `datasets` and TRL."""

import pytest

from rlver_gym.bench.export.export import export
from rlver_gym.bench.folder import read_episodes

datasets = pytest.importorskip("datasets", reason="reads what is exported: pip install datasets")


@pytest.fixture
def folder(finished, tmp_path):
    return str(export([finished], "hf", tmp_path / "data").path)


@pytest.fixture
def load(folder, tmp_path):
    def loaded(*view):
        return datasets.load_dataset(folder, *view, cache_dir=str(tmp_path / "cache"))

    return loaded


def test_load_dataset_reads_the_folder(finished, load):
    episodes = read_episodes(finished)
    dialogues = load()["demo"]
    assert [row["metadata"]["persona"] for row in dialogues] == [one.persona for one in episodes]
    assert [row["messages"][1]["content"] for row in dialogues] == [
        one.turns[0].utterance for one in episodes
    ]
    felt = dialogues[0]["metadata"]["turns"]
    assert [one["reward"] for one in felt] == [turn.reward for turn in episodes[0].turns]
    assert [why["points"] for why in felt[0]["reasons"]] == [
        why.points for why in episodes[0].turns[0].appraisal.reasons
    ]
    assert load("replies")["demo"].num_rows == sum(len(one.turns) for one in episodes)
    assert load("pairs")["demo"].num_rows > 30


def test_people_of_two_splits_are_two_splits(tmp_path, copy):
    episodes = read_episodes(copy)
    moved = [one._replace(persona="theo-the-burst-pipe") for one in episodes[:3]]
    lines = [f"{one.to_json()}\n" for one in (*moved, *episodes[3:])]
    (copy / "manifest.json").unlink()
    (copy / "episodes.jsonl").write_text("".join(lines), encoding="utf-8")
    export([copy], "hf", tmp_path / "data")
    read = datasets.load_dataset(str(tmp_path / "data"), cache_dir=str(tmp_path / "cache"))
    sizes = {name: part.num_rows for name, part in read.items()}
    assert sizes == {"test": 3, "demo": len(lines) - 3}


def test_trl_sees_conversations_and_renders_what_was_said(load, tiny_folder):
    data_utils = pytest.importorskip("trl.data_utils", reason="reads what is exported")
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    for view in ("dialogues", "replies", "pairs"):
        row = load(view)["demo"][0]
        assert data_utils.is_conversational(row)
        parts = {name: row[name] for name in row if name != "metadata"}
        for name, text in data_utils.apply_chat_template(parts, tokenizer).items():
            said = row["messages"] if name == "text" else row[name][-1:]
            assert all(one["content"] in text for one in said)
    pair = load("pairs")["demo"][0]
    assert data_utils.maybe_extract_prompt(pair)["prompt"] == pair["prompt"]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("view", "trainer"), [("dialogues", "SFT"), ("replies", "SFT"), ("pairs", "DPO")]
)
def test_trl_trains_on_it_as_it_is(view, trainer, load, tiny_folder, tmp_path):
    trl = pytest.importorskip("trl", reason="reads what is exported: pip install trl")
    settings = getattr(trl, f"{trainer}Config")(
        output_dir=str(tmp_path / "out"),
        max_steps=2,
        per_device_train_batch_size=2,
        use_cpu=True,
        report_to=[],
        logging_steps=1,
    )
    rows = load(view)["demo"].select(range(4))
    training = getattr(trl, f"{trainer}Trainer")(
        str(tiny_folder), args=settings, train_dataset=rows
    )
    training.train()
    losses = [line["loss"] for line in training.state.log_history if "loss" in line]
    assert len(losses) == 2
    assert all(loss > 0 for loss in losses)
