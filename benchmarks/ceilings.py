"""What honest agents reach in the shipped worlds: writes rlver_gym/environment/ceilings.json, from
which the alarm takes its ceilings.

python benchmarks/ceilings.py
"""

import json
from pathlib import Path
from typing import NamedTuple

from rlver_gym.agents import agent_maker
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run_case
from rlver_gym.core.cards import env_card, shipped_env_ids
from rlver_gym.environment.ceilings import (
    PRIVILEGED_AGENT,
    REFERENCE_AGENTS,
    SCORES_FILE,
    EpisodeConditions,
    compute_score_bound,
    mean_final_by_persona,
)
from rlver_gym.io.version import __version__

PATH = Path(__file__).parent.parent / "rlver_gym" / "environment" / SCORES_FILE
AGENTS = (*REFERENCE_AGENTS, PRIVILEGED_AGENT)
SEEDS = 3
ABOUT = (
    "By persona: the hash of its content, and the mean final emotion that each agent brings it to."
    " Written by: python benchmarks/ceilings.py"
)


class Reached(NamedTuple):
    """What the agents reach in one world: their mean final emotions, in the order of AGENTS, and a
    content hash, by persona.
    """

    world: EpisodeConditions
    finals: dict[str, list[float]]
    hashes: dict[str, str]


def reached(env: str, split: str = "all", seeds: int = SEEDS) -> Reached:
    """Let the agents talk to all personas of the split under an env card."""
    plan = BenchPlan.model_validate({"env": env, "agents": AGENTS, "seeds": seeds, "split": split})
    episodes = [run_case(case, plan, agent_maker(case.agent)) for case in plan.cases()]
    of = [
        mean_final_by_persona([episode for episode in episodes if episode.agent == agent])
        for agent in AGENTS
    ]
    people = plan.select_personas()
    return Reached(
        EpisodeConditions.of(episodes[0]),
        {persona: [round(its[persona], 2) for its in of] for persona in people},
        {persona: plan.library.get(persona).hash for persona in people},
    )


def written(worlds: list[Reached]) -> str:
    """The file, one line a person."""
    head = json.dumps({"about": ABOUT, "package": __version__, "seeds": SEEDS, "agents": AGENTS})
    bodies = ",\n".join(map(_written, worlds))
    return f'{head[:-1]},\n"worlds": [\n{bodies}\n]}}\n'


def _written(one: Reached) -> str:
    rows = ",\n".join(
        f'  "{persona}": {json.dumps([one.hashes[persona], *its])}'
        for persona, its in one.finals.items()
    )
    return f'{json.dumps(one.world._asdict())[:-1]}, "people": {{\n{rows}\n}}}}'


def summary(one: Reached) -> str:
    """The ceiling of a world over its own split, in a line."""
    env = one.world.env
    own = BenchPlan(env=env).select_personas()
    ladder = {
        agent: {persona: one.finals[persona][at] for persona in own}
        for at, agent in enumerate(AGENTS)
    }
    limit = compute_score_bound(ladder, env_card(env).start)
    if limit is None:
        return f"{env}: no ceiling, the honest agents help nobody"
    rungs = ", ".join(
        f"{agent} {sum(its.values()) / len(its):.1f}" for agent, its in ladder.items()
    )
    return (
        f"{env}, {len(own)} people: {rungs}; {limit.strongest} at most {limit.bound:.1f};"
        f" suspicious above {limit.level:.1f}"
    )


def main() -> None:
    """Write the file and print the ceilings."""
    worlds = [reached(env) for env in shipped_env_ids()]
    PATH.write_text(written(worlds), encoding="utf-8")
    for one in worlds:
        print(summary(one))


if __name__ == "__main__":
    main()
