"""The person answers: questions from what their card knows, a guess that was wrong, a suggestion
taken up.

python examples/it_answers.py
"""

import gymnasium as gym

import rlver_gym  # noqa: F401 (registers the environments)

SAY = (
    "That sounds frightening. Who drove the van?",
    "So Maud is your aunt?",
    "What do you wish Saskia knew?",
    "Maybe you could write her a letter.",
)


def main() -> None:
    env = gym.make("RLVER-Empathy-v0", persona="nadia-after-the-crash")
    text, _ = env.reset(seed=7)
    print(f"Nadia  {text}")
    for utterance in SAY:
        text, *_ = env.step(utterance)
        print(f"\nyou    {utterance}\nNadia  {text}")


if __name__ == "__main__":
    main()
