"""Every command that reads a stranger's cards or recordings: one bounded error, nothing obeyed."""

import os
import re
import resource
import time
from pathlib import Path

import pytest
from commands import run_command
from hostile_cards import (
    ESCAPES,
    HOSTILE_ENV_CARDS,
    HOSTILE_FOLDERS,
    HOSTILE_RECORDINGS,
    MARKUP,
    PERSONA,
    SLOW_TEXTS,
    markup_folder,
    persona_folder,
    recording,
)

from rlver_gym import PersonaLibrary, env_card
from rlver_gym.corpora.recordings import read_recordings
from rlver_gym.library.profiles import make_persona_from_profile
from rlver_gym.people.card_check import check_cards
from rlver_gym.util.errors import CardError, RecordingError

pytestmark = pytest.mark.timeout(300)
THEIRS = "What happened that evening?"
BENCH = f"bench --persona {PERSONA} --agent comfort --seeds 1 --out".split()


@pytest.fixture(autouse=True)
def little_memory():
    """Two gigabytes more than now: whoever reads without bounds fails here, and not the machine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def command(*words):
    """The command's exit code and output, which is always fit for a terminal."""
    done = run_command(*words)
    output = done.stdout + done.stderr
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", output), output
    assert "Traceback" not in output
    assert len(output) < 200_000
    return done.returncode, output


def check_refused(*words, max_chars=12_000):
    code, output = command(*words)
    assert code == 2, (words, output)
    assert output.startswith("error: ")
    assert len(output) < max_chars
    return output


@pytest.mark.parametrize("fault", HOSTILE_FOLDERS)
def test_every_command_with_a_hostile_persona_folder_ends_with_one_error(tmp_path, fault):
    folder = persona_folder(tmp_path / "theirs")
    HOSTILE_FOLDERS[fault](folder)
    assert command("personas", "check", str(folder))[0] == 1
    assert command("personas", "check", str(folder), "--json")[0] == 1
    for words in (
        ("personas", "show", PERSONA),
        ("appraise", THEIRS, "--persona", PERSONA),
        ("talk", "--persona", PERSONA),
        (*BENCH, str(tmp_path / "run")),
    ):
        check_refused(*words, "--personas", str(folder))
    command("personas", "list", "--personas", str(folder))


def test_every_command_shows_what_a_card_says_and_does_not_obey_it(tmp_path):
    folder = str(markup_folder(tmp_path / "theirs"))
    assert MARKUP[:20] in command("personas", "show", PERSONA, "--personas", folder)[1]
    assert MARKUP[:20] in command("appraise", THEIRS, "--persona", PERSONA, "--personas", folder)[1]
    assert command("talk", "--persona", PERSONA, "--personas", folder)[0] == 0
    out = str(tmp_path / "run")
    assert command(*BENCH, out, "--personas", folder)[0] == 0
    assert "<script>alert" not in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_a_folder_without_an_index_is_told_which_files_are_expected(tmp_path):
    code, output = command("personas", "list", "--personas", str(tmp_path))
    assert code == 2
    files = ("index.yaml", "people/PERSON.yaml", "situations/SITUATION.yaml")
    for said in (*files, "personas schema index", "personas new"):
        assert said in " ".join(output.split())


def test_files_with_names_that_a_terminal_obeys_are_checked(tmp_path):
    folder = persona_folder(tmp_path / "theirs")
    for name in ("\x1b[31m", "a\nb: c", "\x9b2J", "[bold]"):
        (folder / "people" / f"{name}.yaml").write_text("id: x", encoding="utf-8")
    with open(os.fsencode(folder / "people") + b"/\xff.yaml", "wb") as file:
        file.write(b"id: x")
    for extra in ((), ("--json",)):
        assert command("personas", "check", str(folder), *extra)[0] == 1


def test_a_folder_with_very_many_problems_names_the_first(tmp_path):
    folder = persona_folder(tmp_path / "theirs")
    for number in range(150):
        card = folder / "people" / f"p{number}.yaml"
        card.write_text(f"id: p{number}\nname: Somebody\nage: old", encoding="utf-8")
    problems = check_cards(folder)
    assert len(problems) == 201
    assert "Mend these first" in problems[-1].problem


def test_a_persona_with_an_empty_need_is_no_persona():
    code, output = command("personas", "show", "noor-missed-evening/")
    assert code == 2
    assert "there is no hidden need" in output


@pytest.mark.parametrize("fault", HOSTILE_ENV_CARDS)
def test_a_hostile_env_card_is_one_error_of_every_command(tmp_path, fault):
    path = tmp_path / "card.yaml"
    path.write_bytes(HOSTILE_ENV_CARDS[fault])
    for words in (
        ("envs", "show", str(path)),
        ("appraise", THEIRS, "--persona", "noor-missed-evening", "--env", str(path)),
        ("talk", "--persona", "noor-missed-evening", "--env", str(path)),
        ("bench", "--agent", "comfort", "--env", str(path), "--out", str(tmp_path / "run")),
    ):
        check_refused(*words)


def test_an_env_card_that_never_ends_is_refused_at_once(tmp_path):
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.yaml")
    for name in ("zero", "pipe"):
        with pytest.raises(CardError, match="not a regular file"):
            env_card(tmp_path / f"{name}.yaml")


@pytest.mark.parametrize("fault", HOSTILE_RECORDINGS)
def test_hostile_recordings_are_one_error_that_names_the_file(tmp_path, fault):
    path = tmp_path / "theirs" / "judge__several.jsonl"
    path.parent.mkdir()
    path.write_bytes(HOSTILE_RECORDINGS[fault])
    told = check_refused("rescore", str(path.parent), "--user", "embedded", max_chars=3_000)
    assert fault == "nothing" or path.name in told.replace("\n", "")


@pytest.mark.parametrize("kind", ["pipe", "zero", "outside", "circle", "terabyte"])
def test_special_files_among_recordings_are_refused_at_once(tmp_path, kind):
    folder = tmp_path / "theirs"
    folder.mkdir()
    path = folder / "judge__several.jsonl"
    (tmp_path / "mine.jsonl").write_text("{}", encoding="utf-8")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "terabyte":
        path.touch()
        os.truncate(path, 1 << 40)
    else:
        places = {"zero": "/dev/zero", "outside": tmp_path / "mine.jsonl", "circle": path}
        path.symlink_to(places[kind])
    says = r"not a regular file|leads out of the folder|holds more than"
    with pytest.raises(RecordingError, match=says):
        read_recordings(folder)


def test_what_recordings_say_is_printed_and_not_obeyed(tmp_path):
    names = {"agent": f"near{MARKUP}", "simulator": "[/nope]\x1b[2J"}
    line = recording(persona="theo-the-burst-pipe", **names)
    (tmp_path / "a__b.jsonl").write_bytes(line)
    code, output = command("rescore", str(tmp_path), "--user", "embedded")
    assert code == 0, output
    assert "near[bold]no" in output
    assert ESCAPES not in output


@pytest.mark.parametrize("name", SLOW_TEXTS)
def test_no_text_of_a_profile_makes_reading_it_slow(name):
    text, began = SLOW_TEXTS[name], time.process_time()
    profile = dict.fromkeys(("player", "scene", "cha_group"), text)
    profile |= {"id": "lin", "main_cha": "passive", "task": "praise"}
    assert make_persona_from_profile(profile).id == "lin"
    assert time.process_time() - began < 10


def test_a_hostile_config_of_a_training_is_one_error(tmp_path):
    path = tmp_path / "config.yaml"
    running = ("env_options: {user: 'os:system'}", "model: !!python/name:os.system x")
    for text in ("a: &a [*a]", "[" * 50_000, *running, ""):
        path.write_text(text, encoding="utf-8")
        code, output = command("train", "--config", str(path))
        assert code == 2, output
        assert "config.yaml" in output.replace("\n", "")


def test_a_good_folder_is_good(tmp_path):
    folder = persona_folder(tmp_path / "theirs")
    assert check_cards(folder) == []
    assert check_cards(markup_folder(tmp_path / "markup")) == []
    assert PersonaLibrary(folder).get(PERSONA).need == "praise"
