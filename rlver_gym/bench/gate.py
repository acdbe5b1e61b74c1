"""The gate: whether what a suite asks for holds, for every form in which it is shown."""

from collections.abc import Mapping, Sequence
from math import isnan, sqrt
from typing import Any, Literal, NamedTuple, Self, get_args
from xml.etree import ElementTree

from rlver_gym.bench.check import INCOMPLETE, RunRecords
from rlver_gym.bench.noise import measure_spread_over_user_seeds
from rlver_gym.bench.opinions import Opinions
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.rescore import Rescored
from rlver_gym.bench.score import compute_persona_finals, compute_worst_case_finals
from rlver_gym.bench.suite import COUNTS, EMOTIONS, Suite, Threshold
from rlver_gym.environment.alarms import find_alerts
from rlver_gym.environment.episode import Episode
from rlver_gym.util.interval import UNKNOWN, Interval, bootstrap, format_estimate, format_mean
from rlver_gym.util.terminal import escape_markdown, format_count, one_line

Decision = Literal["error", "fail", "undecided", "pass"]
"""The worst first; "error" is of a run that broke off."""
_TAGS = dict(zip(get_args(Decision), ("error", "failure", "skipped", "system-out"), strict=True))
FEWEST_PEOPLE = 5
"""Of fewer an interval over people says too little to decide by."""
_POWER = 1 + 0.8416 / 1.96
"""Times the margin: what lies so far below the bound is seen to in four of five runs."""
_MOST_ROWS = 6
"""Of a pull request's summary, which has ten lines; its note is one of them."""


class Ruling(NamedTuple):
    """What became of a threshold for one agent."""

    agent: str
    """"" for the run itself."""
    demand: str
    value: Interval
    """A count has no width."""
    decision: Decision
    visible_loss: float | None = None
    """The loss that four of five runs would call a failure, in points; None for a count."""
    why: str = ""

    def describe(self) -> str:
        """In one line: bound, value and interval, and what could be seen; of an error, why."""
        if self.decision == "error":
            return one_line(self.why)
        value, seen = f"{self.value.mean:g}", ""
        if self.visible_loss is not None:
            form = format_mean if self.demand.startswith("lower") else format_estimate
            value = form(self.value, signed=self.demand.startswith("difference"))
            is_failed, loss = self.decision == "fail", self.visible_loss
            below = " below the bound" if is_failed else ""
            # one that fails with nothing that moves it detects everything
            if loss or not is_failed:
                seen = f"; detects a loss of {loss:.1f} or more{below} (in 4 of 5 runs)"
        elif not self.agent:
            value = format_count(int(self.value.mean), "fault")
        why = f" ({self.why})" if self.why else ""
        return one_line(f"{self.agent or 'records'}: {self.demand}: {value}{seen}{why}")


class Gate(NamedTuple):
    """All rulings, in the order of the file."""

    rulings: tuple[Ruling, ...]

    @classmethod
    def of_error(cls, why: str) -> Self:
        return cls((Ruling("", "the run goes to its end", UNKNOWN, "error", why=why),))

    @property
    def decision(self) -> Decision:
        there = {ruling.decision for ruling in self.rulings}
        return next(kind for kind in _TAGS if kind in there)

    def __str__(self) -> str:
        kinds = [ruling.decision for ruling in self.rulings]
        shown = ["error"] if "error" in kinds else [*_TAGS][1:]
        return ", ".join(f"{kinds.count(kind)} {kind}" for kind in shown)

    def to_dict(self) -> dict[str, Any]:
        rulings = [{**ruling._asdict(), "value": list(ruling.value)} for ruling in self.rulings]
        return {"decision": self.decision, "thresholds": rulings}

    def to_junit(self, suite: str) -> str:
        """JUnit's XML: a case a ruling; what is undecided counts as skipped."""
        kinds = [ruling.decision for ruling in self.rulings]
        counts = {"tests": len(kinds), "failures": kinds.count("fail")}
        counts |= {"errors": kinds.count("error"), "skipped": kinds.count("undecided")}
        values = {name: str(count) for name, count in counts.items()}
        root = ElementTree.Element("testsuites", values)
        named = {"name": _fit_xml(suite), **values}
        under = ElementTree.SubElement(root, "testsuite", named)
        for ruling in self.rulings:
            named = {"classname": _fit_xml(ruling.agent or "run"), "name": _fit_xml(ruling.demand)}
            case = ElementTree.SubElement(under, "testcase", named)
            text = _fit_xml(ruling.describe())
            message = {} if ruling.decision == "pass" else {"message": text}
            ElementTree.SubElement(case, _TAGS[ruling.decision], message).text = text
        ElementTree.indent(root)
        return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"

    def to_markdown(self, of: str, note: str) -> str:
        """At most ten lines for a pull request, failures first. `of`: suite and run."""
        first = sorted(self.rulings, key=lambda ruling: [*_TAGS].index(ruling.decision))
        rows = [f"| {ruling.decision} | {escape_markdown(ruling.describe())} |" for ruling in first]
        most = _MOST_ROWS - bool(note)
        if len(rows) > most:
            rows[most - 1 :] = [f"| … | and {len(rows) - most + 1} more, in gate.xml |"]
        rows += [f"| note | {escape_markdown(note)} |"] if note else []
        head = f"**rlver-gym: {self.decision}** ({self}): {escape_markdown(one_line(of))}"
        return "\n".join([head, "", "| | threshold |", "|---|---|", *rows]) + "\n"


def _fit_xml(text: str) -> str:
    """On one line, without the two signs that no XML may hold."""
    return one_line(text).translate({0xFFFE: None, 0xFFFF: None})


def reread(episodes: Sequence[Episode], rescored: Sequence[Rescored]) -> list[Episode]:
    """The dialogues with the final emotion of who read them again; without those not read."""
    finals = {
        dialogue.recorded.key: dialogue.final for dialogue in rescored if not dialogue.failure
    }
    again = []
    for episode in episodes:
        *others, last = episode.turns
        final = finals.get(str(episode.key))
        if final is not None:
            again.append(episode._replace(turns=(*others, last._replace(emotion=final))))
        elif episode.failed_by:
            again.append(episode)
    return again


class Evidence(NamedTuple):
    """All that a gate is decided by. Of each pair of dialogues the second are read again."""

    plan: BenchPlan
    records: RunRecords
    ours: tuple[Sequence[Episode], Sequence[Episode]]
    theirs: tuple[Sequence[Episode], Sequence[Episode]] | None = None
    """Of the baseline; None: differences are to an agent of this run."""
    marks: Mapping[str, Mapping[str, Interval]] = {}
    num_judged: Mapping[str, int] = {}
    """With how many people the judge has read an agent."""
    unread: Mapping[str, int] = {}
    """Readings that failed, by who read."""
    read: Mapping[str, Sequence[Episode]] = {}
    """Our dialogues by each who read them again, the first of whom ranks."""
    opinions: Opinions | None = None
    """None where nobody has read them again."""


def decide(suite: Suite, evidence: Evidence) -> Gate:
    """The rulings. What failed counts as 0 for who is tested, and not at all for whom they meet."""
    rulings = [_rule_on_run(evidence)]
    for threshold in suite.thresholds:
        agents = [threshold.agent] if threshold.agent else suite.agents
        oneself = None if evidence.theirs else threshold.to
        rulings += [_rule(threshold, agent, evidence) for agent in agents if agent != oneself]
    return Gate(tuple(rulings))


def _rule_on_run(evidence: Evidence) -> Ruling:
    """Every dialogue of the plan has to be there, once, as it was written, and read."""
    lacks: dict[str, int] = {
        kind: sum(finding.num_episodes for finding in findings)
        for kind, findings in evidence.records.problems.by_kind.items()
        if kind in INCOMPLETE
    }
    lacks |= {"not read": sum(evidence.unread.values())} if evidence.unread else {}
    dialogues = format_count(evidence.plan.planned.count, "dialogue")
    return _rule_on_count("", f"{dialogues} complete", sum(lacks.values()), 0, ", ".join(lacks))


def _rule_on_count(agent: str, demand: str, count: int, most: float, why: str = "") -> Ruling:
    value = Interval(*3 * [float(count)])
    return Ruling(agent, demand, value, "pass" if count <= most else "fail", why=why)


def _rule(threshold: Threshold, agent: str, evidence: Evidence) -> Ruling:
    measure, bound = threshold.measure, threshold.bound
    if measure in COUNTS:
        own = [episode for episode in evidence.ours[0] if episode.agent == agent]
        if measure == "failed":
            failed = sum(episode.failed_by is not None for episode in own)
            return _rule_on_count(agent, f"failed dialogues at most {bound:g}", failed, bound)
        # the table says the rest of it
        told = [alert.says.partition(":")[0] for alert in find_alerts(own) if not alert.expected]
        demand = f"flagged at most {bound:g}"
        return _rule_on_count(agent, demand, len(told), bound, ", ".join(told))
    value, label = UNKNOWN, measure.replace("_", " ")
    people, noise, width = evidence.num_judged.get(agent, 0), 0.0, 0.0
    if measure in EMOTIONS:
        ours = evidence.ours[threshold.by_reference]
        finals, label = _compute_finals(threshold, agent, evidence)
        people = len(finals)
        value, noise = bootstrap(finals.values()), _measure_noise(ours, evidence.plan)
        noise /= 1 if measure == "difference" else sqrt(2)  # the floor is of two runs
        value = Interval(*3 * [value.low]) if measure == "lower" else value
        # who changes would differ over people as emotions do, however alike the two are now
        own = bootstrap(compute_worst_case_finals(ours, agent).values())
        width = own.high - own.mean if measure == "difference" else 0.0
    else:
        value = evidence.marks.get(agent, {}).get(measure, value)
    decision, why = _decide(value, bound, noise, people)
    margin = max(value.high - value.mean, noise, width)
    surplus = 0.0 if decision == "fail" else value.mean - bound
    loss = max(0.0, surplus + _POWER * margin)
    return Ruling(agent, f"{label} at least {bound:g}", value, decision, loss, why)


def _decide(value: Interval, bound: float, noise: float, people: int) -> tuple[Decision, str]:
    """Undecided where the bound lies within the interval, or nearer than the noise."""
    if isnan(value.mean):
        return "fail", "nothing to measure"
    if people < FEWEST_PEOPLE:
        return "undecided", f"fewer than {FEWEST_PEOPLE} people"
    if min(value.low, value.mean - noise) >= bound:
        return "pass", ""
    return ("fail" if max(value.high, value.mean + noise) < bound else "undecided"), ""


def _compute_finals(
    threshold: Threshold, agent: str, evidence: Evidence
) -> tuple[dict[str, float], str]:
    """By person, the final emotion or its difference; and what that is called."""
    is_read, label = threshold.by_reference, threshold.measure
    finals = compute_worst_case_finals(evidence.ours[is_read], agent)
    if label == "difference":
        there = (evidence.theirs or evidence.ours)[is_read]
        theirs = compute_persona_finals(there, threshold.to or agent)
        finals = {who: finals[who] - theirs[who] for who in finals if who in theirs}
        label = f"difference to {threshold.to or 'the baseline'}"
    return finals, f"{label} by the reference" if is_read else label


def _measure_noise(episodes: Sequence[Episode], plan: BenchPlan) -> float:
    """The least difference between two runs that is no noise of the user; 0 for a single seed."""
    spread = measure_spread_over_user_seeds(episodes, plan.seeds, plan.user_seeds)
    return spread.noise_floor / sqrt(plan.user_seeds) if spread else 0.0
