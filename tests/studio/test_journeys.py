"""Journeys through the studio in a real browser: no request leaves it, its console stays empty."""

import json
import re
import shutil
from pathlib import Path

import pytest
from chromium import BROWSER_TEST, MARKUP, expect, hostile_run, show, training_run
from paths import ROOT
from studios import KIND, Client, start_studio

from rlver_gym.bench.run import read_episodes

pytestmark = BROWSER_TEST


def test_the_worst_dialogue_of_an_agent_is_two_clicks_away(studio, visit):
    page = visit(studio, viewport={"width": 1200, "height": 500})
    expect(page.get_by_role("heading", name="dialogues of listener")).not_to_be_in_viewport()
    page.get_by_role("button", name="echo").first.click()
    expect(page.get_by_role("heading", name="dialogues of echo")).to_be_in_viewport()
    worst = min(
        (one for one in read_episodes(studio.folder) if one.agent == "echo"),
        key=lambda one: one.final,
    )
    row = page.locator("table.list tbody tr").first
    expect(row.locator("b")).to_have_text(str(worst.final))
    row.click()
    expect(page.locator("article").first).to_be_visible()
    assert "id=echo" in page.url
    before = page.locator("article").all_inner_texts()
    page.reload()
    expect(page.locator("article").first).to_be_visible()
    assert page.locator("article").all_inner_texts() == before


def test_two_agents_stand_side_by_side_on_the_same_person(studio, visit):
    page = visit(studio)
    show(page, f"#/dialogue?run={studio.run}&id=listener/gus-the-flatmate/0")
    page.get_by_label("beside it").select_option(f"{studio.run}\necho/gus-the-flatmate/0")
    expect(page.locator(".column")).to_have_count(2)
    first = page.locator("#turn-1")
    expect(first.locator("article")).to_have_count(2)
    boxes = [one.bounding_box() for one in first.locator("article").all()]
    assert abs(boxes[0]["y"] - boxes[1]["y"]) < 2
    assert boxes[1]["x"] > boxes[0]["x"] + 200
    expect(page.locator("svg.line polyline")).to_have_count(2)
    page.get_by_role("button", name=re.compile("^echo, turn 2")).click()
    expect(page.locator("#turn-2")).to_have_class(re.compile("picked"))
    assert "turn=2" in page.url


def test_another_reply_is_tried_at_a_turn_and_kept(studio, visit):
    page = visit(studio)
    show(page, f"#/dialogue?run={studio.run}&id=echo/gus-the-flatmate/0")
    page.locator("#turn-2").get_by_role("button", name="another reply").click()
    page.get_by_placeholder("What would you say here?").fill("What hurt you most about it?")
    page.get_by_role("button", name="Say it").click()
    expect(page.locator(".column")).to_contain_text(["echo", "another reply at turn 2"])
    expect(page.locator("#turn-2 .second")).to_contain_text("What hurt you most about it?")
    page.get_by_label("to the end").check()
    page.get_by_role("button", name="speak").click()
    expect(page.locator(".branches button")).to_contain_text(f"you, {KIND}")
    expect(page.locator(".ending").nth(1)).to_be_visible()
    page.reload()
    expect(page.locator("#turn-2 .second")).to_contain_text("What hurt you most about it?")
    (kept,) = studio.get("branches", run=studio.run, dialogue="echo/gus-the-flatmate/0")
    assert kept["turns"][-1]["outcome"]


def test_a_talk_is_held_taken_back_and_saved(studio, visit):
    page = visit(studio)
    page.get_by_role("link", name="Talk").click()
    page.get_by_label("with").select_option("noor-the-old-dog")
    page.get_by_role("button", name="Begin").click()
    box = page.get_by_placeholder(re.compile("turn 1 of 8"))
    box.fill("That sounds lonely. What happened?")
    box.press("Enter")
    expect(page.locator(".felt")).to_have_count(1)
    expect(page.get_by_placeholder(re.compile("turn 2 of 8"))).to_be_visible()
    page.get_by_role("button", name=f"What would {KIND} say?").click()
    expect(page.locator(".hint")).not_to_be_empty()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save").click()
    line = json.loads(Path(saved.value.path()).read_text(encoding="utf-8"))
    assert line["turns"][0]["utterance"] == "That sounds lonely. What happened?"
    expect(page.get_by_role("status")).to_contain_text(saved.value.suggested_filename)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Markdown").click()
    text = Path(saved.value.path()).read_text(encoding="utf-8")
    assert "**you** (turn 1): That sounds lonely. What happened?" in text
    assert "\n- +" in text
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".felt")).to_have_count(0)
    expect(box).to_have_value("That sounds lonely. What happened?")


def test_somebody_in_need_says_how_each_reply_feels(studio, visit):
    page = visit(studio)
    show(page, "#/talk?as=need")
    page.get_by_placeholder("What is on your mind?").fill("My dog died.")
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("alert")).to_contain_text("Give a name first")
    assert page.get_by_label("who supports you").locator("option").all_inner_texts() == [KIND]
    page.get_by_label("your name").fill("Ann")
    page.get_by_role("button", name="Begin").click()
    page.get_by_role("radio", name="+4", exact=True).click()
    page.get_by_placeholder("And then?").fill("He was old.")
    page.get_by_role("button", name="Say it").click()
    expect(page.locator(".rated")).to_have_text("felt +4")
    page.get_by_role("radio", name="−7").click()
    expect(page.get_by_placeholder("And then?")).to_be_visible()
    page.get_by_role("link", name="People").click()
    show(page, "#/talk?as=need")
    expect(page.get_by_placeholder("And then?")).to_be_visible()
    lines = [json.loads(one) for one in (studio.out / "ratings.jsonl").read_text().splitlines()]
    rated = [(one["rater"], one["turn"], one["change"]) for one in lines]
    assert rated == [("Ann", 1, 4), ("Ann", 2, -7)]


def test_an_agent_of_one_s_own_replies_in_all_places_and_its_words_are_text(visit, held, tmp_path):
    folder = shutil.copytree(held, tmp_path / held.name)
    name = "chromium:Hostile"
    with start_studio([folder], tmp_path / "out", agents=(name,)) as server:
        page = visit(Client(server, folder, tmp_path / "out"))
        show(page, f"#/dialogue?run={folder.name}&id=echo/gus-the-flatmate/0")
        page.locator("#turn-2").get_by_role("button", name="another reply").click()
        expect(page.get_by_label("agent", exact=True)).to_have_value(name)
        page.get_by_role("button", name="speak").click()
        expect(page.locator("#turn-2 .second")).to_contain_text("<script>alert(2)</script>")
        show(page, "#/talk?persona=gus-the-flatmate")
        page.get_by_role("button", name="Begin").click()
        page.get_by_role("button", name=f"What would {name} say?").click()
        expect(page.locator(".hint")).to_contain_text("<img src=x onerror=alert(1)>")
        show(page, "#/talk?as=need")
        page.get_by_label("your name").fill("Ann")
        page.get_by_placeholder("What is on your mind?").fill("My dog died.")
        page.get_by_role("button", name="Begin").click()
        expect(page.locator(".say.agent p")).to_contain_text("<img src=x onerror=alert(1)>")
        assert page.locator("main img, main script").count() == 0


def test_nobody_of_stock_phrases_is_offered_to_a_person_in_need(visit, tmp_path):
    with start_studio([], tmp_path, agents=("listener",)) as server:
        page = visit(Client(server, tmp_path, tmp_path))
        show(page, "#/talk?as=need")
        expect(page.get_by_role("heading", name="Nobody here could support you")).to_be_visible()
        expect(page.locator("main")).to_contain_text("--agent openai:MODEL")
        assert page.get_by_role("button", name="Begin").count() == 0


def test_two_people_rate_blindly_and_read_how_far_they_agree(studio, visit):
    page = visit(studio)
    opened = []
    for rater, steps in (("Ann", ("+3", "−2")), ("Bo", ("+5", "−1"))):
        show(page, "#/rate")
        page.get_by_label("your name").fill(rater)
        page.get_by_role("button", name="Begin").click()
        opened.append(page.locator(".say.user p").first.inner_text())
        turn = 0
        while page.get_by_role("button", name="Next dialogue").count() == 0:
            body = page.locator("main").inner_text()
            assert not re.search(r"\b(echo|listener|oracle)\b", body)
            turn += 1
            scale = page.get_by_role("radiogroup", name=f"turn {turn}", exact=True)
            scale.get_by_role("radio", name=steps[turn % 2], exact=True).click()
            expect(scale.locator(".picked")).to_have_count(1)
            expect(page.locator(".fit, .buttons .main").nth(turn - 1)).to_be_attached()
        page.get_by_label("at the end").fill("30")
        page.get_by_role("button", name="Next dialogue").click()
        expect(page.locator(".progress")).to_contain_text("dialogue 2 of")
    assert opened[0] == opened[1]
    page.get_by_role("tab", name="Agreement").click()
    expect(page.locator(".number b").nth(1)).to_have_text(re.compile(r"^0\.\d\d$"))
    expect(page.locator("tbody tr")).to_contain_text(["Ann", "Bo"])
    assert not re.search(r"\b(echo|listener|oracle)\b", page.locator("main").inner_text())
    expect(page.get_by_text("for a rater who has rated every dialogue")).to_be_visible()


def test_replies_are_rated_by_the_keyboard_alone(studio, visit):
    page = visit(studio)
    show(page, f"#/rate?run={studio.run}&rater=Ann")
    first = page.get_by_role("radiogroup", name="turn 1", exact=True)
    first.get_by_role("radio", name="0", exact=True).focus()
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    second = page.get_by_role("radiogroup", name="turn 2", exact=True)
    expect(second.get_by_role("radio", name="0", exact=True)).to_be_focused()
    for key in ("ArrowLeft", "Enter"):
        page.keyboard.press(key)
    expect(second.locator(".picked")).to_have_text("−1")
    lines = [json.loads(one) for one in (studio.folder / "ratings.jsonl").read_text().splitlines()]
    assert [one["change"] for one in lines] == [2, -1]


def test_a_reason_leads_to_every_dialogue_in_which_it_occurs(studio, visit):
    page = visit(studio)
    show(page, f"#/dialogue?run={studio.run}&id=echo/gus-the-flatmate/0&turn=1")
    sentence = "gave their own words back"
    page.locator("#turn-1").get_by_role("link", name=sentence).click()
    found = studio.get("search", q="", reason=sentence)
    heading = page.get_by_role("heading", name=f"{len(found)} dialogues")
    expect(heading).to_be_in_viewport()
    expect(page.get_by_label("reason")).to_have_value(sentence)
    page.locator("table.list tbody tr").nth(1).click()
    expect(page.locator(".row.picked").get_by_role("link", name=sentence)).to_be_visible()
    page.go_back()
    page.locator("#search").fill("zyzzyva")
    page.get_by_role("button", name="Clear filters").click()
    expect(page.get_by_label("reason")).to_have_value("")
    expect(page.locator("#search")).to_have_value("zyzzyva")


def test_a_card_is_written_checked_and_talked_to(studio, visit):
    page = visit(studio)
    show(page, "#/people?write=1")
    page.get_by_role("button", name="Check all").click()
    expect(page.locator(".problems li").first).to_contain_text("line")
    page.get_by_label("begin from").select_option("elias-unfinished-thesis")
    expect(page.get_by_role("link", name="Talk to them")).to_be_visible()
    page.get_by_label("the card").fill("name: a: b")
    expect(page.locator(".problems li")).to_contain_text("line 1 a colon within a text")
    card = (ROOT / "examples/people/ruth-and-the-choir.yaml").read_text(encoding="utf-8")
    page.get_by_label("the card").fill(card)
    page.get_by_role("link", name="Talk to them").click()
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_role("heading", name="Ruth")).to_be_visible()


def test_the_keyboard_alone_leads_through_a_run(studio, visit):
    page = visit(studio)
    expect(page.locator("table.list")).to_be_visible()
    for key in ("j", "j", "Enter"):
        page.keyboard.press(key)
    expect(page.locator("#turn-1")).to_be_visible()
    for key in ("j", "j"):
        page.keyboard.press(key)
    expect(page.locator("#turn-2")).to_have_class(re.compile("picked"))
    at = page.url
    page.keyboard.press("n")
    expect(page.locator(".steps")).to_contain_text("3 of")
    assert page.url != at
    page.locator("#turn-3 summary").click()
    expect(page.locator("#turn-3 details")).to_have_attribute("open", "")
    page.keyboard.press("b")
    expect(page.get_by_placeholder("What would you say here?")).to_be_focused()
    page.keyboard.type("j?/")
    expect(page.get_by_placeholder("What would you say here?")).to_have_value("j?/")
    page.locator("body").click(position={"x": 2, "y": 400})
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="keys and words")).to_be_visible()
    page.keyboard.press("Escape")
    show(page, "#/runs")
    expect(page.locator("tr.at")).to_be_in_viewport()
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_a_phone(studio, visit, scheme):
    page = visit(studio, viewport={"width": 400, "height": 800}, color_scheme=scheme)
    dialogue = f"#/dialogue?run={studio.run}&id=listener/gus-the-flatmate/0"
    beside = f"{dialogue}&beside=echo/gus-the-flatmate/0"
    rating = f"#/rate?run={studio.run}&rater=Ann"
    for address in ("#/runs", dialogue, beside, "#/talk", "#/talk?as=need", rating, "#/people"):
        show(page, address)
        expect(page.locator("main > *").first).to_be_visible()
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, address


def test_hostile_text_in_every_field_runs_nothing(open_studio, visit, held, tmp_path):
    studio = open_studio(hostile_run(held, tmp_path / "hostile"))
    page = visit(studio)
    dialogue = f"#/dialogue?run={studio.run}&id=listener/gus-the-flatmate/0&turn=1"
    addresses = ["#/runs", dialogue, f"#/rate?run={studio.run}&rater=Ann"]
    addresses += [f"#/rate?run={studio.run}&view=agreement", f"#/{MARKUP}?id={MARKUP}"]
    for address in addresses:
        show(page, address)
        expect(page.locator("main > *").first).to_be_visible()
        page.wait_for_load_state("networkidle")
        assert page.locator("main img, main script").count() == 0
        assert "\u202e" not in page.locator("body").inner_text()
    show(page, dialogue)
    expect(page.locator("#turn-1")).to_contain_text("<img src=x onerror=alert(1)>")
    show(page, "#/runs")
    expect(page.locator(".board")).to_contain_text("<script>alert(2)</script>")


def test_a_training_is_seen_with_reference_and_dialogues(visit, tmp_path):
    folder = training_run(tmp_path / "training")
    with start_studio([folder], tmp_path) as server:
        page = visit(Client(server, folder, tmp_path))
        page.get_by_role("link", name="Train").click()
        expect(page.locator("svg.line polyline")).to_have_count(2)
        expect(page.locator(".legend")).to_contain_text("by the reference")
        page.get_by_label("log y").check()
        expect(page.locator("svg.line polyline")).to_have_count(2)
        expect(page.locator(".say.agent p")).to_have_text("At iteration 4.")
        page.get_by_label("iteration").press("ArrowLeft")
        expect(page.locator(".say.agent p")).to_have_text("At iteration 2.")
        with page.expect_download() as saved:
            page.get_by_role("button", name="PNG").click()
        assert Path(saved.value.path()).read_bytes()[:4] == b"\x89PNG"


def test_a_note_is_kept_where_it_was_taken(studio, visit):
    page = visit(studio)
    dialogue = f"#/dialogue?run={studio.run}&id=echo/gus-the-flatmate/0&turn=2"
    show(page, dialogue)
    page.get_by_label("note on turn 2").fill("It copies.")
    page.get_by_label("note on this dialogue").click()
    page.get_by_label("note on this dialogue").fill("Dull.")
    page.get_by_label("note on turn 2").click()
    page.reload()
    expect(page.get_by_label("note on turn 2")).to_have_value("It copies.")
    expect(page.get_by_label("note on this dialogue")).to_have_value("Dull.")
    assert {one["turn"] for one in studio.get("notes", run=studio.run)} == {0, 2}


def test_a_note_that_could_not_be_kept_stays_as_it_was_typed(studio, visit):
    page = visit(studio)
    show(page, f"#/dialogue?run={studio.run}&id=echo/gus-the-flatmate/0&turn=2")
    page.evaluate("() => { kept = fetch; fetch = () => Promise.reject(new Error('It is gone.')); }")
    page.get_by_label("note on turn 2").fill("It copies.")
    page.locator("#turn-3 article").click()
    expect(page.get_by_label("note on turn 2")).to_have_value("It copies.")
    page.evaluate("() => { fetch = kept; }")
    page.get_by_label("note on turn 2").click()
    page.get_by_label("note on turn 3").click()
    expect(page.get_by_label("note on turn 2")).to_have_value("It copies.")
    assert {one["turn"] for one in studio.get("notes", run=studio.run)} == {2}


def test_two_dialogues_are_compared_blindly_by_keys(studio, visit):
    page = visit(studio)
    show(page, f"#/rate?run={studio.run}&rater=Ann&view=pairs")
    for done, key in enumerate(("ArrowLeft", "ArrowRight", "="), 1):
        expect(page.locator(".progress")).to_contain_text(f"pair {done} of")
        assert not re.search(r"\b(echo|listener|oracle)\b", page.locator("main").inner_text())
        page.keyboard.press(key)
    page.get_by_role("tab", name="Agreement").click()
    expect(page.locator(".number b").first).to_have_text("3")


def test_why_a_reply_feels_so_is_kept_when_all_of_it_is_said(studio, visit):
    page = visit(studio)
    show(page, f"#/rate?run={studio.run}&rater=Ann")
    first = page.get_by_role("radiogroup", name="turn 1", exact=True)
    first.get_by_role("radio", name="+2").click()
    page.get_by_text("why, if you like").first.click()
    for group in page.locator("[role=radiogroup][aria-label^=why]").all()[:6]:
        group.get_by_role("radio").nth(1).click()
    page.get_by_label("the false words").fill("Tom")
    page.get_by_label("what went through your head").fill("So, so.")
    page.locator("h1").click()
    expect(page.locator(".problem")).to_have_count(0)
    page.reload()
    lines = [json.loads(one) for one in (studio.folder / "ratings.jsonl").read_text().splitlines()]
    assert set(lines[-1]["factors"].values()) == {1}
    assert (lines[-1]["thought"], lines[-1]["words"], lines[-1]["change"]) == ("So, so.", "Tom", 2)
