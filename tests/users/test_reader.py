"""The reader: a small encoder made here, trained on rated replies, saved, mixed with the embedded
user, recorded and verified.
"""

import json
from pathlib import Path

import pytest
import torch
from paths import ROOT
from safetensors import safe_open
from safetensors.torch import save_file
from train_reader import train_reader
from transformers import BertConfig, BertModel, BertTokenizerFast

from rlver_gym.bench.folder import EPISODES
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run
from rlver_gym.bench.verdict import summarize_verification
from rlver_gym.bench.verify import verify
from rlver_gym.core.cards import env_card
from rlver_gym.core.dialogue import Dialogue
from rlver_gym.core.user import Scene
from rlver_gym.core.words import words
from rlver_gym.corpora.corpus import Corpus, RatedReply
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser, is_shipped_user, make_user
from rlver_gym.users.reader import SHIPPED, ReaderUser, Reading
from rlver_gym.users.reader_network import OUTPUTS, ReaderNetwork
from rlver_gym.util.errors import UnknownName, UserFailed

CORPUS = ROOT / "recordings" / "en" / "train"
CARD = env_card("RLVER-Empathy-v0")


def make_base(folder: Path, replies: list[RatedReply], seed: int = 0) -> Path:
    """A BERT of three narrow layers with random weights, that knows the words of some replies."""
    folder.mkdir()
    known = sorted({word for one in replies for word in words(one.text)})
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *known]
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=64,
    )
    BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def replies() -> list[RatedReply]:
    rated = Corpus(CORPUS).rated_replies()
    extreme = [one for one in rated if abs(one.mean("change")) >= 6]
    return extreme[:24] + extreme[-24:]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, replies: list[RatedReply]) -> Path:
    return make_base(tmp_path_factory.mktemp("reader") / "base", replies)


@pytest.fixture(scope="module")
def weights(
    tmp_path_factory: pytest.TempPathFactory, base: Path, replies: list[RatedReply]
) -> Path:
    path = tmp_path_factory.mktemp("weights") / "reader.safetensors"
    network, losses = ReaderNetwork(str(base), rank=4), []
    train_reader(
        network, replies, epochs=15, batch=16, rate=1e-2, head_rate=2e-2, on_progress=losses.append
    )
    assert sum(losses[-9:]) < 0.8 * sum(losses[:9])
    network.save(path, {"rated replies": len(replies)})
    return path


@pytest.fixture
def user(weights: Path, base: Path) -> ReaderUser:
    return ReaderUser(weights, base=str(base), device="cpu")


def utterances_of(replies: list[RatedReply]) -> list:
    return [(library().get(one.persona), one.dialogue) for one in replies]


def test_it_reads_the_same_alone_and_in_a_batch(
    user: ReaderUser, replies: list[RatedReply]
) -> None:
    some = utterances_of(replies[::2])
    together = user.read(some)
    for one, reading in zip(some, together, strict=True):
        (alone,) = user.read([one])
        assert alone.change == pytest.approx(reading.change, abs=0.02)
        assert alone.ratings == pytest.approx(reading.ratings, abs=0.02)
    assert len({reading.change for reading in together}) > 10


def test_only_adapters_and_head_are_saved(weights: Path, base: Path) -> None:
    network = ReaderNetwork.load(weights, str(base))
    assert weights.stat().st_size < 100_000
    assert {name.rpartition(".")[2] for name in network.learned_weights()} == {
        "down",
        "up",
        "weight",
        "bias",
        "mean",
        "scale",
    }
    assert network.head.out_features == len(OUTPUTS)


def test_another_base_is_refused(tmp_path: Path, weights: Path, replies: list[RatedReply]) -> None:
    other = make_base(tmp_path / "other", replies, seed=1)
    with pytest.raises(UserFailed, match="another base model"):
        ReaderNetwork.load(weights, str(other))
    with pytest.raises(UserFailed, match="no weights of a reader"):
        ReaderNetwork.load(other / "config.json", str(other))


def test_half_of_the_change_is_the_embedded_users(
    user: ReaderUser, replies: list[RatedReply]
) -> None:
    embedded = EmbeddedUser()
    for one in replies[:12]:
        scene = Scene(library().get(one.persona), CARD, 0)
        mixed, felt = (
            user.appraise(scene, 40, one.dialogue),
            embedded.appraise(scene, 40, one.dialogue),
        )
        (read,) = [reason for reason in mixed.reasons if reason.code == "reader"]
        assert sum(reason.points for reason in mixed.reasons) == mixed.change
        assert mixed.change == pytest.approx(
            felt.change / 2 + Reading.parse(read.note).change / 2, abs=2
        )


def test_silence_is_not_read(user: ReaderUser) -> None:
    persona = library().get(library().ids("demo")[0])
    scene = Scene(persona, CARD, 0)
    silent = Dialogue(user.open(scene, 40)).with_utterance("")
    assert (
        user.appraise(scene, 40, silent).change == EmbeddedUser().appraise(scene, 40, silent).change
    )


def test_a_run_is_verified_without_the_network(
    tmp_path: Path, weights: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlver_gym.users.reader.SHIPPED", weights)
    options = {"base": str(base), "device": "cpu"}
    plan = BenchPlan(
        agents=("listener",),
        persona_ids=tuple(library().ids("demo")[:2]),
        seeds=1,
        user="reader",
        user_options=options,
    )
    folder = tmp_path / "run"
    list(run(plan, folder))
    assert all(result is None for result in verify(folder, rerun=True))
    monkeypatch.setattr(ReaderUser, "_load", lambda self: pytest.fail("the network was asked"))
    assert all(result is None for result in verify(folder))
    told = summarize_verification(folder, verify(folder)).describe("run")
    assert any("network read stands as it is recorded" in text for text, _ in told)
    path = folder / EPISODES
    record = json.loads(path.read_text(encoding="utf-8").split("\n")[0])
    (note,) = [note for code, _, note in record["turns"][0]["reasons"] if code == "reader"]
    reading = Reading.parse(note)
    changed = reading._replace(change=round(reading.change - 6, 2)).note()
    path.write_text(path.read_text(encoding="utf-8").replace(note, changed, 1), encoding="utf-8")
    assert [result for result in verify(folder) if result]


@pytest.mark.parametrize(
    "harm", ["rank", "huge rank", "shape", "missing", "foreign", "nan", "truncated"]
)
def test_harmed_weights_are_refused(weights: Path, base: Path, tmp_path: Path, harm: str) -> None:
    with safe_open(weights, framework="pt") as file:
        about, values = dict(file.metadata()), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no dict)
    if harm == "rank":
        about["rank"] = "many"
    elif harm == "huge rank":
        about["rank"] = "100000000"
    elif harm == "shape":
        values["head.weight"] = values["head.weight"][:, :3].contiguous()
    elif harm == "missing":
        del values["head.bias"]
    elif harm == "foreign":
        values["encoder.extra"] = torch.ones(3)
    elif harm == "nan":
        values["mean"] = values["mean"] * float("nan")
    path = tmp_path / "reader.safetensors"
    save_file(values, path, metadata=about)
    if harm == "truncated":
        path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UserFailed, match=r"holds (no )?weights"):
        ReaderNetwork.load(path, str(base))


def test_notes_are_read_back_exactly() -> None:
    reading = Reading(-3.25, (1.0, 2.5, 0.0, 3.99, 0.1, 0.05))
    assert Reading.parse(reading.note()) == reading
    for bad in (
        "read as +1.0 (understood 1.00)",
        "",
        "read as x",
        reading.note().replace("-3.25", "-3.250"),
        reading._replace(change=10.25).note(),
        reading._replace(change=float("nan")).note(),
        reading._replace(ratings=(4.5, *reading.ratings[1:])).note(),
        reading._replace(ratings=(*reading.ratings[:-1], 1.05)).note(),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 (whatever is wrong with it)
            Reading.parse(bad)


def test_it_is_made_by_name(weights: Path, base: Path) -> None:
    made = make_user(f"reader:{weights}", base=str(base))
    assert made.kind == "reader"
    assert made.version.startswith(EmbeddedUser().version)
    assert is_shipped_user("reader")
    assert not is_shipped_user(f"reader:{weights}")
    with pytest.raises(UnknownName, match="temperature"):
        make_user(f"reader:{weights}", temperature=1)
    with pytest.raises(UserFailed, match="cannot be read"):
        make_user("reader:nothing.safetensors")


def test_the_shipped_weights_name_their_base() -> None:
    with safe_open(SHIPPED, framework="pt") as file:
        about = file.metadata()
    assert len(about["base"]) == 16
    assert json.loads(about["provenance"])["rated replies"] > 6000
