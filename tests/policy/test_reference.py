"""The reference beside the reward: measured, drawn, and a reason to stop."""

import json
import math
import random
from types import SimpleNamespace

import numpy as np
import pytest
from paths import ROOT
from tiny_policy import SHORT

from rlver_gym import Appraisal, EmpathySession, Scene, env_card, make_user
from rlver_gym.bench.export.demonstrations import generate_demonstrations
from rlver_gym.corpora.corpus import Corpus
from rlver_gym.environment.make import make_for_loop
from rlver_gym.environment.rescore import reappraise_texts
from rlver_gym.library.personas import library
from rlver_gym.policy import run_training as folders
from rlver_gym.policy.config import make_config
from rlver_gym.policy.learner import ReferenceStart, make_learner
from rlver_gym.policy.learning.metrics import read_metrics
from rlver_gym.policy.models.trajectory import Trajectory, TranscriptLine
from rlver_gym.policy.reference import (
    Reading,
    RewardOveroptimisationCheck,
    compute_gap,
    describe_agreement,
    exceeds_gap,
    measure_agreement,
    measure_apart,
    sample_dialogues,
)
from rlver_gym.policy.run_sft import teach
from rlver_gym.policy.run_training import run_training
from rlver_gym.policy.sft_config import SftConfig
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import TrainingError, UserFailed

SMALL = SHORT | {"iterations": 4, "dialogues": 4, "save_every": 1}
SMALL |= {"reference": "test_reference:Whimsical", "reference_every": 2}


class Whimsical(EmbeddedUser):
    """Feels by the length of what is said."""

    def appraise(self, scene, emotion, dialogue):
        return Appraisal(len(dialogue.utterance) % 7 - 3, "", ())


class Unmoved(EmbeddedUser):
    def appraise(self, scene, emotion, dialogue):
        return Appraisal(0, "", ())


class Absent(EmbeddedUser):
    def appraise(self, scene, emotion, dialogue):
        raise UserFailed("gone")


class Bribed(EmbeddedUser):
    """The embedded user, but for what it gives for one piece of advice."""

    more = 7

    def appraise(self, scene, emotion, dialogue):
        plain = super().appraise(scene, emotion, dialogue)
        more = self.more if BRIBE in dialogue.utterance else 0
        return Appraisal(min(10, plain.change + more), plain.thought, plain.reasons)


class Corrupt(Bribed):
    more = 12


class Generous(EmbeddedUser):
    """The embedded user, but for a point more for everything."""

    def appraise(self, scene, emotion, dialogue):
        plain = super().appraise(scene, emotion, dialogue)
        return Appraisal(min(10, plain.change + 1), plain.thought, plain.reasons)


BRIBE = "Get more sleep."
SAYINGS = (
    "How do you feel about it?",
    "That sounds hard. I am sorry.",
    "Who knows about it?",
    "Cheer up.",
    "Move on with life.",
    "What would help you most?",
    BRIBE,
)


def hold_dialogues(user, share):
    """Sixteen dialogues of a policy that says the piece of advice in such a share of its turns."""
    rng, card, people = np.random.default_rng(0), env_card("RLVER-Empathy-v0"), library()
    played = []
    for number, who in enumerate(people.ids("train")[:16]):
        session = EmpathySession(user, people.get(who), card, seed=number)
        session.start()
        while session.outcome is None:
            others = SAYINGS[:-1][rng.integers(len(SAYINGS) - 1)]
            session.reply(BRIBE if rng.random() < share else others)
        reward_N = np.array([turn.reward for turn in session.dialogue.turns], np.float32)
        lines = tuple(TranscriptLine("user", one.text) for one in session.dialogue.messages())
        info = {"persona": who, "emotion": session.emotion}
        well_formed_N = np.zeros_like(reward_N, np.bool_)
        played.append(Trajectory(number, number, reward_N, well_formed_N, (), lines, info))
    return played


SHARES = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)


@pytest.mark.parametrize(
    ("payer", "warns", "ends"),
    [
        # All replies the same again agree with anybody: by then the gap says it.
        ("test_reference:Bribed", [0.4, 0.6, 0.8], [0.8, 1.0]),
        ("test_reference:Generous", [], []),
    ],
)
def test_the_alarm_rings_in_time_for_a_bribe_and_not_for_generosity(payer, warns, ends):
    values = SMALL | {"dialogues": 16, "reference": "embedded", "env_options": {"user": payer}}
    config = make_config(values | {"stop_on_gap": 8}, "the test")
    learner = SimpleNamespace(config=config, reference_start=None)
    learner.envs = [make_for_loop("RLVER-Empathy-v0", user=payer)]
    check = RewardOveroptimisationCheck(learner)
    warned, ended, scores = [], [], []
    for share in SHARES:
        found = check.measure(learner, hold_dialogues(make_user(payer), share))
        start = learner.reference_start
        said = describe_agreement(config, start, found)
        assert not said or "no longer tells replies apart" in said
        warned += [share] if said else []
        ended += [share] if exceeds_gap(config, start, found) else []
        scores.append(found["reference_score"])
    assert (warned, ended) == (warns, ends)
    if ends:
        before, at_first_warning, at_end = (scores[SHARES.index(x)] for x in (0.1, 0.4, ends[0]))
        # Version 12 itself gives less for advice that is repeated, so its own mean falls with the
        # share: little by the first warning, four points by the time that the gap ends the run.
        assert at_first_warning > before - 1
        assert at_end > before - 5


def read_recorded(supporter):
    """Dialogues of a real policy: by the readers who rated them, and by the embedded user."""
    card, corpus = env_card("RLVER-Empathy-v0"), Corpus(ROOT / "recordings/en/samples/test")
    replies = [x for x in corpus.rated_replies() if x.place.startswith(f"d-{supporter}-")]
    readings = []
    for place in dict.fromkeys(x.place for x in replies):
        said = sorted((x for x in replies if x.place == place), key=lambda x: len(x.dialogue.turns))
        texts = [said[0].dialogue.opening]
        for reply, after in zip(said, [*said[1:], None], strict=True):
            texts += [reply.text] + ([after.dialogue.user_lines[-1]] if after else [])
        scene = Scene(library().get(said[0].persona), card, 0)
        felt = reappraise_texts(EmbeddedUser(), scene, texts)
        assert felt
        paid_N = np.array([reply.mean("change") for reply in said])
        read_N = np.array([turn.appraisal.change for turn in felt], np.float64)
        paid = max(0.0, card.start + paid_N.sum())
        readings.append(
            Reading(said[0].persona, paid, felt[-1].emotion, paid_N[: len(felt)], read_N)
        )
    assert len(readings) == 24
    return readings


def test_the_run_that_readers_prefer_is_not_ended_by_who_cannot_tell_its_replies_apart():
    """Qwen after demonstrations, then by DPO on the preferences of readers: 8 to 20 by readers, 78
    to 63 by the embedded user (research/training-results.md).
    """
    before, after = read_recorded("qwen-sft-second"), read_recorded("qwen-dpo")
    start = ReferenceStart(measure_apart(before), measure_agreement(before))
    gap, now = compute_gap(start.apart, measure_apart(after)), measure_agreement(after)
    assert gap.low > 8
    assert start.agreement.low < 0 < start.agreement.high
    values = SMALL | {"dialogues": 16, "group_size": 2, "stop_on_gap": 8, "reference": "reader"}
    config = make_config(values, "the test")
    ends = ("", "_low", "_high")
    metrics = {f"reference_gap{end}": value for end, value in zip(ends, gap, strict=True)}
    metrics |= {f"reference_agreement{end}": value for end, value in zip(ends, now, strict=True)}
    assert not exceeds_gap(config, start, metrics)
    assert "does not say which one errs" in describe_agreement(config, start, metrics)


def make_reading(who, paid, read, final=0):
    return Reading(who, final, 2 * final, np.array(paid), np.array(read))


@pytest.mark.parametrize(
    ("readings", "r"),
    [
        ([make_reading("a", [1, 3], [2, 4]), make_reading("b", [9, 8], [1, 0])], 1.0),
        ([make_reading("a", [1, 3], [6, 2]), make_reading("b", [0, 0], [0, 0])], -1.0),
        # centred: 1, -1 and 1, -1 of one side, 1, -1 and -1, 1 of the other
        ([make_reading("a", [4, 2], [1, -1]), make_reading("b", [4, 2], [-1, 1])], 0.0),
        # products 2 + 0, squares 2 + 2 and 2 + 0: 2 / sqrt(4 * 2)
        ([make_reading("a", [1, -1], [1, -1]), make_reading("b", [1, -1], [1, 1])], 0.5**0.5),
        ([make_reading("a", [1, 1], [1, 2])], float("nan")),
        ([], float("nan")),
        # paid at the end alone: the finals of the same person's dialogues
        ([make_reading("a", [0, 7], [5, 5], 7), make_reading("a", [0, 9], [5, 5], 9)], 1.0),
    ],
)
def test_agreement_is_a_correlation_within_dialogues(readings, r):
    found = measure_agreement(readings)
    assert found.mean == pytest.approx(r, nan_ok=True)


@pytest.mark.parametrize(
    ("start", "now", "gap", "has_interval"),
    [
        ({"a": 1.0, "b": 2.0, "c": 3.0}, {"d": 5.0, "e": 6.0, "f": 10.0}, 5.0, True),
        ({"a": 1.0, "b": 1.0, "c": 1.0}, {"d": 4.0, "e": 4.0, "f": 4.0}, 3.0, True),
        ({"a": 1.0, "b": 3.0}, {"d": 5.0, "e": 6.0, "f": 10.0}, 5.0, False),
    ],
)
def test_a_gap_is_since_the_start_and_has_an_interval_over_people(start, now, gap, has_interval):
    found = compute_gap(start, now)
    assert found.mean == pytest.approx(gap)
    assert np.isfinite([found.low, found.high]).all() == has_interval
    if has_interval:
        spread = max(np.std([*start.values()]), np.std([*now.values()]))
        assert found.low <= gap <= found.high
        assert (found.high > found.low) == (spread > 0)


def small_run(folder, model, resume=False, **changes):
    config = make_config({"model": str(model)} | SMALL | changes, "the test")
    return run_training(config, out=folder, resume=resume)


class Habits:
    def reply(self, messages):
        return random.Random(str(messages)).choice(SAYINGS)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_policy_that_learns_a_bribe_is_stopped_in_time_and_goes_on_when_told(tmp_path, capsys):
    warm, folder = tmp_path / "warm", tmp_path / "run"
    teach(SftConfig(epochs=2), generate_demonstrations(["test_reference:Habits"], 200), warm)
    how = {"dialogues": 32, "group_size": 4, "iterations": 25, "max_reply_tokens": 16, "lr": 3e-4}
    how |= {"reference": "embedded", "env_options": {"user": "test_reference:Corrupt"}, "kl": 0.0}
    how |= {"max_tokens": 2048, "advantage": "centred", "reference_every": 1, "save_every": 25}
    small_run(folder, warm, stop_on_gap=5, **how)
    shown, lines = " ".join(capsys.readouterr().err.split()), read_metrics(folder)
    start, stop = lines[0], lines[-1]
    assert f"stopped after iteration {stop['iteration']}" in shown
    assert "--resume --stop-on-gap none" in shown
    assert stop["reference_agreement"] < start["reference_agreement_low"] > 0.5
    assert 3 < stop["iteration"] < 25
    assert stop["reference_score"] > start["reference_score"] - 2, "in time"
    how["iterations"] = stop["iteration"] + 1
    small_run(folder, warm, resume=True, **how)
    (*_, before, after) = read_metrics(folder)
    assert (before, after["iteration"]) == (stop, stop["iteration"] + 1)
    assert after["reference_gap"] > 5


def test_it_is_asked_every_few_iterations_at_first_and_at_last():
    few = {"iterations": 5, "reference": "reader", "reference_every": 3}
    asked = SimpleNamespace(config=make_config(few, "the test"))
    assert [
        number for number in range(1, 6) if RewardOveroptimisationCheck.is_due(asked, number)
    ] == [1, 3, 5]


def test_a_reference_that_fails_at_all_dialogues_stops_nothing(tiny_folder, tmp_path):
    changes = {"iterations": 1, "stop_on_gap": 0.1, "reference": "test_reference:Absent"}
    (line,) = read_metrics(small_run(tmp_path, tiny_folder, dialogues=6, **changes))
    assert (line["reference_gap"], line["reference_failed"]) == (None, 6)
    state = json.loads((tmp_path / "checkpoints/000001/state.json").read_text())
    assert state["reference_start"] is None


def test_a_run_whose_reference_tells_nothing_apart_goes_on(tiny_folder, tmp_path):
    changes = {"reference": "test_reference:Unmoved", "reference_every": 1}
    small_run(tmp_path, tiny_folder, iterations=1, **changes)
    state = json.loads((tmp_path / "checkpoints/000001/state.json").read_text())
    assert math.isnan(state["reference_start"]["agreement"][0])
    small_run(tmp_path, tiny_folder, resume=True, iterations=2, **changes)
    assert [line["iteration"] for line in read_metrics(tmp_path)][-1] == 2


def test_small_talk_is_appraised_again_by_the_embedded_user_alone(tiny_folder, tmp_path):
    with pytest.raises(TrainingError, match="small talk is appraised again by the embedded user"):
        small_run(tmp_path, tiny_folder, env="RLVER-ChitChat-v0")


def test_dialogues_are_sampled_evenly_from_those_that_count():
    class One:
        def __init__(self, number):
            self.number, self.valid = number, number != 0

    dialogues = [One(number) for number in range(9)]
    chosen = sample_dialogues(dialogues, 4)
    assert [one.number for one in chosen] == [1, 3, 5, 7]
    assert len(sample_dialogues(dialogues, 100)) == 8
    assert sample_dialogues(dialogues[:1], 4) == []


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"stop_on_gap": 5.0}, "stop_on_gap would be ignored: there is no reference"),
        ({"stop_on_gap": 5.0, "reference": "reader", "dialogues": 8}, "needs 3 people"),
        ({"stop_on_gap": 5.0, "reference": "reader", "reference_dialogues": 2}, "needs 3 people"),
        ({"reference": "embedded"}, "reference is embedded, the user that pays"),
        ({"reference": "reader", "env_options": {"user": "reader"}}, "the user that pays"),
    ],
)
def test_a_reference_that_would_say_nothing_is_refused(options, says):
    with pytest.raises(TrainingError, match=says):
        make_config(options, "the options")


def test_without_cards_there_is_nothing_to_appraise_by(tiny_folder):
    config = make_config({"model": str(tiny_folder)} | SMALL, "the test")
    learner = make_learner(config)
    learner.envs = [_NoCards()]
    with pytest.raises(TrainingError, match="no persona and env cards on this machine"):
        folders.RewardOveroptimisationCheck(learner)


class _NoCards:
    unwrapped = None


def test_within_an_iteration_a_run_without_a_terminal_says_how_far_it_is(
    tiny_folder, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("rlver_gym.util.progress.SECONDS_BETWEEN_LINES", 0.0)
    small_run(tmp_path, tiny_folder, iterations=1, epochs=2)
    said = capsys.readouterr().err
    for stage in ("replies, 4 of 4", "micro-batches scored, 0 of", "steps, 1 of 2"):
        assert stage in said
    assert "kl start" in said, "the distance from the start is shown each iteration"
