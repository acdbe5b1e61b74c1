"""Without a framework, the module for it says how to get it."""

import json
import subprocess
import sys
from configparser import ConfigParser

import pytest
from paths import ROOT

from rlver_gym import RlverError
from rlver_gym.util.errors import MissingExtra, needs_extra, pip_install

INTEGRATIONS = "rlver_gym.integrations."
NAMES = "inspect_ai openenv trl trl_tool trl_trainer verifiers verl".split()
EXTRAS = {f"{INTEGRATIONS}{name}": name.replace("_", "-") for name in NAMES}
EXTRAS |= dict.fromkeys((f"{INTEGRATIONS}trl_tool", f"{INTEGRATIONS}trl_trainer"), "trl")
NEEDS_NOTHING = {f"{INTEGRATIONS}episodes"}
"""Modules that can be imported with the base install."""
HIDDEN = (
    "accelerate datasets fastapi inspect_ai openenv torch transformers trl verifiers verl".split()
)
IMPORT_ALL = """
import json, sys
from importlib import import_module
names, hidden = json.loads(sys.argv[1])

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hide())
found = {}
for name in names:
    try:
        import_module(name)
        found[name] = ""
    except ImportError as error:
        found[name] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def refusals():
    """What the import of each module raises where no framework is installed."""
    names = [*EXTRAS, *NEEDS_NOTHING]
    code = [sys.executable, "-c", IMPORT_ALL, json.dumps([names, HIDDEN])]
    return json.loads(subprocess.run(code, capture_output=True, check=True, cwd=ROOT).stdout)


def test_every_module_is_tried():
    files = {path.stem for path in (ROOT / "rlver_gym" / "integrations").glob("[!_]*.py")}
    assert {INTEGRATIONS + name for name in files} == {*EXTRAS, *NEEDS_NOTHING}


@pytest.mark.parametrize(("name", "extra"), EXTRAS.items())
def test_a_module_names_the_extra_that_installs_its_framework(name, extra, refusals):
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    assert extra in setup["options.extras_require"]
    assert refusals[name].startswith("MissingExtra: No module named '")
    assert refusals[name].endswith(f". Install it with: {pip_install(extra)}")
    assert f"pip install '.[{extra}]'" in refusals[name], "as it is installed in a clone"


@pytest.mark.parametrize("name", sorted(NEEDS_NOTHING))
def test_a_module_without_a_framework_is_imported(name, refusals):
    assert refusals[name] == ""


def test_a_missing_package_can_be_caught_as_python_and_as_rlver_gym_say():
    with (
        pytest.raises(MissingExtra, match=r"No module named 'no_such_thing'\. Install") as error,
        needs_extra("trl"),
    ):
        import no_such_thing  # noqa: F401
    assert isinstance(error.value, ModuleNotFoundError)
    assert isinstance(error.value, RlverError)
    assert error.value.name == "no_such_thing"


def test_a_version_that_does_not_fit_is_told_too():
    with pytest.raises(MissingExtra, match="cannot import name 'never'"), needs_extra("trl"):
        from json import never  # noqa: F401


def test_a_module_of_our_own_that_is_missing_is_no_missing_extra():
    with pytest.raises(ModuleNotFoundError) as error, needs_extra("trl"):
        import rlver_gym.never  # noqa: F401
    assert not isinstance(error.value, MissingExtra)
