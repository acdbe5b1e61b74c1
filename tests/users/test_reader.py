"""The reader: states of a small causal model made here, a head solved on rated replies, the mix
with the embedded user, records and what is refused.
"""

import json
import re
import runpy
import shutil
import sys
from contextlib import nullcontext

import choose_best
import extract_states
import fit_reader
import gymnasium as gym
import numpy as np
import pytest
import torch
from extract_states import StatesFile, extract, list_units
from paths import ROOT
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2Model, PreTrainedTokenizerFast, Qwen2Config, Qwen2Model

from rlver_gym import Dialogue, Scene, env_card, make_user
from rlver_gym.bench.folder import EPISODES
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run
from rlver_gym.bench.verdict import verify_and_summarize
from rlver_gym.bench.verify import verify
from rlver_gym.core.user import Moment
from rlver_gym.environment.rescore import reappraise
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser, is_shipped_user
from rlver_gym.users.reader import SHIPPED, Head, ReaderUser, Reading, doubt
from rlver_gym.users.reader_states import FrozenStates
from rlver_gym.util.errors import UnknownName, UserFailed

CARD = env_card("RLVER-Empathy-v0")
LAYERS, WIDTH = 3, 16


def make_base(folder, seed=0):
    """A causal model of three narrow layers with random weights, that spells every word."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    marks = ["<|endoftext|>", "<|im_end|>"]
    spelling = Tokenizer(models.BPE())
    spelling.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    spelling.train_from_iterator(
        [],
        trainers.BpeTrainer(
            vocab_size=300, special_tokens=marks, initial_alphabet=alphabet, show_progress=False
        ),
    )
    PreTrainedTokenizerFast(
        tokenizer_object=spelling, bos_token=marks[0], additional_special_tokens=marks[1:]
    ).save_pretrained(folder)
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=spelling.get_vocab_size(),
        hidden_size=WIDTH,
        intermediate_size=32,
        num_hidden_layers=LAYERS,
        num_attention_heads=2,
        num_key_value_heads=1,
        initializer_range=0.3,
    )
    Qwen2Model(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_base(tmp_path_factory.mktemp("reader") / "base")


@pytest.fixture(scope="module")
def units():
    """Some whole dialogues of train and validation people, some moments and own places."""
    shelf, every = library(), list_units()
    validation = set(shelf.ids("validation"))
    some = []
    for part in fit_reader.FITTED:
        for who in (False, True):
            fits = [
                u for u in every if u.part == part and (u.replies[0].persona in validation) == who
            ]
            some += fits[:2]
    return some


@pytest.fixture(scope="module")
def states(base):
    return FrozenStates.load(str(base), (1, LAYERS), "cpu", "float32")


@pytest.fixture(scope="module")
def extracted(tmp_path_factory, base, units):
    """A folder with the states of these units."""
    folder = tmp_path_factory.mktemp("states")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extract_states, "list_units", lambda: units)
        list(extract(str(base), StatesFile(folder), "cpu"))
        yield folder


@pytest.fixture(scope="module")
def head(tmp_path_factory, extracted):
    path = tmp_path_factory.mktemp("head") / "head.npz"
    with pytest.MonkeyPatch.context() as patch:  # the embedded score isn't fitted anew here
        patch.setattr(fit_reader, "leave_out_embedded", lambda folder: {})
        header, rows = fit_reader.lay_out_rows(extracted)
    fit_reader.fit(extracted, header, rows, path)
    return path


@pytest.fixture
def user(head, base):
    return ReaderUser(head, base=str(base), device="cpu", dtype="float32")


def lay_out(states, replies):
    return [states.lay_out(library().get(one.persona), one.dialogue) for one in replies]


@pytest.fixture(scope="module")
def replies(units):
    """Of a whole dialogue, and of a moment."""
    moment = next(unit for unit in units if unit.part == "samples/own")
    return [*units[0].replies, *moment.replies]


def test_states_are_those_of_one_pass_over_everything(states, replies):
    for place in lay_out(states, [replies[2], replies[-1]]):
        (read,) = states.read([place])
        with torch.inference_mode():
            whole = states.model(torch.tensor([place.tokens]), output_hidden_states=True)
        hidden = whole.hidden_states[1][0]
        start, end = place.cuts[-2], len(place.tokens) - place.mark
        parts = [hidden[start:end].mean(0), hidden[end - 1], hidden[-1]]
        assert read[: 3 * WIDTH] == pytest.approx(torch.cat(parts).numpy(), abs=1e-5)


def test_a_reply_is_read_the_same_alone_beside_others_and_turn_by_turn(base, replies):
    def fresh():
        return FrozenStates.load(str(base), (1, LAYERS), "cpu", "float32")

    together, step_by_step = fresh(), fresh()
    places = lay_out(together, replies)
    read = together.read(places)
    assert together.read(places[::-1])[::-1] == pytest.approx(read, abs=1e-5)
    for place, expected in zip(places, read, strict=True):
        assert step_by_step.read([place])[0] == pytest.approx(expected, abs=1e-4)
    assert fresh().read(places[5:6])[0] == pytest.approx(read[5], abs=1e-4)
    assert np.ptp(read, axis=0).min() > 0


def test_a_turn_costs_the_tokens_that_are_new(base, replies, monkeypatch):
    states, run = FrozenStates.load(str(base), (1,), "cpu", "float32"), []
    forward = states.model.forward
    monkeypatch.setattr(
        states.model, "forward", lambda **k: (run.append(k["input_ids"].numel()), forward(**k))[1]
    )
    first, second = lay_out(states, replies[:2])
    states.read([first])
    states.read([second])
    assert sum(run) == len(second.tokens)
    run.clear()
    states._kept.clear()
    siblings = lay_out(states, replies[-6:])
    states.read(siblings)
    shared = siblings[0].cuts[-2]
    *others, most = sorted(len(one.tokens) - shared for one in siblings)
    assert run == [shared + most, 5 * others[-1]], "what they share once, the others in one batch"


def test_what_somebody_says_is_no_mark_of_the_model(states):
    persona = library().get(library().ids("demo")[0])
    said = Dialogue("Hello.").with_utterance("Fine.<|im_end|><|endoftext|>")
    place = states.lay_out(persona, said)
    marks = states.tokenizer.all_special_ids
    assert [token for token in place.tokens if token in marks] == [states.tokenizer.bos_token_id]
    silent = states.lay_out(persona, Dialogue("Hello.").with_utterance(""))
    assert np.isfinite(states.read([silent])).all()


def test_extraction_goes_on_where_it_was_killed(tmp_path, base, units, extracted, monkeypatch):
    folder = tmp_path / "states"
    shutil.copytree(extracted, folder)
    file = StatesFile(folder)
    whole = (file.states.read_bytes(), file.index.read_bytes())
    lines = whole[1].splitlines(keepends=True)
    rows = sum(len(json.loads(line)["ids"]) for line in lines[1:4])
    width = json.loads(lines[0])["width"] * 2
    file.states.write_bytes(whole[0][: rows * width + 777])
    file.index.write_bytes(b"".join(lines[:4]) + lines[4][:20])
    monkeypatch.setattr(extract_states, "list_units", lambda: units)
    told = list(extract(str(base), file, "cpu"))
    assert told[-1].startswith("100.0%")
    assert file.index.read_bytes() == whole[1]
    assert len(file.states.read_bytes()) == len(whole[0])
    again = np.frombuffer(file.states.read_bytes(), "<f2").astype(float)
    assert again == pytest.approx(np.frombuffer(whole[0], "<f2").astype(float), rel=0.02, abs=0.1)
    with pytest.raises(ValueError, match="another base"):
        list(extract(str(make_base(tmp_path / "other", seed=1)), file, "cpu"))


def test_ridge_finds_what_decides_within_a_place():
    chance = np.random.default_rng(0)
    places, each, width = 60, 6, 12
    place = np.repeat(np.arange(places), each)
    states = chance.normal(size=(places * each, width)).astype(np.float32)
    states[:, 1] += 5 * chance.normal(size=places)[place]  # says which place it is
    level = 3 * states[:, 1]
    rated = (2 * states[:, 0] - level)[:, None].repeat(7, 1).astype(np.float32)
    names = place.astype(str)
    rows = fit_reader.Rows(
        np.arange(len(place)),
        states,
        rated,
        np.zeros(len(place)),
        np.ones(len(place)),
        names,
        names,
        names,
        np.array(["moment"] * len(place)),
        place < 20,
        np.ones(len(place), bool),
    )
    solved = fit_reader.solve(rows, [1e-4], level=0.0)[0]
    weight = solved.weight[:, 0] / solved.scale
    assert weight[0] == pytest.approx(2, abs=0.05)
    assert weight[1] == pytest.approx(-3, abs=0.05)
    assert np.abs(weight[2:]).max() < 0.05
    few = np.where(place < 30, 0, np.nan).astype(np.float32)[:, None]
    unrated = rows._replace(rated=np.column_stack([rated[:, :1], rated[:, 1:] + few]))
    whole = fit_reader.solve_all(unrated, 1e-4).predict(states)
    assert np.abs(whole - rated).max() < 1.5, "factors by the replies whose factors are known"
    predicted, distances = fit_reader.predict_left_out(rows, 1e-4, by_supporter=True)
    assert np.corrcoef(predicted, rated[:, 0])[0, 1] > 0.99
    mix = fit_reader.choose_mix(rows._replace(felt=states[:, 5].astype(float)), predicted)
    assert mix.embedded == pytest.approx(0, abs=0.1)
    assert mix.read * mix.scale == pytest.approx(1, abs=0.1)
    far = states[:1] + 30
    near = fit_reader.measure_distance(solved, states)
    assert fit_reader.measure_distance(solved, far)[0] > near.max()
    assert distances.shape == place.shape


def test_a_choice_gains_what_raters_give_above_the_mean():
    rated = np.array([-1.0, 2.0, 5.0])
    assert choose_best.measure_gain(np.array([9, 3, 3]), rated) == -3
    assert choose_best.measure_gain(np.array([0, 3, 3]), rated) == 1.5, "of several their mean"
    choices = choose_best.list_choices("test", is_read=False)
    assert {len({x.supporter for x in choice.replies}) for choice in choices} == {1}
    _, own = choose_best.describe(choices, {"own best": [choice.rated for choice in choices]})
    assert "r 1.00, 21 people" in own


def test_the_head_is_small_and_says_what_it_was_made_for(head, states):
    made = Head.load(head)
    assert head.stat().st_size < 1 << 20
    assert made.about["fingerprint"] == states.fingerprints()[max(made.about["depths"]) - 1]
    assert made.about["embedded"] + made.about["read"] > 0


def test_a_change_is_both_opinions_and_the_worse_one_where_it_is_far(user, replies):
    embedded, about = EmbeddedUser(), user.head.about
    about |= {"embedded": 0.6, "read": 0.5, "constant": -1.0}
    for near in (float(user.head.near), 1e-3):
        user.head = user.head._replace(near=np.float32(near))
        user._readings.clear()
        for one in replies:
            scene = Scene(library().get(one.persona), CARD, 0)
            appraisal = user.appraise(scene, 40, one.dialogue)
            felt = sum(
                reason.points
                for reason in embedded.appraise(scene, 40, one.dialogue).reasons
                if reason.code not in ("rounding", "limit", "scale_end")
            )
            (read,) = [reason for reason in appraisal.reasons if reason.code == "reader"]
            reading = Reading.parse(read.note)
            mixed = 0.6 * felt + 0.5 * reading.change - 1
            worse = min(mixed, felt, reading.change)
            expected = mixed + float(doubt(reading.distance)) * (worse - mixed)
            assert sum(reason.points for reason in appraisal.reasons) == appraisal.change
            assert appraisal.change == pytest.approx(np.clip(expected, -10, 10), abs=1.7)
            if near == 1e-3:
                assert reading.distance > 2


def test_many_are_appraised_in_one_batch_as_alone(user, base, head, replies, monkeypatch):
    moments = [Moment(Scene(library().get(r.persona), CARD, 0), 40, r.dialogue) for r in replies]
    asked = []
    read = Head.read
    monkeypatch.setattr(Head, "read", lambda self, x: (asked.append(len(x)), read(self, x))[1])
    together = user.appraise_many(moments)
    assert asked == [len({one.dialogue for one in replies})]
    other = ReaderUser(head, base=str(base), device="cpu", dtype="float32")
    assert [other.appraise(*moment) for moment in moments] == together


def test_a_recorded_dialogue_is_read_in_one_pass(base, head, units, monkeypatch):
    user = ReaderUser(head, base=str(base), device="cpu", dtype="float32")
    replies, asked = units[0].replies, []
    scene = Scene(library().get(replies[0].persona), CARD, 0)
    last = replies[-1].dialogue
    said = (*last.earlier_utterances, last.utterance or "")
    exchanges = zip(said, (*last.user_lines[1:], ""), strict=True)
    read = Head.read
    monkeypatch.setattr(Head, "read", lambda self, x: (asked.append(len(x)), read(self, x))[1])
    felt = list(reappraise(user, scene, Dialogue.of_words(last.opening, exchanges, CARD.start)))
    assert asked == [len(said)]
    assert [r.note for turn in felt for r in turn.appraisal.reasons if r.code == "reader"]


def test_bfloat16_reads_as_float32_within_the_tolerance(user, base, head, replies):
    half = ReaderUser(head, base=str(base), device="cpu", dtype="bfloat16")
    asked = [(library().get(one.persona), one.dialogue) for one in replies]
    for a, b in zip(user.read(asked), half.read(asked), strict=True):
        assert a.change == pytest.approx(b.change, abs=1.0)  # what `--rerun` allows
    assert half.version == user.version


def test_silence_is_not_read(user):
    scene = Scene(library().get(library().ids("demo")[0]), CARD, 0)
    silent = Dialogue(user.open(scene, 40)).with_utterance("")
    felt = EmbeddedUser().appraise(scene, 40, silent)
    assert user.appraise(scene, 40, silent) == felt


def test_a_run_is_verified_without_the_base(tmp_path, head, base, monkeypatch):
    monkeypatch.setattr("rlver_gym.users.reader.SHIPPED", head)
    plan = BenchPlan(
        agents=("listener",),
        persona_ids=tuple(library().ids("demo")[:2]),
        seeds=1,
        user="reader",
        user_options={"base": str(base), "device": "cpu", "dtype": "float32"},
    )
    folder = tmp_path / "run"
    list(run(plan, folder))
    assert all(result is None for result in verify(folder, rerun=True))
    monkeypatch.setattr(ReaderUser, "_load", lambda self: pytest.fail("the base was asked"))
    assert all(result is None for result in verify(folder))
    told = verify_and_summarize(folder).describe("run")
    assert any("stands as it is recorded" in text for text, _ in told)
    path = folder / EPISODES
    record = json.loads(path.read_text(encoding="utf-8").split("\n")[0])
    (note,) = [note for code, _, note in record["turns"][0]["reasons"] if code == "reader"]
    reading = Reading.parse(note)
    away = 4 if reading.change < 0 else -4
    changed = reading._replace(change=round(reading.change + away, 2)).note()
    path.write_text(path.read_text(encoding="utf-8").replace(note, changed, 1), encoding="utf-8")
    assert [result for result in verify(folder) if result]


def test_notes_are_read_back_exactly():
    reading = Reading(-3.25, (1.0, 2.5, 0.0, 3.99, 0.1, 0.05), 1.25)
    assert Reading.parse(reading.note()) == reading
    for bad in (
        "read as +1.0 (understood 1.00)",
        "",
        "read as x",
        reading.note().replace("-3.25", "-3.250"),
        reading.note().replace("-3.25", "-03.25"),
        reading._replace(change=10.25).note(),
        reading._replace(change=float("nan")).note(),
        reading._replace(ratings=(4.5, *reading.ratings[1:])).note(),
        reading._replace(ratings=(*reading.ratings[:-1], 1.05)).note(),
        reading._replace(distance=99.5).note(),
        reading._replace(distance=-1.0).note(),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 (whatever is wrong with it)
            Reading.parse(bad)


@pytest.mark.parametrize(
    "harm", ["weight", "nan", "near", "about", "missing", "pickled", "truncated", "absent"]
)
def test_a_harmed_head_is_refused(head, tmp_path, harm):
    with np.load(head) as file:
        values = dict(file)
    path = tmp_path / "head.npz"
    if harm == "weight":
        values["weight"] = values["weight"][:, :3]
    elif harm == "nan":
        values["mean"] = values["mean"] * np.nan
    elif harm == "near":
        values["near"] = np.array(0.0)
    elif harm == "about":
        values["about"] = np.array(json.dumps({"base": "x"}))
    elif harm == "missing":
        del values["basis"]
    elif harm == "pickled":
        values["mean"] = np.array([{}], dtype=object)
    if harm != "absent":
        np.savez(path, **values)
    if harm == "truncated":
        path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UserFailed, match=r"cannot be read as a reader's head.*fit_reader\.py"):
        make_user(f"reader:{path}")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--no-extract", r"--out HEAD\.npz says where"),
        ("--no-extract --out {out}", "holds no states yet"),
        ("--no-extract --test --states {extracted}", "made for .*, another base: --head"),
        ("--no-extract --test --states {extracted} --head {head}", None),
    ],
)
def test_a_head_is_fitted_where_it_is_told_and_measured_as_it_is(
    options, says, tmp_path, extracted, head, monkeypatch, capsys
):
    shipped, fitted = (path.read_bytes() for path in (SHIPPED, head))
    told = options.format(out=tmp_path / "head.npz", extracted=extracted, head=head)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["fit_reader.py", "BASE", *told.split()])
    with pytest.raises(SystemExit) if says else nullcontext() as ended:
        fit_reader.main()
    out, err = capsys.readouterr()
    assert re.search(says or "test: its states are not all there", f"{ended}{err}{out}")
    assert (SHIPPED.read_bytes(), head.read_bytes()) == (shipped, fitted)


def test_another_base_or_none_is_refused_with_what_to_do(
    tmp_path, head, base, replies, monkeypatch
):
    monkeypatch.setattr("rlver_gym.users.reader_states.SHARED", {})  # no learner of another test
    asked = [(library().get(replies[0].persona), replies[0].dialogue)]
    other = make_base(tmp_path / "other", seed=1)
    with pytest.raises(UnknownName, match=r"is another model.*fit_reader\.py"):
        ReaderUser(head, base=str(other), device="cpu").read(asked)
    with pytest.raises(UnknownName, match="cannot be loaded"):
        ReaderUser(head, base=str(tmp_path), device="cpu").read(asked)
    env = gym.make("RLVER-Empathy-v0", user=f"reader:{head}", base=str(other), device="cpu")
    with pytest.raises(UnknownName, match="is another model"):
        env.reset()
    torn = make_base(tmp_path / "torn")
    weights = torn / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    unlike = {"base": str(torn)}, {"dtype": "int3"}, {"device": "tpu:7"}
    for options in unlike:
        with pytest.raises(UnknownName, match="cannot be loaded"):
            ReaderUser(head, **{"base": str(base), "device": "cpu", **options}).read(asked)
    scene = Scene(asked[0][0], CARD, 0)
    with pytest.raises(UnknownName, match=r"a model that is not in the package.*base"):
        ReaderUser(head).open(scene, 40)


def test_no_dialogue_begins_without_its_packages(head, base, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "rlver_gym.users.reader_states")
    env = gym.make("RLVER-Empathy-v0", user=f"reader:{head}", base=str(base))
    with pytest.raises(UnknownName, match=r"needs the package torch: pip install '\.\[reader"):
        env.reset(seed=0)


def test_it_is_made_by_name(head, base):
    made = make_user(f"reader:{head}", base=str(base))
    assert made.kind == "reader"
    version, own, fingerprint = made.version.split("/")
    assert version == EmbeddedUser().version
    assert (own, fingerprint) == (Head.load(head).hash, Head.load(head).about["fingerprint"])
    assert is_shipped_user("reader")
    assert not is_shipped_user(f"reader:{head}")
    with pytest.raises(UnknownName, match="temperature"):
        make_user(f"reader:{head}", temperature=1)


def test_a_model_without_layers_by_that_name_is_refused():
    config = GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=9)
    with pytest.raises(UserFailed, match=r"cannot read GPT2Model.*Llama or Qwen"):
        FrozenStates(GPT2Model(config), None, (1,))


def test_the_benchmark_measures_one_dialogue_and_one_step(head, base, monkeypatch, capsys):
    path = ROOT / "benchmarks" / "reader.py"
    told = f"--user reader:{head} --envs 1 --steps 1 --dtype float32 --device cpu --threads 1"
    monkeypatch.syspath_prepend(path.parent)
    monkeypatch.setattr(sys, "argv", [str(path), str(base), *told.split()])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.count("1 dialogues, first replies") == 2
