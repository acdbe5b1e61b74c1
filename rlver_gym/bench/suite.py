"""A suite: who is tested, with whom, who else reads, and what must hold, in one file. It may come
from anybody: what it names is looked at before anything is asked, and starts no code by itself.
"""

from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from rlver_gym.agents import HUMAN, check_agent_name, is_shipped_agent
from rlver_gym.agents.own import is_own_agent, own_agent_maker
from rlver_gym.bench.check import INCOMPLETE, read_run
from rlver_gym.bench.compare import make_protocol
from rlver_gym.bench.costs import estimate_reading, estimate_requests_and_tokens
from rlver_gym.bench.manifest import Manifest
from rlver_gym.bench.plan import MAX_AGENTS, BenchPlan, Name, Plan
from rlver_gym.core.capabilities import DIMENSIONS, HIGHEST, LOWEST
from rlver_gym.core.cards import env_card
from rlver_gym.core.emotion import MAX_EMOTION, MIN_EMOTION
from rlver_gym.library.personas import library
from rlver_gym.llm_client.settings import ADDRESS, Budget, ChatSettings, Prices, locate_server
from rlver_gym.people.pairing import draw_panel
from rlver_gym.users import check_user_name, is_shipped_user
from rlver_gym.util.errors import CardError, RlverError, UnknownName
from rlver_gym.util.field_errors import parse_card
from rlver_gym.util.frozen import Frozen
from rlver_gym.util.model_names import uses_server
from rlver_gym.util.secret_words import find_secret
from rlver_gym.util.yaml_file import find_line, read_yaml

EMOTIONS, COUNTS = ("mean", "lower", "difference"), ("failed", "flagged")
_RANGES = {
    **dict.fromkeys(EMOTIONS, (MIN_EMOTION, MAX_EMOTION)),
    "difference": (-MAX_EMOTION, MAX_EMOTION),
    **dict.fromkeys(DIMENSIONS, (LOWEST, HIGHEST)),
    **dict.fromkeys(COUNTS, (0, inf)),
}
_HINT = "rlver-gym bench --init FILE writes one of what was just run."
_Problem = tuple[tuple[str | int, ...], str]
"""The place in the file, and what is wrong there with its remedy."""


class Threshold(Frozen):
    """What must hold of an agent."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    measure: str
    """Of the final emotion: mean (silence gets more than 0: the shipped agent silent shows what),
    lower (the low end of its 95 % interval), difference (over the same people); a mark of the
    judge, 1 to 5: empathic_depth, core_insight, solution_crafting, style_adaptability,
    dialogue_guidance; a count: failed (dialogues), flagged (reasons for suspicion).
    """
    agent: Name | None = None
    """Of whom; default: of each."""
    at_least: float | None = None
    """The bound of all but counts."""
    at_most: float | None = None
    """The bound of a count."""
    by_reference: bool = False
    """Whether the emotion is what the reference read."""
    to: Name | None = None
    """Of a difference: to whom; default: to the agent of the same name in the baseline."""

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if self.measure not in _RANGES:
            known = ", ".join(_RANGES)
            raise ValueError(str(UnknownName.of("measure", self.measure, _RANGES, known)))
        side, other = ("at_most", "at_least")[:: 1 if self.measure in COUNTS else -1]
        if getattr(self, side) is None or getattr(self, other) is not None:
            raise ValueError(f"{self.measure} takes {side}: NUMBER, and no {other}")
        low, high = _RANGES[self.measure]
        if not low <= self.bound <= high:
            end = f"above {high}" if self.bound > high else f"below {low}"
            raise ValueError(f"{side}: {self.bound:g} is {end}")
        if self.by_reference and self.measure not in EMOTIONS:
            raise ValueError(f"by_reference is for {', '.join(EMOTIONS)}")
        if self.to and self.measure != "difference":
            raise ValueError("to is for difference")
        return self

    @property
    def bound(self) -> float:
        return next(bound for bound in (self.at_least, self.at_most) if bound is not None)


def _check(check: Callable[[Any], object]) -> AfterValidator:
    """A check that raises an RlverError, as one of a field."""

    def validate(value: Any) -> Any:
        try:
            check(value)
        except RlverError as error:
            raise ValueError(str(error)) from None
        return value

    return AfterValidator(validate)


def _refuse_twice(agents: tuple[str, ...]) -> tuple[str, ...]:
    if twice := next((agent for agent in agents if agents.count(agent) > 1), None):
        raise ValueError(f"{twice} is named twice. For more dialogues of each, raise seeds")
    return agents


def _refuse_no_server(name: str) -> None:
    if not uses_server(name):
        raise CardError(f"{name} is no model behind a server. Name it as openai:MODEL")


_Agent = Annotated[Name, _check(check_agent_name), _check(locate_server)]
_User = Annotated[Name, _check(check_user_name), _check(locate_server)]


class Suite(Plan):
    """What a file or the options of a command say: a benchmark, and what is made of it."""

    agents: Annotated[tuple[_Agent, ...], AfterValidator(_refuse_twice)] = Field(
        min_length=1, max_length=MAX_AGENTS
    )
    """Who is tested: shipped agents, openai:MODEL, openai:MODEL@URL, hf:PATH, and of your own
    MODULE:NAME (a class, or a function of messages). What starts code, loads a file or names an
    address counts only with --allow-code.
    """
    env: Annotated[Name, _check(env_card)] = Plan.model_fields["env"].default
    """Environment id, or the path of an env card (.yaml)."""
    user: _User = Plan.model_fields["user"].default
    """Who is talked to: embedded, reader, openai:MODEL, or MODULE:NAME."""
    personas: Annotated[Name, _check(library)] | None = None
    """A folder of cards, a lean card's file, profiles, or "library"; default: the shipped ones."""
    panel: int | None = Field(default=None, ge=1)
    """Only so many of the split, balanced."""
    reference: Annotated[
        tuple[_User, ...],
        BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
    ] = ()
    """Who reads each dialogue once more, whole, such as openai:MODEL: one or several, of whom the
    first ranks the agents.
    """
    judge: Annotated[Name, _check(_refuse_no_server), _check(locate_server)] | None = None
    """Who gives marks for the five capabilities, once a dialogue: openai:MODEL."""
    budget: Budget = Budget()
    """At most so many calls or tokens of a server, or so much money: {calls: 500}."""
    prices: Prices | None = None
    """Of a million tokens: {prompt: 2.5, completion: 10}."""
    baseline: Name | None = None
    """The folder of an earlier run of the same people by the same user, for differences."""
    thresholds: Annotated[tuple[Threshold, ...], Field(max_length=1_000)] = ()
    """What must hold."""

    @property
    def readers(self) -> tuple[str, ...]:
        return tuple(user for user in (*self.reference, self.judge) if user and uses_server(user))

    @property
    def reads_baseline(self) -> bool:
        bound = self.thresholds if self.baseline else ()
        return any(
            threshold.by_reference and threshold.measure == "difference" for threshold in bound
        )

    def select_people(self) -> tuple[str, ...]:
        """Those of a panel, or who are named; empty for a whole split. RlverError for nobody."""
        shelf = library(self.personas)
        if self.panel and not self.persona_ids:
            return draw_panel(shelf, self.split or env_card(self.env).split, self.panel)
        return tuple(shelf.get(persona).id for persona in self.persona_ids)

    def make_plan(self, chat: ChatSettings, path: Path | None = None) -> BenchPlan:
        """The benchmark of it; `chat` says how servers are reached, and its budget goes before the
        suite's. `path`: of the file. CardError names what does not go together.
        """
        plain = {name: getattr(self, name) for name in (*Plan.model_fields, "personas")}
        plain["persona_ids"] = self.select_people()
        budget = chat.budget if chat.budget != Budget() else self.budget
        limits = {"budget": budget, "prices": chat.prices or self.prices}
        plain |= {"chat": {**dict(chat), **limits}}
        if path:
            plain["suite"] = self.model_dump(mode="json", exclude_defaults=True)
        lines = partial(find_line, path) if path else None
        return parse_card(BenchPlan, plain, str(path or "rlver-gym bench"), lines)


def read_suite(path: Path, *, allow_code: bool) -> Suite:
    """The suite in a file. CardError names all that is wrong, each with its line and its remedy.

    `allow_code`: whether what would start code or load a file (MODULE:NAME, hf:PATH), or send words
    to an address that stands there, counts.
    """
    plain = read_yaml(path, hint=_HINT)
    if not isinstance(plain, dict):
        raise CardError(f"{path}: must hold fields: agents, and more. {_HINT}")
    if place := find_secret(plain):  # before any error could quote it
        secret = "holds a key or a password. Take it out: keys are read from OPENAI_API_KEY alone"
        _refuse(path, [(tuple(place.split(".")), secret)])
    suite = parse_card(Suite, plain, str(path), partial(find_line, path))
    _refuse(path, [*_check_names(suite, allow_code), *_check_thresholds(suite)])
    return suite


def _refuse(path: Path, problems: list[_Problem]) -> None:
    told = []
    for place, text in problems:
        line, field = find_line(path, place), ".".join(map(str, place))
        told.append(f"{path}: {f'line {line}: ' if line else ''}{field[:200]}: {text}")
    if told:
        raise CardError("\n".join(told))


def list_unsafe_names(suite: Suite) -> list[tuple[tuple[str | int, ...], str]]:
    """Those who would start code, load a file or reach an address, with their places."""
    named = [(("agents", at), name) for at, name in enumerate(suite.agents)]
    named += [(("user",), suite.user), *((("reference",), name) for name in suite.reference)]
    named += [(("judge",), suite.judge)] if suite.judge else []
    free = (is_shipped_agent, is_shipped_user, HUMAN.__eq__)
    return [
        (place, name)
        for place, name in named
        if ADDRESS in name or not any(is_free(name) for is_free in free)
    ]


def _check_names(suite: Suite, allow_code: bool) -> Iterator[_Problem]:
    if HUMAN in suite.agents:
        place = ("agents", suite.agents.index(HUMAN))
        yield place, "a suite runs without people. Take it out, or use rlver-gym talk"
    unsafe = list_unsafe_names(suite)
    if unsafe and not allow_code:
        more = f" and {len(unsafe) - 3} more" if len(unsafe) > 3 else ""
        names = ", ".join(name for _, name in unsafe[:3]) + more
        told = f"{names} would start code, load a file or reach an address, and a suite may come"
        yield unsafe[0][0], f"{told} from anybody. Read it, then add --allow-code"
    for place, name in unsafe if allow_code else ():
        if place[0] == "agents" and is_own_agent(name):
            try:
                own_agent_maker(name)
            except RlverError as error:
                yield place, str(error)
    try:
        suite.select_people()
    except RlverError as error:
        yield ("persona_ids" if suite.persona_ids else "panel",), str(error)
    for name in suite.user_options:
        if name in ChatSettings.model_fields or not (allow_code or uses_server(suite.user)):
            told = "is no option here. Say it on the command line, or user: openai:MODEL@URL"
            yield ("user_options", name), told


def _check_thresholds(suite: Suite) -> Iterator[_Problem]:
    for number, threshold in enumerate(suite.thresholds):
        place = ("thresholds", number)
        if threshold.agent is not None and threshold.agent not in suite.agents:
            told = f"{threshold.agent} is not run. Name one of: {', '.join(suite.agents)}"
            yield (*place, "agent"), told
        if threshold.by_reference and not suite.reference:
            yield (*place, "by_reference"), "there is no reference. Add reference: openai:MODEL"
        if threshold.measure in DIMENSIONS and not suite.judge:
            yield (*place, "measure"), "marks need a judge. Add judge: openai:MODEL"
        others = [name for name in suite.agents if name != threshold.agent]
        others = others if len(suite.agents) > 1 else []
        if threshold.measure == "difference" and not suite.baseline and threshold.to not in others:
            is_itself = threshold.to in suite.agents
            why = f"{threshold.to} is {'compared with itself' if is_itself else 'not run'}"
            why = why if threshold.to else "a difference needs somebody to compare with"
            known = f"Name one of {', '.join(others)}" if others else "Add another agent"
            yield (*place, "to"), f"{why}. {known} (to: NAME), or a run's folder as the baseline"


def check_against_runs(suite: Suite, plan: BenchPlan, path: Path, folder: Path) -> None:
    """CardError for a baseline that cannot be compared, or a budget too small for a new run."""
    problems = [*_check_baseline(suite, plan, Path(suite.baseline))] if suite.baseline else []
    if suite.baseline and Path(suite.baseline).resolve() == folder.resolve():
        problems.append((("baseline",), "is this run itself. Hold the new one elsewhere (--out)"))
    budget = {} if folder.exists() else plan.chat.budget.model_dump(exclude_none=True)
    least = _estimate_least_spending(suite, plan) if budget else {}
    for name, there in budget.items():
        if there < least[name]:
            told = f"{there:,g} is not enough: this takes {least[name]:,.6g} at least. Raise it, or"
            problems.append((("budget", name), f"{told} run fewer seeds or people"))
    _refuse(path, problems)


def _estimate_least_spending(suite: Suite, plan: BenchPlan) -> dict[str, float]:
    """What the usual server is asked for at least, by the names of a budget's limits."""
    usual = [name for name in suite.readers if ADDRESS not in name]
    cases = [case for case in plan.cases() if ADDRESS not in case.agent]
    held = estimate_requests_and_tokens(plan, cases, turns=1)
    read = estimate_reading(len(usual) * plan.planned.count, 0, plan.chat)
    tokens = held.prompt_tokens + held.completion_tokens + read.prompt_tokens
    money = ((held.money or 0) + (read.money or 0)) / 2
    return {"calls": held.calls + read.calls, "tokens": tokens / 2, "money": money}


def _check_baseline(suite: Suite, plan: BenchPlan, folder: Path) -> Iterator[_Problem]:
    try:
        there, problems = Manifest.read(folder), read_run(folder).problems.by_kind
    except RlverError as error:
        yield ("baseline",), str(error)
        return
    ours, theirs = make_protocol(Manifest.parse(plan.manifest())), make_protocol(there)
    hold = "Hold one of the same people, user and seeds in a new folder (--out), and name that"
    if ours != theirs:
        yield ("baseline",), f"cannot be compared: it was {theirs}, and this is {ours}. {hold}"
    if faults := ", ".join(sorted(problems.keys() & INCOMPLETE)):
        yield ("baseline",), f"is not whole ({faults}). {hold}"
    agents = there.planned.agents
    for number, threshold in enumerate(suite.thresholds):
        compared = (
            (threshold.to or threshold.agent,) if threshold.to or threshold.agent else suite.agents
        )
        if threshold.measure == "difference" and (lacking := [*{*compared} - {*agents}]):
            told = f"the baseline has no {lacking[0]}. Name one of: {', '.join(agents)}"
            yield ("thresholds", number), told
