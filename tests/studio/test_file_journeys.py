"""Journeys through the file that `rlver-gym report` writes, and what axe finds on any page."""

import pytest
from chromium import BROWSER_TEST, MARKUP, expect, hostile_run, show, training_run
from paths import ROOT
from studios import Client, start_studio

from rlver_gym.studio.page import write_page

pytestmark = BROWSER_TEST
AXE = ROOT / "studio/node_modules/axe-core/axe.min.js"
DIALOGUE = "id=listener/gus-the-flatmate/0&turn=1"


def test_a_run_is_read_filtered_searched_and_compared_in_one_file(studio, visit, tmp_path):
    key = "echo/gus-the-flatmate/0"
    studio.post("note", run=studio.run, dialogue=key, turn=1, text="It copies.")
    studio.post("branch", run=studio.run, dialogue=key, turn=2, words="What hurt you most?")
    page = visit(write_page([studio.folder, training_run(tmp_path / "training")]))
    assert page.get_by_role("navigation").inner_text().split() == ["Runs", "Train"]
    expect(page.get_by_role("heading", name="dialogues of listener")).to_be_visible()
    page.get_by_role("button", name="echo").first.click()
    expect(page.locator("table.list tbody tr")).to_have_count(8)
    show(page, "#/runs?q=reason:copies")
    count = len(studio.get("search", q="reason:copies"))
    expect(page.get_by_role("heading", name=f"{count} dialogues")).to_be_visible()
    show(page, f"#/dialogue?run={studio.run}&id={key}&turn=1&beside=listener/gus-the-flatmate/0")
    expect(page.locator(".column")).to_have_count(2)
    expect(page.locator("p.note-text")).to_have_text("It copies.")
    assert page.locator("textarea, .composer").count() == 0
    page.locator(".branches button").click()
    expect(page.locator("#turn-2 .second")).to_contain_text("What hurt you most?")
    show(page, "#/runs")
    page.get_by_text("What the agents do").click()
    expect(page.get_by_text("stickiness [95 %]")).to_be_visible()
    page.get_by_text("How the emotion moved").click()
    page.locator(".faint").first.dispatch_event("click")
    expect(page.locator("#turn-1")).to_be_visible()
    page.get_by_role("link", name="Train").click()
    expect(page.locator(".say.agent p")).to_have_text("At iteration 4.")
    show(page, "#/talk")
    expect(page.get_by_role("heading", name="Who leaves people better")).to_be_visible()


def test_hostile_text_in_every_field_of_a_file_runs_nothing(visit, held, tmp_path):
    run = hostile_run(held, tmp_path / "<img src=x onerror=alert(1)>")
    training = training_run(tmp_path / "<script>alert(3)<", MARKUP.replace("{", "{{") + "{}")
    page = visit(write_page([run, training], tmp_path / "page.html"))
    for address in ("#/runs", f"#/dialogue?run={run.name}&{DIALOGUE}", "#/train"):
        show(page, address)
        expect(page.locator("main > *").first).to_be_visible()
        page.locator("summary").evaluate_all(
            "all => all.forEach(one => one.parentElement.open = true)"
        )
        page.wait_for_load_state("networkidle")
        assert page.locator("main img, main script").count() == 0
        assert "\u202e" not in page.locator("body").inner_text()
        expect(page.locator("main")).to_contain_text("<img src=x onerror=alert(1)>")


@pytest.mark.skipif(not AXE.exists(), reason="needs axe: make studio")
@pytest.mark.parametrize("width", [1200, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault_on_any_page(held, visit, tmp_path, scheme, width):
    training = training_run(tmp_path / "training")
    run, rate = f"run={held.name}", f"#/rate?run={held.name}&rater=Ann"
    addresses = ["#/runs", f"#/dialogue?{run}&{DIALOGUE}&beside=echo/gus-the-flatmate/0"]
    addresses += ["#/talk", "#/talk?as=need", "#/rate", rate, f"{rate}&view=pairs", "#/train"]
    addresses += ["#/people", "#/people?write=1"]
    found = []
    with start_studio([held, training], tmp_path) as server:
        page = visit(
            Client(server, held, tmp_path),
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
        )
        for address in addresses:
            show(page, address)
            expect(page.locator("main > *").first).to_be_visible()
            expect(page.locator(".waiting")).to_have_count(0)
            page.evaluate(AXE.read_text(encoding="utf-8"))
            faults = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
            found += [
                (address, one["id"], one["nodes"][0]["html"])
                for one in faults
                if one["impact"] in ("serious", "critical")
            ]
    assert found == []
