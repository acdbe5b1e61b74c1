"""The pages as one file: whole, packed, and with no text of models as markup."""

import json
import re

from pages import read_page

from rlver_gym.bench.run import read_episodes
from rlver_gym.studio.page import collect_page_data, render_page, write_page
from rlver_gym.studio.runs import Runs
from rlver_gym.studio.trainings import Trainings
from rlver_gym.util.terminal import printable

HOSTILE = "\x1b]0;owned\x07\u202e</script><script>alert('x')</script><img src=x>&lt;\u2028\"'\ud800"


def test_the_page_holds_every_dialogue_and_who_it_was_held_with(held, tmp_path):
    data = read_page(write_page([held], tmp_path / "page.html"))
    runs = Runs([held])
    assert len(data["dialogues"]) == len(read_episodes(held))
    assert data["overview"]["dialogues"] == json.loads(json.dumps(runs.overview["dialogues"]))
    for found in data["dialogues"]:
        whole = runs.dialogue(found["run"], found["id"])
        assert found["turns"] == json.loads(json.dumps(whole["turns"]))
        assert data["people"][found["person"]] == json.loads(json.dumps(whole["person"]))


def test_the_page_may_ask_for_nothing_and_names_no_other_page(held, tmp_path):
    text = write_page([held], tmp_path / "page.html").read_text(encoding="utf-8")
    rules = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert rules
    assert "default-src 'none'" in rules[1]
    assert not re.search(r"unsafe|connect-src|https?:|\*|blob:", rules[1])
    namespaces = {
        f"http://www.w3.org/{one}" for one in ("2000/svg", "1998/Math/MathML", "1999/xhtml")
    }
    assert set(re.findall(r"https?://[^`'\"]*", text)) <= namespaces
    assert not re.search(r"""<(?:img|link|iframe|script src)|@import|url\(""", text)
    assert write_page([held], tmp_path / "again.html").read_text(encoding="utf-8") == text


def test_hostile_text_is_data_in_the_page_and_its_title_is_escaped():
    page = render_page({"overview": {HOSTILE: HOSTILE}}, HOSTILE)
    assert printable(page) == page
    assert page.count("<script") == page.count("</script>") == 2
    assert "alert(" not in page.replace("&lt;script&gt;alert(", "")


def test_of_more_dialogues_than_a_page_holds_the_lower_seeds_are_there(held):
    runs, none = Runs([held]), Trainings([])
    whole = collect_page_data(runs, none)
    assert whole["overview"]["omitted"] == 0
    size = len(json.dumps(whole["dialogues"]))
    some = collect_page_data(runs, none, max_chars=size // 2)
    assert 0 < len(some["dialogues"]) < len(whole["dialogues"])
    rows = some["overview"]["dialogues"]
    assert [one["id"] for one in rows] == [one["id"] for one in some["dialogues"]]
    assert some["overview"]["omitted"] == len(whole["dialogues"]) - len(rows)
    assert some["overview"]["tables"] == whole["overview"]["tables"]


def test_a_page_of_648_dialogues_stays_below_three_megabytes(held, tmp_path):
    page = write_page([held], tmp_path / "page.html")
    per_dialogue = (page.stat().st_size - len(render_page({}, ""))) / len(read_episodes(held))
    assert per_dialogue * 648 < 3_000_000 - len(render_page({}, ""))
