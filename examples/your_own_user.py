"""Your own user: three functions of values. This is the shipped one with a train to catch.

python examples/your_own_user.py, or from the command line:
PYTHONPATH=examples rlver-gym bench --split demo --user your_own_user:Hurried --agent listener
"""

import gymnasium as gym

import rlver_gym  # noqa: F401 (registers the environments)
from rlver_gym import Appraisal, Dialogue, Reason
from rlver_gym.core.user import Scene
from rlver_gym.users import EmbeddedUser

PATIENCE, PERSONA = 15, "noor-the-old-dog"
SAY = "That quiet kitchen must ache.", "How long had he been with you?"
ON_AND_ON = "I keep thinking of what you told me, and wonder, if I may, and only if you like:"


class Hurried:
    """As the embedded user, but three words beyond its patience cost a point."""

    kind, version = "hurried", "1"

    def __init__(self) -> None:
        self.inner = EmbeddedUser()

    def open(self, scene: Scene, emotion: int) -> str:
        return self.inner.open(scene, emotion)

    def appraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        felt = self.inner.appraise(scene, emotion, dialogue)
        words = len((dialogue.utterance or "").split())
        # A turn moves nobody by more than 10 points.
        cost = min(max(0, words - PATIENCE) // 3, felt.change + 10)
        if cost == 0:
            return felt
        # The points of the reasons add up to the change.
        reason = Reason("hurry", -float(cost), f"{words} words, and a train to catch")
        return Appraisal(felt.change - cost, "My train…", (*felt.reasons, reason))

    def speak(self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal) -> str:
        return self.inner.speak(scene, emotion, dialogue, appraisal)


def main() -> None:
    for utterance in (" ".join(SAY), f"{SAY[0]} {ON_AND_ON} {SAY[1]}"):
        print(f"agent     {utterance}")
        for user in (EmbeddedUser(), Hurried()):
            env = gym.make("RLVER-Empathy-v0", persona=PERSONA, info="privileged", user=user)
            env.reset(seed=0)
            _, reward, _, _, info = env.step(utterance)
            told = [reason for reason in info["reasons"] if reason["code"] != "whole"]
            worst = min(told, key=lambda reason: reason["points"])
            print(f"{user.kind:9s} {reward:+.0f}  “{info['thought']}”", end="  worst: ")
            print(f"{worst['points']:+g} {worst['note']}")


if __name__ == "__main__":
    main()
