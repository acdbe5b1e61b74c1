"""Stories and people that a language model writes: a real server on loopback in its role."""

import json

import pytest
import yaml
from paths import ROOT
from typer.testing import CliRunner

from rlver_gym.cli import app
from rlver_gym.library.lean import Story
from rlver_gym.testing import ChatServer

RUTH = yaml.safe_load((ROOT / "examples/people/ruth-and-the-choir.yaml").read_text("utf-8"))
DEV = yaml.safe_load((ROOT / "examples/people/dev-and-the-van.yaml").read_text("utf-8"))
TOLD = "title timeline people tried now openings facts".split()


def story(**changes):
    wish = {"hints": RUTH["hints"], "meets": RUTH["meets"]}
    return {
        **{name: RUTH[name] for name in TOLD},
        "topics": ["leisure"],
        "ages": [20, 80],
        "life": ["any"],
        "needs": {"deep_empathy": wish},
        **changes,
    }


def person(name):
    fields = {one: RUTH[one] for one in "age gender work disposition traits speaks".split()}
    return {**fields, "name": name, "home": "a flat in Leeds", "life": "retired", "typing": "quick"}


def generate(folder, answers, *topics, kind="story"):
    folder.mkdir(exist_ok=True)
    (folder / "topics.txt").write_text("\n".join(topics), encoding="utf-8")
    with ChatServer(answers) as server:
        asked = ["personas", "generate", str(folder / "mine"), "--from", str(folder / "topics.txt")]
        asked += ["--model", "openai:writer", "--base-url", server.base_url, "--kind", kind]
        done = CliRunner().invoke(app, asked, env={"OPENAI_API_KEY": "x"})
        return done, server


def test_a_story_is_written_checked_and_named_by_its_title(tmp_path):
    done, _ = generate(tmp_path, [f"Here it is:\n{json.dumps(story())}"], "a choir")
    assert done.exit_code == 0, done.output
    (path,) = (tmp_path / "mine" / "stories").glob("*.yaml")
    assert path.name == "the-choir-without-its-alto.yaml"
    assert path.read_text(encoding="utf-8").startswith("# Written by writer.")
    assert Story.model_validate(yaml.safe_load(path.read_text(encoding="utf-8"))).split == "train"


def test_what_is_wrong_is_told_to_the_model_which_may_mend_it(tmp_path):
    wrong = story(facts=["It was typed.", *RUTH["facts"]], ages=["young", 80])
    answers = ["No.", json.dumps(wrong), json.dumps(story())]
    done, server = generate(tmp_path, answers, "a choir")
    assert "1 card written" in done.output
    told = [body["messages"][-1]["content"] for body in server.requests]
    assert "no JSON object" in told[1]
    assert "ages.0: must be a whole number" in told[2]


def test_a_story_that_is_there_already_is_not_taken_again(tmp_path):
    again = json.dumps(story(title="Another title"))
    done, _ = generate(tmp_path, [json.dumps(story()), again, again, again], "a choir", "a hall")
    assert done.exit_code == 1
    assert "1 card written, 0 from before, 1 left out" in done.output
    assert "tells stories/the-choir-without-its-alto.yaml again" in done.output
    assert len(list((tmp_path / "mine" / "stories").glob("*.yaml"))) == 1


def test_the_same_command_goes_on_and_asks_for_nothing_twice(tmp_path):
    generate(tmp_path, [json.dumps(story())], "a choir")
    done, server = generate(tmp_path, ["unused"], "a choir")
    assert "0 cards written, 1 from before" in done.output
    assert len(server.requests) == 0


@pytest.mark.parametrize("topic", ["a\tchoir", "a\x85choir", "a choir\u2028 alone", "a\rchoir"])
def test_a_topic_of_any_characters_is_asked_for_once(tmp_path, topic):
    generate(tmp_path, [json.dumps(story())], topic)
    done, server = generate(tmp_path, ["unused"], topic)
    assert "1 from before" in done.output
    assert len(server.requests) == 0


def test_a_last_line_whose_line_feed_an_editor_took_is_kept_and_one_cut_off_is_not(tmp_path):
    generate(tmp_path, [json.dumps(story())], "a choir")
    listed = tmp_path / "mine" / "generated.tsv"
    whole = listed.read_text("utf-8").rstrip("\n")
    for left in (whole, f"{whole}\nstory a v"):
        listed.write_text(left, "utf-8")
        wish = {name: DEV[name] for name in ("hints", "meets")}
        van = {name: DEV[name] for name in TOLD if name in DEV} | {"needs": {DEV["need"]: wish}}
        (tmp_path / "mine" / "generate_cache.sqlite").unlink()
        for path in (tmp_path / "mine" / "stories").glob("the-van*"):
            path.unlink()
        done, server = generate(tmp_path, [json.dumps(story(**van))], "a choir", "a van")
        assert "1 card written, 1 from before" in done.output, done.output
        assert len(server.requests) == 1
        first, second = listed.read_text("utf-8").splitlines()
        assert (first, second.partition("\t")[0]) == (whole, "story a van")


def test_what_is_wrong_in_the_library_already_is_not_the_new_storys_fault(tmp_path):
    stories = tmp_path / "mine" / "stories"
    stories.mkdir(parents=True)
    for name in ("alpha", "beta"):
        told = yaml.safe_dump(story(title=name, split="train"), allow_unicode=True)
        (stories / f"{name}.yaml").write_text(told, encoding="utf-8")
    wish = {name: DEV[name] for name in ("hints", "meets")}
    told = {name: DEV[name] for name in TOLD if name in DEV}
    fresh = story(**told, needs={DEV["need"]: wish})
    done, _ = generate(tmp_path, [json.dumps(fresh)], "a van")
    assert done.exit_code == 0, done.output


def test_a_story_for_people_of_impossible_ages_is_asked_for_again(tmp_path):
    answers = [json.dumps(story(ages=[60, 30])), json.dumps(story())]
    done, server = generate(tmp_path, answers, "a choir")
    assert "1 card written" in done.output
    assert "must rise" in server.requests[1]["messages"][-1]["content"]


def test_what_is_left_is_asked_as_it_was_before_the_stop(tmp_path):
    bad = ["No."] * 3
    _, first = generate(tmp_path / "once", [json.dumps(story()), *bad], "a choir", "a hall")
    generate(tmp_path / "twice", [json.dumps(story())], "a choir")
    _, second = generate(tmp_path / "twice", bad, "a choir", "a hall")
    (_, asked, *_), (again, *_) = first.requests, second.requests
    assert again["messages"] == asked["messages"]


def test_a_model_is_asked_at_the_address_of_its_name(tmp_path):
    (tmp_path / "topics.txt").write_text("a choir", encoding="utf-8")
    with ChatServer([json.dumps(story())]) as server:
        asked = ["personas", "generate", str(tmp_path / "mine"), "--from"]
        asked += [str(tmp_path / "topics.txt"), "--model", f"openai:writer@{server.base_url}"]
        done = CliRunner().invoke(app, asked, env={"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"})
        assert done.exit_code == 0, done.output
        assert [body["model"] for body in server.requests] == ["writer"]


def test_people_are_written_and_no_name_twice(tmp_path):
    names = iter(["Ada", "Ada", "Bo"])
    answers = [json.dumps(person(name)) for name in names]
    done, _ = generate(tmp_path, answers, "a diver", "a clerk", kind="person")
    assert done.exit_code == 0, done.output
    found = sorted(path.name for path in (tmp_path / "mine" / "people").glob("*.yaml"))
    assert found == ["ada.yaml", "bo.yaml"]


def test_hostile_text_of_the_model_goes_into_no_path(tmp_path):
    done, _ = generate(tmp_path, [json.dumps(story(title="../../etc/x\u202e"))] * 3, "a choir")
    assert done.exit_code == 1
    assert not (tmp_path / "mine" / "stories").exists()
    done, _ = generate(tmp_path, [json.dumps(story(title="../../etc"))] * 3, "a hall")
    (path,) = (tmp_path / "mine" / "stories").glob("*.yaml")
    assert path.name == "etc.yaml"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (["--kind", "song"], "'song' is not one of"),
        (["--split", "all"], "'all' is not one of"),
        (["--model", "mine"], "'mine' is no model behind a server"),
    ],
)
def test_wrong_options_are_named(tmp_path, wrong, says):
    topics = tmp_path / "topics.txt"
    topics.write_text("x", encoding="utf-8")
    asked = ["personas", "generate", str(tmp_path), "--from", str(topics), "--model", "openai:m"]
    done = CliRunner().invoke(app, [*asked, *wrong])
    assert says in f"{done.output} {done.exception}"
