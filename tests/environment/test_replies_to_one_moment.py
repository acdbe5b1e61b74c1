"""Several replies to one moment: appraised without moving the dialogue, and one of them said."""

import json
import pickle

import gymnasium as gym
import pytest

from rlver_gym import EmpathyEnv, EmpathySession, EmpathyVectorEnv, env_card
from rlver_gym.bench.verify import replay_episode
from rlver_gym.environment.episode import Episode
from rlver_gym.testing import ChatServer
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import DialogueError, ResetNeeded, UserFailed, UtteranceError

REPLIES = (
    "That sounds hard. What happened?",
    "Just cheer up.",
    "You carried that alone, and nobody saw it.",
)
USERS = ["embedded", "openai:any", "a payer that the embedded user speaks for"]


@pytest.fixture(scope="module", params=USERS)
def make_options(request):
    """Options of an environment with that user; a language model answers as the embedded one."""
    if request.param == "embedded":
        yield {"user": "embedded"}
        return
    with ChatServer(EmbeddedAnswers()) as server:
        words = {"opening": "card"} if request.param == "openai:any" else {"speaker": "embedded"}
        yield {"user": "openai:any", "base_url": server.base_url, **words}


def make(options, **more):
    env = gym.make("RLVER-Empathy-v0", info="privileged", **options, **more).unwrapped
    assert isinstance(env, EmpathyEnv)
    return env


@pytest.mark.usefixtures("close_shared_clients")
def test_appraising_leaves_the_state_and_each_reward_is_what_step_gives(make_options):
    env = make(make_options)
    env.reset(seed=3)
    for _ in range(3):
        state = env.save_state()
        appraised = env.appraise_replies(REPLIES)
        assert env.save_state() == state
        rewards = []
        for reply in REPLIES:
            rewards.append(env.step(reply)[1])
            env.restore(state)
        assert list(appraised.rewards) == rewards
        assert [x.change for x in appraised.appraisals] == rewards
        env.step_from(appraised, 2)


@pytest.mark.usefixtures("close_shared_clients")
def test_a_step_from_one_of_them_is_the_step_and_its_record_holds_the_others(make_options):
    plain, chosen = make(make_options), make(make_options)
    assert plain.reset(seed=5) == chosen.reset(seed=5)
    over, turn = False, 0
    while not over:
        index = turn % len(REPLIES)
        given = chosen.step_from(chosen.appraise_replies(REPLIES), index)
        assert given == plain.step(REPLIES[index])
        over, turn = given[2], turn + 1
    episode = Episode.of(chosen.session, "me")
    siblings = [[x.utterance for x in turn.siblings] for turn in episode.turns]
    assert siblings[:2] == [list(REPLIES[1:]), [REPLIES[0], REPLIES[2]]]
    assert Episode.from_json(episode.to_json()) == episode
    scene = chosen.session.scene
    again = EmpathySession(chosen.user, scene.persona, scene.card, scene.seed)
    assert replay_episode(again, episode).to_json() == episode.to_json()


def test_a_record_whose_siblings_were_edited_is_another_record():
    env = make({"user": "embedded"})
    env.reset(seed=5)
    env.step_from(env.appraise_replies(REPLIES), 0)
    plain = json.loads(Episode.of(env.session, "me").to_json())
    plain["turns"][0]["siblings"][0]["change"] = 10
    edited = Episode.from_json(json.dumps(plain))
    scene = env.session.scene
    again = EmpathySession(env.user, scene.persona, scene.card, scene.seed)
    assert replay_episode(again, edited).to_json() != edited.to_json()


def test_replies_to_another_moment_and_unusable_ones_are_refused():
    env = make({"user": "embedded"})
    with pytest.raises(ResetNeeded):
        env.appraise_replies(REPLIES)
    env.reset(seed=1)
    appraised = env.appraise_replies(REPLIES)
    assert pickle.loads(pickle.dumps(appraised)) == appraised
    with pytest.raises(UtteranceError):
        env.appraise_replies(["fine", 3])
    with pytest.raises(IndexError):
        env.step_from(appraised, 7)
    env.step("Hm.")
    with pytest.raises(DialogueError, match="another moment"):
        env.step_from(appraised, 0)


def test_an_index_from_the_end_and_what_is_cut_are_as_a_step_has_them():
    env, plain = make({"user": "embedded"}), make({"user": "embedded"})
    long = "That is a lot. " * 400
    env.reset(seed=2), plain.reset(seed=2)
    appraised = env.appraise_replies(["Just cheer up.", long])
    assert env.step_from(appraised, -1) == plain.step(long)
    assert [x.utterance for x in env.session.dialogue.turns[0].siblings] == ["Just cheer up."]


@pytest.mark.parametrize("reward", ["delta", "terminal"])
def test_where_the_scale_ends_bad_replies_are_told_apart_all_the_same(make_options, reward):
    card = env_card("RLVER-Empathy-v0").model_copy(
        update={"start": 1, "leave_below": 0, "reward": reward}
    )
    env = make(make_options, card=card)
    env.reset(seed=2)
    appraised = env.appraise_replies(["That is a pity.", "Just cheer up.", REPLIES[0]])
    if reward == "terminal":
        assert appraised.unclipped == appraised.rewards == (0, 0, 0)
        return
    assert appraised.rewards[:2] == (-1, -1)
    assert -1 > appraised.unclipped[0] > appraised.unclipped[1]
    assert appraised.unclipped[2] == appraised.rewards[2]


@pytest.mark.usefixtures("close_shared_clients")
def test_a_draft_is_said_and_kept_in_no_sibling():
    with ChatServer(EmbeddedAnswers()) as server:
        env = make({"user": "openai:any", "base_url": server.base_url, "calls": 1})
        env.reset(seed=2)
        env.step_from(env.appraise_replies(REPLIES[:1]), 0)
        appraised = env.appraise_replies(REPLIES)
    assert [x.draft for x in appraised.appraisals] == [None] * 3


class FailsToOpen(EmbeddedUser):
    def open(self, scene, emotion):
        if scene.seed % 2:
            raise UserFailed("not today")
        return super().open(scene, emotion)


def test_many_dialogues_are_counted_and_one_that_failed_to_open_is_passed_over():
    options = {"num_envs": 8, "user": FailsToOpen(), "on_failure": "truncate"}
    vector = gym.make_vec("RLVER-Empathy-v0", **options)
    assert isinstance(vector, EmpathyVectorEnv)
    vector.reset(seed=0)
    with pytest.raises(UtteranceError, match="1 replies for 8"):
        vector.appraise_replies([REPLIES])
    appraised = vector.appraise_replies([REPLIES] * 8)
    failed = [replies is None for replies in appraised]
    assert set(failed) == {True, False}
    with pytest.raises(UtteranceError, match="2 indices for 8"):
        vector.step_from(appraised, [0, 0])
    with pytest.raises(UtteranceError, match="which goes on"):
        vector.step_from([None] * 8, [0] * 8)
    *_, truncated, _ = vector.step_from(appraised, [0] * 8)
    assert truncated.tolist() == failed


@pytest.mark.usefixtures("close_shared_clients")
def test_many_dialogues_appraise_at_once_and_go_on_from_their_own_choice(make_options):
    vector = gym.make_vec("RLVER-Empathy-v0", num_envs=4, group_size=2, **make_options)
    singles = [make(make_options) for _ in range(4)]
    vector.reset(seed=7)
    for number, env in enumerate(singles):
        env.reset(seed=7 + number // 2)
    over = [False] * 4
    for turn in range(10):
        appraised = vector.appraise_replies([REPLIES] * 4)
        indices = [(turn + number) % 3 for number in range(4)]
        _, rewards, terminated, _, _ = vector.step_from(appraised, indices)
        for number, env in enumerate(singles):
            if appraised[number] is None:
                assert rewards[number] == 0
            if over[number]:
                continue
            replies = env.appraise_replies(REPLIES)
            _, reward, over[number], _, _ = env.step_from(replies, indices[number])
            assert (reward, over[number]) == (rewards[number], terminated[number])
        if all(over):
            break
    assert turn > 2


def test_side_by_side_takes_two_requests_a_turn_however_many_replies():
    with ChatServer(EmbeddedAnswers(), latency_s=0.1) as server:
        options = {"user": "openai:any", "base_url": server.base_url, "opening": "card"}
        vector = gym.make_vec("RLVER-Empathy-v0", num_envs=16, **options)
        vector.reset(seed=0)
        for _ in range(2):
            appraised = vector.appraise_replies([[*REPLIES, "Oh.", "And?", "Hm."]] * 16)
            vector.step_from(appraised, [0] * 16)
        assert len(server.requests) == 2 * 16 * 2
        assert server.max_concurrent_calls >= 16
