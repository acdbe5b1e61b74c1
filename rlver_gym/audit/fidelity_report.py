"""The fidelity report: which tables there are, and what stands in them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from rlver_gym.audit.fidelity_checks import (
    Check,
    Summary,
    agent_means,
    dialogue_checks,
    group_table,
    summarize,
    swap_check,
    turn_checks,
)
from rlver_gym.audit.left_out import (
    LeaveOutFits,
    leave_one_agent_out,
    leave_people_out,
    split_agents,
)
from rlver_gym.audit.replay import ReplayedDialogue, replay, swap_replies
from rlver_gym.core.user import SentientUser
from rlver_gym.data.calibrate import shorten_id
from rlver_gym.data.recordings import Recording
from rlver_gym.io.correlation import correlation, correlation_within, spearman
from rlver_gym.io.errors import UserFailed
from rlver_gym.users.embedded.weights import shipped_weights

LLM_USERS = (
    "LLM users among themselves (DeepSeek-V3 and GPT-4o as users): order of six agents 0.94, the"
    " same reply at turn 1 judged again 0.28"
)


class Section(NamedTuple):
    """One way of measuring: as the user is, or with some left out of its fit."""

    title: str
    summary: Summary
    checks: tuple[Check, ...]
    agents: dict[str, tuple[float, float]]
    """Mean final emotion: replayed, recorded."""
    needs: tuple[tuple[str, int, float, float, float], ...]
    """Dialogues, replayed and recorded mean, r."""
    dispositions: tuple[tuple[str, int, float, float, float], ...]
    failures: tuple[str, ...] = ()
    """Dialogues that are left out because the user failed at them: which, and why."""


UserForRecording = Callable[[Recording], SentientUser]
StartProgress = Callable[[str, int], Callable[[], None]]
"""`step(what, count)` announces work and gives what to call after each of `count` pieces."""


def no_progress(what: str, count: int) -> Callable[[], None]:
    """A `StartProgress` that shows nothing."""
    return lambda: None


def run_checks(
    title: str,
    users: UserForRecording,
    recordings: Sequence[Recording],
    step: StartProgress = no_progress,
) -> Section:
    """Every check of one user (or one user a recording) on the recordings.

    UserFailed when it fails at all of them.
    """
    failures: list[tuple[Recording, UserFailed]] = []

    def note_failure(recording: Recording, failure: UserFailed) -> None:
        failures.append((recording, failure))
        if len(failures) == len(recordings):
            raise failure

    replayed = replay(
        users,
        recordings,
        on_progress=step(f"{title}: replay", len(recordings)),
        on_failure=note_failure,
    )
    whole = [one.recording for one in replayed]
    swaps = swap_replies(
        users,
        whole,
        on_progress=step(f"{title}: swapped replies", len(whole)),
        on_failure=note_failure,
    )
    return Section(
        title,
        summarize(replayed),
        (
            *turn_checks(replayed),
            *dialogue_checks(replayed),
            *([swap_check(swaps)] if swaps else []),
        ),
        agent_means(replayed),
        tuple(group_table(replayed, lambda one: one.recording.persona.need)),
        tuple(group_table(replayed, lambda one: one.recording.persona.person.disposition)),
        tuple(f"{one.agent} with {one.persona.id}: {failure}" for one, failure in failures),
    )


def select_unseen(recordings: Sequence[Recording]) -> list[Recording]:
    """Those whose agent, or whose person, the shipped weights were not fitted on."""
    seen = shipped_weights("zh").provenance
    agents, people = set(seen["agents"]), set(seen["people"])
    return [
        one
        for one in recordings
        if one.agent not in agents or shorten_id(one.persona.id) not in people
    ]


def cross_validate(
    everything: Sequence[Recording],
    recordings: Sequence[Recording],
    splits: int,
    step: StartProgress = no_progress,
) -> list[Section]:
    """Agents left out, people left out: each recording is judged by a fit that never saw its agent
    (or its person).
    """
    refits, simulator = LeaveOutFits(everything), recordings[0].simulator
    agents, people = (
        sorted({key(one) for one in recordings})
        for key in (lambda one: one.agent, lambda one: one.persona.id)
    )
    users = leave_one_agent_out(
        refits, agents, simulator, on_progress=step("fits without an agent", len(agents))
    )
    by_agent = run_checks("agents left out of the fit", users, recordings, step)
    cost = _check_relevance_cost(refits, agents, simulator, recordings, users, step)
    order = _check_order_over_splits(refits, agents, simulator, recordings, splits, step)
    by_agent = by_agent._replace(checks=(*by_agent.checks, order, cost))
    users = leave_people_out(
        refits, people, simulator, on_progress=step("fits without a fifth of the people", 5)
    )
    return [by_agent, run_checks("people left out of the fit", users, recordings, step)]


def _check_relevance_cost(
    refits: LeaveOutFits,
    agents: Sequence[str],
    simulator: str,
    recordings: Sequence[Recording],
    users: UserForRecording,
    step: StartProgress,
) -> Check:
    """What the relevance conditions cost in turn-1 correlation."""
    bare = leave_one_agent_out(
        refits, agents, simulator, gated=False, on_progress=step("fits without gates", len(agents))
    )
    with_gates, without = (_correlate_first_turn(replay(one, recordings)) for one in (users, bare))
    return Check(
        "gates' cost in turn-1 r",
        without - with_gates,
        without - with_gates,
        without - with_gates,
        f"{without:.3f} with open gates",
    )


def _correlate_first_turn(replayed: Sequence[ReplayedDialogue]) -> float:
    first = [one.turns[0] for one in replayed if one.turns]
    own, recorded = (
        np.array(side, float)
        for side in zip(*((one.change, one.rated.change) for one in first), strict=True)
    )
    return correlation_within(own, recorded, np.array([one.rated.persona.id for one in first]))


def _check_order_over_splits(
    refits: LeaveOutFits,
    agents: Sequence[str],
    simulator: str,
    recordings: Sequence[Recording],
    splits: int,
    step: StartProgress,
) -> Check:
    """Spearman of agents' means, each half of the agents judged by a fit on the other half; mean
    and 5th to 95th percentile over random splits.
    """
    on_progress, found = step(f"{splits} random halves of the agents", splits), []
    for pair in split_agents(agents, splits):
        users = {}
        for half in pair:
            users.update(dict.fromkeys(half, refits.fit_without_agents(half, simulator)))
        means = agent_means(replay(lambda one, users=users: users[one.agent], recordings))
        own, recorded = np.array(list(means.values())).T
        found.append((spearman(own, recorded), correlation(own, recorded)))
        on_progress()
    order, linear = np.array(found).T
    low, high = np.percentile(order, (5, 95))
    what = (
        f"mean of {splits} random halves, each judged by a fit on the other; Pearson"
        f" {linear.mean():.2f}"
    )
    return Check(
        "agent means, Spearman over splits", float(order.mean()), float(low), float(high), what
    )
