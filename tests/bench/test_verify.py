"""Recomputing a run: whatever was changed after it was recorded is found."""

import json

import pytest

from rlver_gym.bench.manifest import Manifest
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import EPISODES, run
from rlver_gym.bench.verify import verify
from rlver_gym.library.personas import library
from rlver_gym.util.errors import RunError


@pytest.fixture(scope="module")
def plan():
    """Three agents, two people, two seeds: it is recomputed in nearly every test."""
    people = library().ids("demo")[:2]
    return BenchPlan(agents=("comfort", "listener", "oracle"), seeds=2, persona_ids=people)


@pytest.fixture(scope="module")
def finished(plan, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    assert len(list(run(plan, folder))) == 12
    return folder


def first_divergence(folder):
    return next((result for result in verify(folder) if result), None)


@pytest.mark.parametrize(
    ("place", "more"),
    [('"agent":"', "9" * 5000), ('"turns":[{', f'"{"9" * 5000}":1,')],
    ids=["agent", "field"],
)
def test_a_name_without_end_is_cut_in_the_message(copy, place, more):
    path = copy / "episodes.jsonl"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(place, place + more, 1), encoding="utf-8")
    found = str(next(one for one in verify(copy) if one is not None))
    assert "99999" in found
    assert len(found) < 1_500


def count_divergent(folder, lines):
    """Episodes that are not as recorded, and all, in a run with these lines."""
    (folder / EPISODES).write_text("\n".join([*lines, ""]), encoding="utf-8")
    found = list(verify(folder))
    divergent = sum(one.num_episodes for one in found if one)
    return divergent, found.count(None) + divergent


def test_every_episode_that_is_not_as_recorded_is_counted_once(copy):
    lines = (copy / EPISODES).read_text(encoding="utf-8").splitlines()
    edited = lines[1].replace('"reward":', '"reward":9', 1)
    renamed = lines[2].replace('"seed":1', '"seed":7')
    assert renamed != lines[2]
    assert count_divergent(copy, [lines[0], edited, *lines[2:]]) == (1, 12)
    assert count_divergent(copy, [edited, "{", renamed, *lines[3:]]) == (3, 12)
    assert count_divergent(copy, lines[4:]) == (4, 12)
    assert count_divergent(copy, ["{", *lines[4:]]) == (4, 12)
    assert count_divergent(copy, [*lines[2:], lines[5]]) == (2, 12)
    assert count_divergent(copy, [*lines, lines[5], "{"]) == (2, 14)


@pytest.mark.parametrize(
    ("number", "told"), [(2, "2"), ("2", "'2'"), (None, "not named"), ("9" * 5000, "'999")]
)
def test_a_manifest_of_another_format_is_refused_with_the_version_that_reads_it(copy, number, told):
    path = copy / "manifest.json"
    there = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(there | {"format": number, "package": "7.8.9"}), encoding="utf-8")
    with pytest.raises(RunError, match=f"its format is {told}") as error:
        Manifest.read(copy)
    assert "reads format 1" in str(error.value)
    assert "that the manifest names: '7.8.9'" in str(error.value)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('{"agent":', '{"agent":"oracle","agent":', "stands twice"),
        ('"reward":', '"reward":9.5,"reward":', "stands twice"),
        ('"seed":0', '"seed": 0', "written anew"),
        ('"emotion":', '"emotion":"1","was":', "emotion of turn 1: must be a whole number"),
        ('"opening":', '"was":', "opening"),
        ('"check":', '"was":', "'was' does not belong there"),
    ],
)
def test_a_record_written_otherwise_is_found(copy, old, new, says):
    path = copy / EPISODES
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    found = first_divergence(copy)
    assert found
    assert says in found.what


def test_a_line_nested_beyond_all_use_is_found(copy, plan):
    path = copy / EPISODES
    lines = path.read_text(encoding="utf-8").split("\n")
    lines[1] = "[" * 100_000
    path.write_text("\n".join(lines), encoding="utf-8")
    found = first_divergence(copy)
    assert found
    assert (found.line, "nested too deeply" in found.what) == (2, True)
    with pytest.raises(RunError, match="line 2"):
        list(run(plan, copy))
