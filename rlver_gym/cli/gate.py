"""What `rlver-gym bench` does with a run that is held: has it read again, and decides whether what
a suite asks for holds.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rlver_gym.agents import uses_server
from rlver_gym.bench.check import RunRecords, read_run
from rlver_gym.bench.compare import read_comparisons
from rlver_gym.bench.costs import estimate_reading
from rlver_gym.bench.gate import Evidence, Gate, decide, reread
from rlver_gym.bench.judge.ask import Judge
from rlver_gym.bench.judge.summary import write_judgements
from rlver_gym.bench.manifest import Manifest
from rlver_gym.bench.opinions import Opinions, gather_opinions, write_opinions
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.rescore import Rescored
from rlver_gym.bench.score import Score, score_agents
from rlver_gym.bench.sections import collect_judge_scores
from rlver_gym.bench.suite import Suite
from rlver_gym.bench.table import Columns
from rlver_gym.cli.judge import JUDGE_CACHE, ask_judge
from rlver_gym.cli.report import recorded_dialogues
from rlver_gym.cli.rescore import appraise_by, make_appraisers
from rlver_gym.core.user import SentientUser
from rlver_gym.llm_client.connect import connect
from rlver_gym.llm_client.settings import ChatSettings, locate_server
from rlver_gym.users import is_own_user
from rlver_gym.users.llm.options import LLMOptions
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.errors import RunError
from rlver_gym.util.files import path_inside
from rlver_gym.util.interval import format_estimate
from rlver_gym.util.terminal import SafeConsole, format_count

GATE_FAILED = 5
"""The exit code when a threshold fails."""
_STYLES = {"pass": "green", "fail": "bold red", "undecided": "yellow"}


class Readers(NamedTuple):
    """Who reads the dialogues of a run again."""

    plan: BenchPlan
    folder: Path
    """Of the run; what they answer is kept there."""
    users: Mapping[str, SentientUser]
    judge: str | None
    baseline: Path | None
    """A run that the users read too."""

    @property
    def servers(self) -> dict[str, ChatSettings]:
        names = filter(uses_server, [*self.users, *filter(None, [self.judge])])
        return {name: locate_server(name, self.plan.chat) for name in names}

    def estimate(self) -> Iterator[str]:
        """What those behind a server will be asked for."""
        more = Manifest.read(self.baseline).planned.count if self.baseline else 0
        for name in self.servers:
            count = self.plan.planned.count + (more if name in self.users else 0)
            yield f"{name} reads each dialogue once: {estimate_reading(self.plan, count)}"


def make_readers(
    plan: BenchPlan, folder: Path, names: Sequence[str], suite: Suite | None
) -> Readers:
    """Users of these names, and those of the suite. UnknownName for what no user is called."""
    options = dict(plan.chat) if any(map(uses_server, names)) else {}
    options.pop("response_cache", None)
    users = make_appraisers(names, options, folder)
    bound = suite.thresholds if suite and suite.baseline else ()
    is_read = any(one.by_reference and one.measure == "difference" for one in bound)
    baseline = Path(str(suite.baseline)) if suite and is_read else None
    return Readers(plan, folder, users, suite and suite.judge, baseline)


class Heard(NamedTuple):
    """What the readers said."""

    opinions: Opinions
    rescored: dict[str, list[Rescored]]
    baseline: list[Rescored]
    unjudged: int


def read_again(readers: Readers) -> Heard | None:
    """Have every dialogue that ended read once by each; judgements.jsonl and opinions.json are
    written beside the run. None where nobody reads, or no dialogue ended.
    """
    plan, folder, users = readers.plan, readers.folder, readers.users
    is_read = bool(users or readers.judge)
    dialogues = recorded_dialogues(folder, plan.personas, plan.env) if is_read else []
    if not dialogues:
        return None
    rescored, baseline, unjudged = appraise_by(users, dialogues), [], 0
    if readers.baseline:
        earlier = recorded_dialogues(readers.baseline, plan.personas, plan.env)
        (baseline,) = appraise_by(users, earlier).values()
    if readers.judge:
        model, settings = readers.judge.partition(":")[2], readers.servers[readers.judge]
        cache = {"response_cache": path_inside(folder, JUDGE_CACHE, error=RunError)}
        who = Judge(connect(settings.model_copy(update=cache)), model, LLMOptions())
        judged = ask_judge(who, dialogues, settings.concurrency)
        write_judgements(folder, who, judged)
        unjudged = sum(bool(one.failure) for one in judged)
    opinions = gather_opinions(folder, dialogues, rescored)
    write_opinions(folder, opinions)
    return Heard(opinions, rescored, baseline, unjudged)


def rank_by_readers(
    ranked: Sequence[Score], records: RunRecords, heard: Heard | None
) -> tuple[list[Score], Columns]:
    """The scores in the order of the first reader, with the difference to the best by it and its
    mean; and what each reader says, with a mark at whom the user alone likes.
    """
    columns: dict[str, dict[str, str]] = {}
    order: list[Score] = []
    for name, rescored in heard.rescored.items() if heard else ():
        scores = score_agents(reread(records.episodes, rescored))
        only = heard.opinions.only_score if heard else ()
        columns[f"by {name} [95 %]"] = {
            one.agent: format_estimate(one.at_worst) + (" *" if one.agent in only else "")
            for one in scores
        }
        order = order or scores
    known = {one.agent: one for one in ranked}
    first = [known.pop(one.agent)._replace(to_best=one.to_best, read=one.at_worst) for one in order]
    return [*first, *known.values()], columns


def describe_readers(heard: Heard | None) -> Iterator[str]:
    """What is to be said of second readings below the table."""
    if heard and heard.rescored:
        taus = heard.opinions.taus
        told = [f"{name} {taus[name]:.2f}" for name in heard.rescored if name in taus]
        yield f"Ranked by {next(iter(heard.rescored))}, who read each dialogue whole."
        if told:
            yield f"Kendall tau with the order by the score: {', '.join(told)}."
        if only := ", ".join(heard.opinions.only_score):
            yield f"* Ends above the start by the user's own score, and by nobody else's: {only}."


def describe_lone_score(plan: BenchPlan, heard: Heard | None) -> str:
    """What a user that reads words cannot tell, where nobody else has read the dialogues."""
    if (heard and heard.rescored) or uses_server(plan.user) or is_own_user(plan.user):
        return ""
    return (
        f"The {plan.user} user reads words, not meaning: it cannot tell fluent replies from fitting"
        " ones. For a second reading beside it: --reference openai:MODEL"
        f" ({format_count(plan.planned.count, 'request')})."
    )


def decide_suite(suite: Suite, readers: Readers, records: RunRecords, heard: Heard | None) -> Gate:
    """The gate of a run that is held and read."""
    rescored = next(iter(heard.rescored.values()), []) if heard else []
    earlier = read_run(Path(suite.baseline)).episodes if suite.baseline else None
    evidence = Evidence(
        readers.plan,
        records,
        reread(records.episodes, rescored),
        earlier,
        earlier and reread(earlier, heard.baseline if heard else []),
        collect_judge_scores(read_comparisons([readers.folder])[0]) if suite.judge else {},
        sum(bool(one.failure) for one in rescored) + (heard.unjudged if heard else 0),
    )
    return decide(suite, evidence)


def write_gate(folder: Path, gate: Gate, note: str) -> dict[str, str]:
    """gate.xml and gate.md; returns where they are."""
    texts = {"gate.xml": gate.to_junit(), "gate.md": gate.to_markdown(note)}
    for name, text in texts.items():
        write_atomically(path_inside(folder, name, error=RunError), text)
    return {"gate": f"{folder / 'gate.xml'} (JUnit), {folder / 'gate.md'} (for a pull request)"}


def print_gate(console: SafeConsole, gate: Gate) -> None:
    """One line a threshold, and what came of all."""
    for one in gate.rulings:
        console.print_line((f"{one.decision:11s}", _STYLES[one.decision]), one.describe())
    console.print_line((f"gate: {gate.decision}", _STYLES[gate.decision]), f" ({gate})")
