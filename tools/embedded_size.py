"""Prints how large the embedded user is: lines and files of Python, and how many of its functions a
step visits (comprehensions are none) and how often it calls them (comprehensions too).

python tools/embedded_size.py
"""

import cProfile
import pstats
from pathlib import Path

from rlver_gym.core.cards import env_card
from rlver_gym.environment.session import EmpathySession
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser

ROOT = Path(__file__).parents[1] / "rlver_gym" / "users"
WORDS = (
    "What hurts most about it?",
    "That sounds lonely, and it was not your doing.",
    "Who else knows?",
    "You kept at it for weeks, and nobody thanked you.",
)


def main() -> None:
    """A dialogue is played once to compile the card, then again under the profiler."""
    files = [ROOT / "embedded_user.py", *sorted((ROOT / "embedded").glob("*.py"))]
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    print(f"{sum(lines.values()):,} lines in {len(lines)} files: {lines}")
    persona = library().get(library().ids("train")[0])
    profile = cProfile.Profile()
    for is_measured in (False, True):
        session = EmpathySession(EmbeddedUser(), persona, env_card("SAGE-Sentient-v0"), 0)
        session.start()
        for text in WORDS:
            if is_measured:
                profile.enable()
            session.reply(text)
            profile.disable()
    own, every = {}, {}
    for (path, _, name), (_, calls, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if path.startswith(str(ROOT.parent)):
            every[path, name] = calls
            if str(ROOT / "embedded") in path:
                own[path, name] = calls
    for whose, calls in (("the embedded user", own), ("rlver_gym", every)):
        each = sum(calls.values()) / len(WORDS)
        names = [name for _, name in calls if not name.endswith(("comp>", "genexpr>"))]
        print(f"a step: {each:.0f} calls of {len(names)} functions of {whose}")


if __name__ == "__main__":
    main()
