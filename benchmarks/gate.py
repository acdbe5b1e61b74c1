"""How often the verdicts of a gate move when nothing has changed but the noise of the user.

python benchmarks/gate.py [--runs 40] [--noise 2.0] [--people 12]      (some minutes on one core)

The same agents talk to the same people, played by an LLM user whose test server answers as the
embedded user does, with noise added to every change of emotion, seeded by run. The first run is the
baseline, and the thresholds stand where its suite begins. Then the same with a loss: what the gate
said that it sees is taken from every final emotion.
"""

import argparse
import json
from collections import Counter
from pathlib import Path
from random import Random
from statistics import stdev
from tempfile import TemporaryDirectory
from typing import Any

from rlver_gym.bench.check import RunRecords, read_run
from rlver_gym.bench.gate import Evidence, Gate, decide
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run
from rlver_gym.bench.suite import Suite
from rlver_gym.environment.episode import Episode
from rlver_gym.library.personas import library
from rlver_gym.llm_client.connect import close
from rlver_gym.llm_client.settings import ChatSettings
from rlver_gym.people.pairing import draw_panel
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers

AGENTS = ("listener", "adaptive")


class NoisyAnswers(EmbeddedAnswers):
    """As the embedded user feels, give or take; the same for equal words under a seed."""

    def __init__(self, run_number: int, noise: float) -> None:
        """`noise`: the standard deviation, in points."""
        super().__init__(card="SAGE-Sentient-v0")
        self._number, self._noise = run_number, noise

    def __call__(self, body: Any) -> str:
        """An answer whose change is moved."""
        plain = json.loads(super().__call__(body))
        if "change" in plain:
            text = json.dumps(body["messages"]) + str(body.get("seed"))
            moved = plain["change"] + Random(f"{self._number}/{text}").gauss(0, self._noise)
            plain["change"] = max(-10, min(10, round(moved)))
        return json.dumps(plain)


def hold(plan: BenchPlan, number: int, noise: float) -> RunRecords:
    """One run against a server of its own."""
    with TemporaryDirectory() as folder, ChatServer(NoisyAnswers(number, noise)) as server:
        chat = ChatSettings(base_url=server.base_url, concurrency=8)
        list(run(plan.model_copy(update={"chat": chat}), Path(folder)))
        close()
        return read_run(Path(folder))


def lower(episode: Episode, loss: float) -> Episode:
    """The dialogue, ended by so many points lower."""
    *others, last = episode.turns
    return episode._replace(turns=(*others, last._replace(emotion=last.emotion - loss)))


def main() -> None:
    """Hold the runs, and print how often each threshold was decided how."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--noise", type=float, default=2.0, help="SD of each change, in points")
    parser.add_argument("--people", type=int, default=12)
    asked = parser.parse_args()
    options = {"calls": 1, "opening": "card"}
    ids = draw_panel(library(), "test", asked.people)
    plan = BenchPlan(
        agents=AGENTS, user="openai:noisy", user_options=options, seeds=1, user_seeds=2,
        persona_ids=ids,
    )  # fmt: skip
    base = hold(plan, 0, asked.noise)

    def judge(suite: Suite, records: RunRecords, loss: float = 0.0) -> Gate:
        worse = [lower(one, loss) for one in records.episodes]
        return decide(suite, Evidence(plan, records, (worse, ()), (base.episodes, ())))

    zero = [{"agent": one, "measure": "mean", "at_least": 0} for one in AGENTS]
    first = judge(Suite.model_validate({"agents": AGENTS, "thresholds": zero}), base).rulings[1:]
    bounds = [
        {"agent": one.agent, "measure": "mean", "at_least": int(one.value.low)} for one in first
    ]
    bounds += [{"measure": "difference", "at_least": 0}]
    suite = Suite.model_validate({"agents": AGENTS, "baseline": "x", "thresholds": bounds})
    runs = [hold(plan, number, asked.noise) for number in range(1, asked.runs + 1)]
    told = judge(suite, base).rulings[1:]
    print(f"{asked.runs} runs, {asked.people} people x 2 user seeds, SD {asked.noise} a change")
    print(f"{'threshold':44} {'unchanged':>34}  {'SD':>4}  {'sees':>5}  {'with that loss':>34}")
    for at, one in enumerate(told, 1):
        same = [judge(suite, records).rulings[at] for records in runs]
        worse = [judge(suite, records, one.visible_loss or 0).rulings[at] for records in runs]
        kinds, lost = (Counter(x.decision for x in found) for found in (same, worse))
        shown = [
            ", ".join(f"{found[kind]} {kind}" for kind in ("pass", "undecided", "fail"))
            for found in (kinds, lost)
        ]
        moves = stdev(x.value.mean for x in same)
        name = f"{one.agent}: {one.demand}"
        print(f"{name:44} {shown[0]:>34}  {moves:4.1f}  {one.visible_loss:5.1f}  {shown[1]:>34}")


if __name__ == "__main__":
    main()
