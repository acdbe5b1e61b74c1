"""What always holds in dialogues of any length, with gibberish in them, saved at any turn."""

from collections import Counter

import pytest
from fuzzing import effort
from gymnasium.utils.env_checker import data_equivalence
from hypothesis import given
from hypothesis import strategies as st

from rlver_gym import EmpathyEnv, EnvCard, env_card, make_agent
from rlver_gym.library.personas import library
from rlver_gym.util.errors import DialogueError

PERSONAS = library().ids("demo")
AGENTS = ("oracle", "oracle", "listener", "comfort", "silent")
"""Of these the first reaches content, the last is left."""
NOISE = st.one_of(
    st.text(max_size=60),
    st.sampled_from(["", "x" * 5000, "\x1b[2J", "🙂" * 500, "?" * 300, "I hear you. " * 50]),
)


@st.composite
def env_cards(draw):
    """Any protocol that a card can state."""
    start = draw(st.integers(1, 99))
    return EnvCard.model_validate(
        {
            **env_card("RLVER-Empathy-v0").model_dump(),
            "start": start,
            "leave_below": draw(st.integers(0, start)),
            "content_at": draw(st.integers(start + 1, min(100, start + 30)) | st.just(100)),
            "turns": draw(st.integers(1, 20)),
            "reward": draw(st.sampled_from(["delta", "terminal"])),
            "difficulty": draw(st.sampled_from(["moderate", "challenging"])),
            "max_utterance_chars": draw(st.sampled_from([1, 40, 4000])),
        }
    )


@st.composite
def plays(draw):
    """A card, somebody, an agent, what is said in its place, and when the state is saved."""
    return {
        "card": draw(env_cards()),
        "persona": draw(st.sampled_from(PERSONAS)),
        "agent": draw(st.sampled_from(AGENTS)),
        "noise": draw(st.dictionaries(st.integers(0, 19), NOISE, max_size=4)),
        "seed": draw(st.integers(0, 2**31 - 1)),
        "save_at": draw(st.integers(0, 19)),
    }


def check_play(card, persona, agent, noise, seed, save_at):
    """Play, check every turn, play again from the saved state and the start; gives the outcome."""
    env, twin = (EmpathyEnv(card, persona=persona, info="privileged") for _ in range(2))
    supporter = make_agent(agent, library().get(persona))
    begin = env.reset(seed=seed)
    assert data_equivalence(begin, twin.reset(seed=seed))
    state, saved_at, said, seen, over = env.save_state(), 0, [], [], False
    while not over:
        turn = len(said)
        if turn <= save_at:
            state, saved_at = env.save_state(), turn
        heard = tuple(env.session.dialogue.messages())
        said.append(noise[turn] if turn in noise else supporter.reply(heard))
        seen.append(env.step(said[-1]))
        over = seen[-1][2]
        check_step(card, said[-1], seen[-1], seen[-2][4] if turn else begin[1], turn + 1)
    total, last = sum(step[1] for step in seen), seen[-1][4]
    assert total == (
        last["emotion"] - card.start if card.reward == "delta" else last["emotion"] / 100
    )
    with pytest.raises(DialogueError, match="over"):
        env.step("And then?")
    assert data_equivalence([twin.step(one) for one in said], seen)
    next_dialogue = twin.reset()
    twin.restore(state)
    assert data_equivalence([twin.step(one) for one in said[saved_at:]], seen[saved_at:])
    assert data_equivalence(twin.reset(), next_dialogue), "the random state was restored too"
    return last["outcome"]


def check_step(card, said, step, before, turn):
    reply, reward, terminated, truncated, info = step
    emotion, change = info["emotion"], info["change"]
    assert reply
    assert not truncated
    assert 0 <= emotion <= 100
    assert -10 <= change <= 10
    assert emotion == before["emotion"] + change
    assert sum(reason["points"] for reason in info["reasons"]) == change
    assert info["turn"] == turn <= card.turns
    assert info["cut_chars"] == max(0, len(said) - card.max_utterance_chars)
    assert info["outcome"] == card.outcome(emotion, turn)
    assert terminated == (info["outcome"] is not None)
    assert reward == (change if card.reward == "delta" else emotion / 100 if terminated else 0.0)


@effort(few=40, many=3000)
def test_dialogues_hold_what_is_promised_and_reach_every_end(examples):
    ends = Counter()

    @given(plays())
    def play(one):
        ends[check_play(**one)] += 1

    examples(play)()
    near = env_card("RLVER-Empathy-v0").model_copy(update={"content_at": 60, "turns": 12})
    # What is drawn depends on what else was imported; these reach their ends always.
    for persona in PERSONAS:
        for agent in (AGENTS[0], AGENTS[-1]):
            ends[check_play(near, persona, agent, {}, seed=0, save_at=2)] += 1
        short = near.model_copy(update={"turns": 1})
        ends[check_play(short, persona, AGENTS[0], {}, seed=0, save_at=0)] += 1
    assert set(ends) == {"content", "left", "out_of_turns"}
    assert ends["content"] >= min(5, len(PERSONAS))
