"""A first conversation: say five things to a simulated person and see how each one lands: a
question is answered, a mistake is put right.

python examples/first_conversation.py
"""

import gymnasium as gym

import rlver_gym  # noqa: F401 (registers the environments)


def main() -> None:
    env = gym.make("RLVER-Empathy-v0", persona="noor-the-old-dog", info="privileged")
    text, info = env.reset(seed=0)
    print(f"user   {text}\n       emotion {info['emotion']}")
    for utterance in (
        "Everything will be okay. Stay positive!",
        (
            "You still step over his place, ten days on. What happens in you, when your foot does"
            " that?"
        ),
        "You carried him down those stairs yourself, at two at night. What was that like for you?",
        "How old was he?",
        "And your sister rang the vet for you?",
    ):
        text, reward, terminated, _, info = env.step(utterance)
        print(
            f"\nagent  {utterance}\n       {reward:+.0f}, emotion {info['emotion']}:"
            f" “{info['thought']}”"
        )
        for reason in info["reasons"]:
            print(f"       {reason['points']:+.2f}  {reason['note']}")
        print(f"user   {text}")
        if terminated:
            break


if __name__ == "__main__":
    main()
