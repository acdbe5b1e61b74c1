"""A run folder that somebody damaged or edited: `verify` finds it, and does nothing else."""

import json
import shutil
import sys
from codecs import BOM_UTF8
from contextlib import suppress
from pathlib import Path

import pytest
from fuzzing import as_json, damaged_bytes, damaged_json, effort, json_values, paths
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rlver_gym import EnvCard, RlverError
from rlver_gym.bench.check import Finding
from rlver_gym.bench.folder import EPISODES, MANIFEST, compute_manifest_checksum
from rlver_gym.bench.plan import BenchPlan, Plan
from rlver_gym.bench.run import run
from rlver_gym.bench.verify import verify
from rlver_gym.library.personas import library
from rlver_gym.util.terminal import printable

UNCHECKED = {"created", "command", "python", "package", "packages", "check"}
"""What a manifest notes for people: when and with what it was made; reports name another version of
the package. The rest decides what a run is.
"""
LONGEST_MESSAGE = 4000
CANARY = "fuzz_canary"


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The folder of a run of two episodes, however the tests were started; damage copies of it."""
    folder = tmp_path_factory.mktemp("small")
    people = library().ids("demo")[-1:]
    plan = BenchPlan(agents=("comfort", "listener"), seeds=1, persona_ids=people)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["rlver-gym", "bench"])
        assert len(list(run(plan, folder))) == 2
    return folder


@pytest.fixture
def folder(small, tmp_path, monkeypatch):
    """A copy of the run, beside a module that nobody may import, where people start Python."""
    (tmp_path / f"{CANARY}.py").write_text("Name = dict\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(small, tmp_path / "run"))


def read_files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def found(folder):
    """Whether `verify` objects, which it may do only in words fit to show, without a trace."""
    before = read_files(folder.parent)
    try:
        first = next((one for one in verify(folder) if one is not None), None)
        assert first is None or isinstance(first, Finding)
        message = str(first or "")
    except RlverError as error:
        message = str(error)
        assert message == printable(message)
    assert len(message) < LONGEST_MESSAGE
    assert sys.modules.pop(CANARY, None) is None
    assert before == read_files(folder.parent)
    return bool(message)


@effort(few=25, many=2_000)
def test_any_other_byte_in_the_episodes_is_found(folder, small, examples):
    whole = (small / EPISODES).read_bytes()

    @given(damaged_bytes(whole))
    def holds(data):
        (folder / EPISODES).write_bytes(data)
        assert found(folder) == (data.removeprefix(BOM_UTF8) != whole)

    examples(holds)()


@effort(few=15, many=1_500)
def test_any_other_value_in_an_episode_is_found(folder, small, examples):
    lines = (small / EPISODES).read_text(encoding="utf-8").splitlines()

    edits = st.integers(0, len(lines) - 1).flatmap(
        lambda at: st.tuples(st.just(at), damaged_json(json.loads(lines[at])))
    )

    @given(edits)
    def holds(edit):
        at, value = edit
        line = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        data = "\n".join([*lines[:at], line, *lines[at + 1 :], ""]).encode("utf-8", "surrogatepass")
        (folder / EPISODES).write_bytes(data)
        assert found(folder) == (line != lines[at])

    examples(holds)()


@effort(few=15, many=500)
def test_any_other_set_or_number_of_episodes_is_found(folder, small, examples):
    lines = (small / EPISODES).read_bytes().splitlines(keepends=True)
    choice = [*lines, b"\n", b"{}\n", b"[]\n", b"null\n"]

    numbers = st.lists(st.integers(0, len(choice) - 1), max_size=6)

    @given(st.permutations(range(len(lines))) | numbers)
    def holds(chosen):
        (folder / EPISODES).write_bytes(b"".join(choice[at] for at in chosen))
        is_whole = sorted(chosen) == list(range(len(lines)))  # their order means nothing
        assert found(folder) or is_whole

    examples(holds)()


def checked(manifest):
    if not isinstance(manifest, dict):
        return None
    values = {name: value for name, value in manifest.items() if name not in UNCHECKED}
    # a field left out means its default; nobody counts twice, and in whatever order
    with suppress(ValidationError):
        plan = Plan.model_validate(values.get("plan")).to_dict()
        values["plan"] = plan | {
            name: sorted(set(plan[name])) for name in ("agents", "persona_ids")
        }
    with suppress(ValidationError):
        values["env_card"] = EnvCard.model_validate(values.get("env_card")).model_dump(mode="json")
    return values


@st.composite
def damaged_manifests(draw, whole):
    """A manifest with other bytes, or other values, names of code and of files among them."""
    kind = draw(st.sampled_from(["names", "bytes", "values"]))
    if kind == "bytes":
        return draw(damaged_bytes(json.dumps(whole, indent=2).encode()))
    if kind == "values":
        return sign(draw(damaged_json(whole)))
    forms = ("{}:Name", "{}", "openai:{}", "embedded:{}.json", "./{}.py", "{}.py", "../run", ".")
    names = [form.format(CANARY) for form in forms]
    everywhere = st.sampled_from([path for path in paths(whole) if path])
    likely = st.sampled_from([("plan", "user"), ("plan", "env"), ("persona_folder",)])
    *above, last = draw(likely | everywhere)
    parent = (manifest := json.loads(json.dumps(whole)))
    for key in above:
        parent = parent[key]
    parent[last] = draw(st.sampled_from(names))
    if draw(st.booleans()):
        manifest["response_cache"] = draw(st.sampled_from([*names, "/dev/null"]))
    if isinstance(manifest["plan"], dict) and draw(st.booleans()):
        options = st.sampled_from(["model", "args", "response_cache", "base_url"])
        manifest["plan"]["user_options"] = draw(st.dictionaries(options, json_values()))
    return sign(manifest)


def sign(manifest):
    """With a checksum that fits, where it can have one."""
    if isinstance(manifest, dict):
        with suppress(ValueError, TypeError):
            manifest = {**manifest, "check": compute_manifest_checksum(manifest)}
    return as_json(manifest)


@effort(few=60, many=5_000)
def test_any_other_manifest_is_found_or_means_the_same(folder, small, examples):
    whole = json.loads((small / MANIFEST).read_bytes())

    @given(damaged_manifests(whole))
    def holds(data):
        (folder / MANIFEST).write_bytes(data)
        if not found(folder):
            there = checked(json.loads(data))
            assert there is not None
            assert {name: there[name] for name in checked(whole)} == checked(whole)

    examples(holds)()
