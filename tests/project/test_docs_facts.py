"""What pages say of options, values, defaults, exit codes, presets and extras is true."""

import configparser
import re
from collections import defaultdict
from typing import Literal, get_args, get_origin

import pytest
from command_uses import COMMANDS
from paths import ROOT

from rlver_gym import cli
from rlver_gym.policy.config import list_presets

PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "research/real_qwen/README.md")),
]
IDS = [str(page.relative_to(ROOT)) for page in PAGES]
OTHERS = {
    "--version", "--help", "--help-all",  # of the root, and of all
    "--no-deps", "--enable-lora", "--max-lora-rank", "--logprobs-mode", "--generation-config",
    "--install-completion", "--logdir", "--model_args", "--nproc-per-node", "--nnodes",
    "--rdzv-backend", "--rdzv-endpoint", "--extra",
    "--no-extract", "--curve", "--test",  # of research/fit_reader.py
    "--share",  # of research/real_qwen/folds.py
}  # fmt: skip
"""Options of pip, vLLM, torchrun and others, which pages name beside ours."""
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*(?:\.[\w.-]+)?")


def list_options():
    for command in COMMANDS.values():
        for parameter in command.params:
            for option in (*parameter.opts, *parameter.secondary_opts):
                yield option, parameter


PARAMETERS = defaultdict(list)
for _name, _parameter in list_options():
    PARAMETERS[_name].append(_parameter)


def list_choices(parameter):
    """What an option takes, where that is one of several words."""
    annotation = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    told = re.search(r"One of: ([^.]+)\.", parameter.help or "")
    if told:
        return set(told[1].split(", "))
    kinds = [one for one in (annotation, *get_args(annotation)) if get_origin(one) is Literal]
    return {str(choice) for kind in kinds for choice in get_args(kind)}


def find_default(parameter):
    told = re.search(r"\[default: ([^\]]+)\]", parameter.help or "")
    return told[1] if told else str(parameter.default)


def spans(page):
    """Spans of code in the prose."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    return re.findall(r"`([^`\n]+)`", text)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_option_on_a_page_is_one_of_a_command(page):
    named = {
        option
        for span in spans(page)
        if not span.startswith(("python ", "pip ", "vllm ", "torchrun ", "pytest ", "make ", "uv "))
        for option in OPTION.findall(span)
    }
    unknown = {one for one in named if one not in PARAMETERS and one not in OTHERS}
    assert {one for one in unknown if not one.startswith("--env.")} == set()


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_values_of_options_on_a_page_are_choices_of_theirs(page):
    for span in spans(page):
        for option, value in re.findall(r"(--[a-z][\w-]*)[ =]([a-z][\w.|\\-]*)", span):
            choices = list(map(list_choices, PARAMETERS[option]))
            if choices and all(choices):
                told = set(value.replace("\\", "").split("|"))
                assert any(told <= known for known in choices), span


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_numbers_in_brackets_behind_an_option_are_its_default(page):
    """As in `--max-wait` (600 s)."""
    text = page.read_text(encoding="utf-8")
    for option, number in re.findall(r"`(--[a-z][\w-]*)` \((\d[\d.,]*)(?: s| seconds)?\)", text):
        defaults = {find_default(parameter) for parameter in PARAMETERS[option]}
        plain = number.replace(",", "")
        assert defaults & {plain, f"{plain}.0"}, (option, number, defaults)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_exit_codes_on_a_page_are_those_of_the_program(page):
    told = re.findall(r"exit code (\d+)", page.read_text(encoding="utf-8"), re.IGNORECASE)
    known = set(re.findall(r"\b(\d+) \w", str(cli.__doc__))) | {"143"}
    assert set(told) <= known
    if page.name == "cli.md":
        table = page.read_text(encoding="utf-8").partition("## Exit codes")[2]
        assert set(re.findall(r"^\| (\d+) \|", table, re.MULTILINE)) == known


def test_the_help_of_train_and_its_page_name_every_preset():
    (parameter,) = [one for one in COMMANDS["train"].params if "--config" in one.opts]
    page = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    for preset in list_presets():
        assert preset in parameter.help
        assert f"`{preset}`" in page


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_presets_and_extras_on_a_page_are_there(page):
    text = page.read_text(encoding="utf-8")
    presets = set(re.findall(r"--config ([\w.-]+)", text))
    assert {one for one in presets if not one.endswith(".yaml")} <= set(list_presets())
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    extras = setup["options.extras_require"].keys()
    for named in re.findall(r"(?:rlver-gym|'\.|\"\.)\[([\w, -]+)\]", text):
        assert {one.strip() for one in named.split(",")} <= set(extras)


def test_every_command_that_names_who_is_talked_to_names_the_reader():
    helps = [one.help or "" for one in PARAMETERS["--user"]]
    assert len(helps) > 4
    assert [text for text in helps if "embedded" in text and "reader" not in text] == []
