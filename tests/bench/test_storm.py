"""A whole run against a server that shows every quirk of real ones on one request in ten: it ends,
and every dialogue is held, or has failed for a reason of its own that names what was wrong.
"""

from pathlib import Path

import pytest
from quirky_server import QUIRKS, THOUGHT, UNFINISHED, QuirkyServer

from rlver_gym.bench.folder import EPISODES, read_episodes
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import open_run
from rlver_gym.bench.verify import verify
from rlver_gym.core.emotion import Outcome
from rlver_gym.core.library import library
from rlver_gym.environment.episode import Episode
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.testing.http import Listener

NUM_DIALOGUES, SHARE = 64, 0.1
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("close_shared_clients")]


class Storm:
    """One run of that many dialogues, done once for all tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = QuirkyServer(EmbeddedAnswers(card="RLVER-Empathy-v0"), SHARE)
        listener = Listener(self.server)
        plan = BenchPlan.model_validate(
            {
                "env": "RLVER-Empathy-v0",
                "agents": ("openai:a",),
                "user": "openai:u",
                "persona_ids": library().ids("train")[:16],
                "seeds": NUM_DIALOGUES // 16,
                "chat": {
                    "base_url": f"http://127.0.0.1:{listener.port}/v1",
                    "timeout_s": 8.0,
                    "budget": {"tokens": 10**9},
                },
            }
        )
        try:
            with open_run(plan, folder) as under_way:
                self.episodes = list(under_way.run_missing())
                self.estimated = sum(one.spent.estimated for one in under_way.spending)
                self.concurrency = plan.chat.concurrency
        finally:
            listener.stop()
        self.failed = [one for one in self.episodes if one.outcome is Outcome.FAILED]


def reason_of(episode: Episode) -> str:
    """Why a dialogue failed."""
    reasons = episode.turns[-1].appraisal.reasons if episode.turns else ()
    return reasons[0].note if reasons else ""


@pytest.fixture(scope="module")
def storm(tmp_path_factory: pytest.TempPathFactory) -> Storm:
    return Storm(tmp_path_factory.mktemp("storm"))


def test_every_quirk_was_shown_and_the_run_ended(storm: Storm) -> None:
    assert set(storm.server.shown) == set(QUIRKS)
    assert len(storm.episodes) == NUM_DIALOGUES
    assert {one.key for one in read_episodes(storm.folder)} == {one.key for one in storm.episodes}
    assert 0 < len(storm.failed) < NUM_DIALOGUES
    assert storm.estimated > 0


def test_every_dialogue_that_failed_names_a_reason_of_its_own(storm: Storm) -> None:
    for episode in storm.failed:
        reason = reason_of(episode)
        assert any(word in reason for word in ("no usable answer", "refuses", "without text")), (
            reason
        )
        assert "Check OPENAI_API_KEY" not in reason
        assert (episode.turns[-1].reward, episode.turns[-1].reply) == (0.0, "")
    assert len({reason_of(one) for one in storm.failed}) > 1


def test_what_was_recorded_can_be_recomputed(storm: Storm) -> None:
    assert set(verify(storm.folder)) == {None}


def test_no_answer_that_was_cut_is_spoken_or_becomes_a_reward_and_no_thought_is_spoken(
    storm: Storm,
) -> None:
    pytest.importorskip("rlver_gym.core.answer", reason="answers are not read in one place yet")
    recorded = (storm.folder / EPISODES).read_text(encoding="utf-8")
    assert UNFINISHED not in recorded
    assert THOUGHT not in recorded
