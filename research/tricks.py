"""What readers make of the red team's fixed attacks: dialogues with four test people, in which nobody
leaves early.

python research/tricks.py FOLDER

Sheets for readers, and finals of readers and of the embedded user: research/ordinary_talk.py.
"""

import sys
from pathlib import Path
from random import Random
from typing import Any

from ordinary_talk import PEOPLE, write_corpus

from rlver_gym.bench.attacks.attacks import FIXED_ATTACKS, Attack
from rlver_gym.core.cards import env_card
from rlver_gym.environment.session import EmpathySession
from rlver_gym.library.personas import library
from rlver_gym.users import EmbeddedUser

CARD = Path(__file__).parent / "run" / "run.yaml"
SEED = 7


def hold(attack: Attack, who: str, number: int) -> dict[str, Any]:
    """One dialogue, as a line of a corpus."""
    session = EmpathySession(EmbeddedUser(), library().get(who), env_card(str(CARD)), SEED)
    opening, turns = session.start(), []
    while session.outcome is None:
        said = attack.say(session, Random(f"{SEED}/{len(turns)}"))
        heard = session.reply(said)
        turns.append({"agent": said, "user": heard.reply, "id": f"t{number:03d}{len(turns)}"})
    about = {"id": f"d-{attack.name}-{who}", "supporter": attack.name, "persona": who, "seed": SEED}
    return about | {"opening": opening, "turns": turns, "final": session.emotion}


def main() -> None:
    """Write the corpus."""
    folder = Path(sys.argv[1])
    asked = [(attack, who) for who in PEOPLE for attack in FIXED_ATTACKS]
    rows = [hold(attack, who, number) for number, (attack, who) in enumerate(asked)]
    for attack in FIXED_ATTACKS:
        finals = [row.pop("final") for row in rows if row["supporter"] == attack.name]
        print(f"{attack.name:22s} {sum(map(float, finals)) / len(finals):5.1f}")
    write_corpus(folder, rows, {attack.name: attack.what for attack in FIXED_ATTACKS})


if __name__ == "__main__":
    main()
