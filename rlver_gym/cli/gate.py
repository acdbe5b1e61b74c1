"""What `rlver-gym bench` does with a run that is held: second readings, and the gate."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rlver_gym.bench.check import read_run
from rlver_gym.bench.compare import read_comparisons
from rlver_gym.bench.folder import MANIFEST
from rlver_gym.bench.gate import Evidence, Gate, reread
from rlver_gym.bench.judge.ask import Judge
from rlver_gym.bench.judge.summary import write_judgements
from rlver_gym.bench.opinions import describe_limit, gather_opinions, write_opinions
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.score import Score, score_agents
from rlver_gym.bench.sections import collect_judge_scores
from rlver_gym.bench.suite import Suite
from rlver_gym.bench.table import Columns, shorten_agent_path
from rlver_gym.cli.judge import JUDGE_CACHE, ask_judge
from rlver_gym.cli.report import recorded_dialogues
from rlver_gym.cli.rescore import appraise_by, make_appraisers
from rlver_gym.core.user import SentientUser
from rlver_gym.llm_client.connect import connect
from rlver_gym.llm_client.settings import locate_server
from rlver_gym.users.llm import LLMOptions
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.errors import RlverError
from rlver_gym.util.files import path_inside
from rlver_gym.util.interval import format_estimate
from rlver_gym.util.model_names import uses_server
from rlver_gym.util.terminal import SafeConsole, format_count

GATE_FAILED = 5
GATE_FILES = ("gate.xml", "gate.md")
_STYLES = {"pass": "green", "fail": "bold red", "undecided": "yellow"}


def make_readers(plan: BenchPlan, folder: Path, names: Sequence[str]) -> dict[str, SentientUser]:
    """Users by name, whose answers are kept in the folder."""
    options = dict(plan.chat) if any(map(uses_server, names)) else {}
    options.pop("response_cache", None)
    return make_appraisers(names, options, folder)


def read_again(
    plan: BenchPlan, folder: Path, users: Mapping[str, SentientUser], suite: Suite
) -> Evidence:
    """Have every dialogue that ended read once by each user, and by the judge; judgements.jsonl and
    opinions.json are written beside the run. With what a suite asks for beside it.
    """
    records, theirs, opinions = read_run(folder), None, None
    is_read = users or suite.judge
    dialogues = recorded_dialogues(folder, plan.personas, plan.env) if is_read else []
    rescored = appraise_by(users, dialogues) if dialogues else {}
    unread = {name: sum(bool(x.failure) for x in each) for name, each in rescored.items()}
    if suite.baseline:
        past, baseline = Path(suite.baseline), []
        if suite.reads_baseline:
            earlier, first = recorded_dialogues(past, plan.personas, plan.env), suite.reference[0]
            baseline = appraise_by({first: users[first]}, earlier)[first]
            unread["the baseline"] = sum(bool(x.failure) for x in baseline)
        episodes = read_run(past).episodes
        theirs = episodes, reread(episodes, baseline)
    heard: set[tuple[str, str]] = set()
    if dialogues and suite.judge:
        settings = locate_server(suite.judge, plan.chat)
        cache = {"response_cache": path_inside(folder, JUDGE_CACHE)}
        chat = connect(settings.model_copy(update=cache))
        who = Judge(chat, suite.judge.partition(":")[2], LLMOptions())
        judged = ask_judge(who, dialogues, settings.concurrency)
        write_judgements(folder, who, judged)
        unread["the judge"] = sum(bool(x.failure) for x in judged)
        heard = {(one.heard.agent, one.heard.persona) for one in judged if not one.failure}
    if dialogues:
        opinions = gather_opinions(folder, dialogues, rescored)
        write_opinions(folder, opinions)
    read = {name: reread(records.episodes, each) for name, each in rescored.items()}
    ours = records.episodes, next(iter(read.values()), [])
    return Evidence(
        plan,
        records,
        ours,
        theirs,
        marks=collect_judge_scores(read_comparisons([folder])[0]) if heard else {},
        num_judged=Counter(agent for agent, _ in heard),
        unread={name: count for name, count in unread.items() if count},
        read=read,
        opinions=opinions,
    )


def rank_by_readers(evidence: Evidence) -> tuple[list[Score], Columns]:
    """The scores; where somebody has read again, in the order of the first, with its mean and the
    difference to the best by it; and what each says, with a mark at whom the user alone likes.
    """
    only = evidence.opinions.only_score if evidence.opinions else ()
    known = {
        score.agent: score
        for score in score_agents(evidence.records.episodes, evidence.plan.planned)
    }
    columns, order = {}, []
    for name, episodes in evidence.read.items():
        scores = score_agents(episodes, evidence.plan.planned)
        columns[f"by {shorten_agent_path(name, evidence.read)} [95 %]"] = {
            score.agent: format_estimate(score.at_worst) + (" *" if score.agent in only else "")
            for score in scores
        }
        order = order or scores
    first = [
        known.pop(score.agent)._replace(to_best=score.to_best, read=score.at_worst)
        for score in order
    ]
    return [*first, *known.values()], columns


def describe_readers(evidence: Evidence) -> Iterator[str]:
    """What is to be said of second readings below the table; where nobody else has read the
    dialogues, what a user that reads words cannot tell.
    """
    plan, opinions = evidence.plan, evidence.opinions
    if opinions and evidence.read:
        taus = [f"{name} {tau:.2f}" for name, tau in opinions.taus.items()]
        yield f"Ranked by {next(iter(evidence.read))}, who read each dialogue whole."
        if taus:
            yield f"Kendall tau with the order by the score: {', '.join(taus)}."
        if only := ", ".join(opinions.only_score):
            yield f"* Ends above the start by the user's own score, and by nobody else's: {only}."
    elif limit := describe_limit(plan.user):
        requests = format_count(plan.planned.count, "request")
        how = "in the suite, reference:" if plan.suite else "--reference"
        yield f"{limit} For a second reading beside it: {how} openai:MODEL ({requests})."
    for name, count in evidence.unread.items():
        counted = ", which count with 0 at worst" if name in evidence.read else ""
        readings = format_count(count, "reading")
        yield f"{name}: {readings} failed{counted}. The same command asks again."


@contextmanager
def guard_gate(folder: Path | None, suite: Path | None) -> Iterator[None]:
    """Take an earlier run's gate.xml and gate.md out of a run's folder, before anything can refuse;
    where a suite's run breaks off, they say so.
    """
    # a folder without a manifest is no run's: what it holds of these names is somebody else's
    if folder and (folder / MANIFEST).exists():
        for name in GATE_FILES:
            path_inside(folder, name).unlink(missing_ok=True)
    try:
        yield
    except RlverError as error:
        if folder and suite and (folder / MANIFEST).exists():
            write_gate(folder, Gate.of_error(str(error)), suite, "")
        raise


def write_gate(folder: Path, gate: Gate, suite: Path, note: str) -> dict[str, str]:
    texts = gate.to_junit(str(suite)), gate.to_markdown(f"{suite}, {folder}", note)
    xml, md = (path_inside(folder, name) for name in GATE_FILES)
    for path, text in zip((xml, md), texts, strict=True):
        write_atomically(path, text)
    return {"gate": f"{xml} (JUnit), {md} (for a pull request)"}


def print_gate(console: SafeConsole, gate: Gate) -> None:
    """One line a threshold, and what came of all."""
    console.print_line("")
    for ruling in gate.rulings:
        console.print_line((f"{ruling.decision:11s}", _STYLES[ruling.decision]), ruling.describe())
    console.print_line((f"gate: {gate.decision}", _STYLES[gate.decision]), f" ({gate})")
