"""The command line, as people use it."""

import json
import os
import subprocess
import sys

import pytest
from commands import run_command
from hostile_cards import persona_folder

from rlver_gym import env_card

RLVER = [sys.executable, "-m", "rlver_gym"]
PERSONA = "noor-missed-evening"
LLM_BENCH = ("bench", "--user", "openai:m")


def rlver(*words, code=0, **options):
    done = run_command(*words, **options)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done


def test_a_process_of_its_own_ends_as_the_command_does_in_the_process_of_the_tests(tmp_path):
    words = ("bench", "--persona", PERSONA, "--seeds", "1", "--agent", "comfort")
    for name in ("process", "here"):
        (tmp_path / name).mkdir()
    process = subprocess.run(
        [*RLVER, *words],
        input="",
        capture_output=True,
        text=True,
        timeout=100,
        cwd=tmp_path / "process",
    )
    here = rlver(*words, cwd=tmp_path / "here")
    for name in ("returncode", "stdout", "stderr"):
        assert getattr(process, name) == getattr(here, name)


def test_bench_prints_a_table_and_writes_a_run(tmp_path):
    run = tmp_path / "run"
    few = f"bench --persona {PERSONA} --persona noor-the-old-dog --seeds 1".split()
    words = (*few, "--agent", "comfort", "--agent", "oracle", "--out", str(run))
    text = rlver(*words).stdout
    assert "oracle" in text
    assert "to the best" in text
    names = {path.name for path in run.iterdir()}
    assert names == {"episodes.jsonl", "manifest.json", "report.html"}
    scores = json.loads(rlver(*words, "--json").stdout)["scores"]
    assert [score["agent"] for score in scores] == ["oracle", "comfort"]
    assert "4 episodes recomputed" in rlver("verify", str(run)).stdout
    assert json.loads(rlver("verify", str(run), "--json").stdout)["sound"] is True
    other = tmp_path / "other"
    rlver(*few, "--agent", "oracle", "--out", str(other))
    compared = rlver("report", str(run), str(other), "--out", str(tmp_path / "both.html")).stdout
    assert "oracle (run)" in compared
    assert "oracle (other)" in compared


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("bench", "--seeds", "two"), "'--seeds': must be a whole number (found 'two')"),
        (("bench", "--seeds", "0"), "'--seeds': must be at least 1 (found '0')"),
        (("bench", "--seeds", "9" * 999), "(found '9999"),
        (("export", "run", "--to", "sft", "--min-margin", "x"), "must be a number (found 'x')"),
        (("export", "run", "--to", "csv"), "'csv' is not one of"),
        (("export", "run", "--to", "sft", "--split", "dev"), "--split 'dev': must be"),
        (("export", "run", "--to", "sft", "--outcome", "well"), "--outcome 'well': must be"),
        (("report", "run", "--by", "agent"), "'agent' is not one of 'persona'"),
        (("personas", "list", "--need", "foo"), "'--need': 'foo' is not one of 'not_at_fault'"),
        (("talk", "--seed", "-1"), "'--seed': must be at least 0 (found '-1')"),
        (("appraise", "--persona", PERSONA, "--seed", "-1", "Hi."), "must be at least 0 (found"),
        (("cache", "prune", "t", "--older-than", "-1"), "must be at least 0.0 (found '-1')"),
    ],
)
def test_a_value_that_an_option_does_not_take_is_named_in_plain_words(words, says):
    said = " ".join(rlver(*words, code=2).stderr.replace("│", "").split())
    assert says in said
    assert "Input should" not in said
    assert len(said) < 600


def test_paths_are_never_taken_as_markup(tmp_path):
    run = tmp_path / "[" / "]run"
    rlver("bench", "--persona", PERSONA, "--seeds", "1", "--agent", "comfort", "--out", str(run))
    for words in (("verify", str(run)), ("report", str(run))):
        assert str(run) in rlver(*words, cwd=tmp_path).stdout


def test_the_default_folder_is_the_same_for_the_same_command(tmp_path):
    words = ("bench", "--persona", PERSONA, "--seeds", "1", "--agent", "comfort")
    first = rlver(*words, cwd=tmp_path).stdout
    assert "SAGE-Sentient-v0: 1 persona x 1 seed, embedded user" in first
    second = rlver(*words, cwd=tmp_path).stdout
    assert "(1 dialogue held now" in first
    assert "(0 dialogues held now, 1 from before" in second
    assert len(list((tmp_path / "runs").iterdir())) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("bench", "--agent", "nobody"), "there is no agent 'nobody'"),
        (("bench", *"--agent comfort --agent echo --agent comfort".split()), "is named twice"),
        (("bench", "--agent", "listener", "--agent-option", "top_p=1"), "openai:MODEL"),
        (
            ("bench", "--env", "RLVER-Strategy-v0"),
            "those of RLVER-Empathy-v0: name that one. Its strategies are agents there: strategy:",
        ),
        ((*LLM_BENCH, "--user-option", "samples"), "NAME=VALUE"),
        ((*LLM_BENCH, "--user-option", "sampels=3"), "samples"),
        ((*LLM_BENCH, "--budget", "euros=3"), "money=N, tokens=N or calls=N"),
        ((*LLM_BENCH, "--budget", "money=3"), "prices"),
        ((*LLM_BENCH, "--prices", "0.15"), "--prices 0.15,0.60"),
        ((*LLM_BENCH, "--prices", "-1,2"), "IN,OUT"),
        ((*LLM_BENCH, "--prices", "inf,1"), "IN,OUT"),
        ((*LLM_BENCH, "--base-url", "localhost"), "http://"),
        ((*LLM_BENCH, "--cache-mode", "rewind"), "replay"),
        (("bench", "--env", "Nope-v0"), "there is no environment 'Nope-v0'"),
        (("bench", "--split", "none"), "--split 'none'"),
        (("bench", "--persona", "who", "--agent", "comfort"), "there is no persona 'who'"),
        (
            ("bench", "--user-option", "split=demo", "--agent", "comfort"),
            "there is no option 'split': the user 'embedded' takes no options of its own",
        ),
        (
            ("appraise", "--persona", PERSONA, "--user-option", "samples=3", "Hello."),
            "there is no option 'samples': the user 'embedded' takes no options of its own",
        ),
        (("bench", "--user", "robot", "--agent", "comfort"), "there is no user 'robot'"),
        (("talk", "--persona", "who"), "there is no persona 'who'"),
        (("verify", "/nowhere"), "Is /nowhere the folder of a run?"),
        (("report", "/nowhere"), "Is /nowhere the folder of a run?"),
        (("personas", "show", "who"), "there is no persona 'who'"),
        (("personas", "check", "/nowhere"), "does not exist"),
        (("personas", "schema", "dog"), "no card of kind 'dog'"),
        (("envs", "show", "x.yaml"), "cannot be read"),
    ],
)
def test_what_cannot_be_done_is_one_message_and_code_2(words, says, tmp_path):
    done = rlver(*words, code=2, cwd=tmp_path)
    assert says in " ".join(done.stderr.split())
    assert not list(tmp_path.iterdir())


def test_a_misspelt_agent_is_the_only_thing_that_is_wrong():
    done = rlver("bench", "--agent", "listner", code=2)
    assert "no agent 'listner'. Did you mean 'listener'?" in " ".join(done.stderr.split())
    assert "too few" not in done.stderr


def test_personas_and_envs_can_be_read(tmp_path):
    assert len(json.loads(rlver("personas", "list", "--json").stdout)) == 108
    praised = json.loads(rlver("personas", "list", "--need", "praise", "--json").stdout)
    assert {one["need"] for one in praised} == {"praise"}
    assert json.loads(rlver("personas", "show", PERSONA, "--json").stdout)["id"] == PERSONA
    assert "hidden need" in rlver("personas", "show", PERSONA).stdout
    good = persona_folder(tmp_path / "good")
    assert "all cards are sound" in rlver("personas", "check", str(good)).stdout
    assert json.loads(rlver("personas", "schema", "situation").stdout)["title"] == "Situation"
    assert {card["id"] for card in json.loads(rlver("envs", "list", "--json").stdout)} >= {
        "RLVER-Empathy-v0"
    }
    shown = rlver("envs", "show", "SAGE-Sentient-v0").stdout
    assert "nine" in shown
    mine = tmp_path / "mine.yaml"
    mine.write_text(shown, encoding="utf-8")
    assert env_card(mine) == env_card("SAGE-Sentient-v0")
    assert rlver("envs", "show", str(mine)).stdout == shown
    (tmp_path / "people").mkdir()
    (tmp_path / "people" / "x.yaml").write_text("id: x", encoding="utf-8")
    done = rlver("personas", "check", str(tmp_path / "people" / "x.yaml"), code=1)
    assert "name: add this field" in done.stderr


def test_an_openai_agent_without_a_key_says_what_to_set(tmp_path):
    env = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI")}
    done = rlver(
        "bench", "--agent", "openai:some-model", "--persona", PERSONA, code=2, env=env, cwd=tmp_path
    )
    assert "OPENAI_API_KEY" in done.stderr
