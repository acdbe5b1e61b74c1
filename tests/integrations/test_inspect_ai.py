import gc
import math
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

pytest.importorskip("inspect_ai")

from failing import FailsInTurn
from inspect_ai import Task, score
from inspect_ai import eval as run_eval
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate
from integrations.drivers import gymnasium

from rlver_gym.integrations.inspect_ai import (
    EPOCH_STRIDE,
    DialogueRecord,
    final_emotion,
    make_samples,
    rlver_empathy,
)
from rlver_gym.library.personas import library
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.util.errors import CardError, DialogueError

pytestmark = [
    pytest.mark.filterwarnings("ignore:The 'initial' parameter:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning"),
]
DEMO = library().ids("demo")
UTTERANCES = ("What happened?", "That sounds hard. What did you do?", "And how are you now?") * 3


def scripted():
    def speak(messages, *_):
        turn = sum(one.role == "assistant" for one in messages)
        output = ModelOutput.from_content("mockllm", UTTERANCES[turn])
        output.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
        return output

    return get_model("mockllm/model", custom_outputs=speak)


def run(tmp_path, task, **options):
    options = {"model": scripted(), **options}
    (log,) = run_eval(task, log_dir=str(tmp_path), display="none", **options)
    gc.collect()  # it leaves streams open, which warn when they are collected
    return read_eval_log(log.location)


def metric(log, name):
    assert log.results
    return log.results.scores[0].metrics[name].value


def test_a_sample_is_a_persona_with_a_seed_and_tells_the_model_nothing_more():
    samples = make_samples(split="demo", seeds=2)
    assert [one.metadata["persona"] for one in samples[::2]] == list(DEMO)
    assert [one.id for one in samples[:2]] == [f"{DEMO[0]}_0", f"{DEMO[0]}_1"]
    assert [one.role for one in samples[0].input] == ["system"]
    others = make_samples(split="demo", seeds=["7", 8])[:2]
    assert [one.metadata["seed"] for one in others] == [7, 8]


@pytest.mark.parametrize("seeds", [0, -1, [], ["x"], [EPOCH_STRIDE], [-1], "x", None])
def test_seeds_that_are_none_are_an_error_that_says_what_to_give(seeds):
    with pytest.raises(DialogueError, match="seeds=3"):
        make_samples(split="demo", seeds=seeds)


def test_the_score_is_the_final_emotion_and_the_rewards_are_those_of_gymnasium(tmp_path):
    log = run(tmp_path, rlver_empathy(split="demo", seeds=[5]))
    expected = [gymnasium.play(persona, 5, UTTERANCES).rewards for persona in DEMO]
    records = [one.store_as(DialogueRecord) for one in log.samples]
    assert [one.rewards for one in records] == expected
    finals = [one.emotion / 100 for one in records]
    assert [one.scores["final_emotion"].value for one in log.samples] == finals
    assert metric(log, "mean") == pytest.approx(sum(finals) / len(finals))
    assert metric(log, "lower") < metric(log, "mean") < metric(log, "upper")
    assert {one.outcome for one in records} <= {"content", "left", "out_of_turns"}
    again = score(log, final_emotion(), action="overwrite", display="none")
    assert metric(again, "mean") == metric(log, "mean")


def test_an_epoch_meets_the_person_in_another_mood_and_the_first_as_reset_does(tmp_path):
    log = run(tmp_path, rlver_empathy(split="demo", seeds=[3]), epochs=2)
    people: dict[str, list[DialogueRecord]] = {name: [] for name in DEMO}
    for one in sorted(log.samples, key=lambda one: one.epoch):
        people[one.metadata["persona"]].append(one.store_as(DialogueRecord))
    for persona, records in people.items():
        assert [one.seed for one in records] == [3, 3 + EPOCH_STRIDE]
        for record in records:
            assert record.rewards == gymnasium.play(persona, record.seed, UTTERANCES).rewards
    assert any(first.transcript != second.transcript for first, second in people.values())
    finals = [one.emotion / 100 for records in people.values() for one in records]
    assert metric(log, "mean") == pytest.approx(sum(finals) / len(finals))


def test_the_standard_error_is_over_personas(tmp_path):
    log = run(tmp_path, rlver_empathy(split="demo", seeds=2), limit=4)
    finals = [one.scores["final_emotion"].value for one in log.samples]
    means = [sum(finals[:2]) / 2, sum(finals[2:]) / 2]
    assert metric(log, "stderr") == pytest.approx(abs(means[0] - means[1]) / 2)


@pytest.mark.parametrize("turn", [2, 0])
@pytest.mark.parametrize("epochs", [1, 2])
def test_a_sample_whose_user_failed_is_unscored_and_not_zero(tmp_path, turn, epochs):
    task = rlver_empathy(split="demo", user=FailsInTurn(turn, personas=DEMO[:1]))
    log = run(tmp_path, task, limit=3, epochs=epochs)
    failed, *others = [one for one in log.samples if one.epoch == 1]
    assert log.status == "success"
    assert failed.store_as(DialogueRecord).outcome == "failed"
    assert math.isnan(failed.scores["final_emotion"].value)
    assert failed.scores["final_emotion"].reason == "grader_failed"
    assert (log.results.scores[0].scored_samples, log.results.scores[0].unscored_samples) == (2, 1)
    if epochs == 1:
        finals = [one.scores["final_emotion"].value for one in others]
        assert metric(log, "mean") == pytest.approx(sum(finals) / 2)


@pytest.mark.usefixtures("close_shared_clients")
def test_a_server_of_the_user_that_is_out_is_an_error_of_the_sample(tmp_path):
    with ChatServer("hello") as server:
        base_url = server.base_url
    task = rlver_empathy(split="demo", user="openai:m", base_url=base_url)
    log = run(tmp_path, task, limit=1)
    assert (log.status, log.results) == ("error", None)
    assert "reach" in log.error.message


@pytest.mark.parametrize("limits", [{"message_limit": 5}, {"token_limit": 16}])
def test_a_dialogue_that_a_limit_cut_off_is_scored_as_it_stood(tmp_path, limits):
    log = run(tmp_path, rlver_empathy(split="demo"), limit=1, **limits)
    (sample,) = log.samples
    record = sample.store_as(DialogueRecord)
    assert sample.limit
    assert record.outcome is None
    assert record.rewards == gymnasium.play(DEMO[0], 0, UTTERANCES).rewards[: len(record.rewards)]
    assert 1 <= len(record.rewards) <= 2
    assert sample.scores["final_emotion"].value == record.emotion / 100


def test_a_key_is_refused_since_the_log_would_hold_it():
    with pytest.raises(CardError, match="OPENAI_API_KEY"):
        rlver_empathy(user="openai:m", api_key="sk-1")


def test_a_sample_without_a_dialogue_is_unscored(tmp_path):
    sample = Sample("hi", metadata={"persona": DEMO[0]})
    (sample,) = run(tmp_path, Task([sample], solver=generate(), scorer=final_emotion())).samples
    assert math.isnan(sample.scores["final_emotion"].value)


def test_inspect_finds_the_task_by_the_entry_point():
    found = {one.name: one.value for one in entry_points(group="inspect_ai")}
    assert found["rlver_gym"] == "rlver_gym.integrations.inspect_ai"


@pytest.mark.slow
def test_the_command_line_runs_the_task(tmp_path):
    with ChatServer(EmbeddedAnswers()) as server:
        command = [sys.executable, "-m", "inspect_ai", "eval", "rlver_gym/rlver_empathy"]
        command += ["--model", "openai-api/test/agent", "--model-base-url", server.base_url]
        command += ["-M", "api_key=any", "-T", "split=demo", "-T", "seeds=7,8", "--limit", "2"]
        command += ["--log-dir", str(tmp_path), "--display", "none"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("*.eval")
    log = read_eval_log(str(path))
    assert log.status == "success"
    assert [one.store_as(DialogueRecord).seed for one in log.samples] == [7, 8]
