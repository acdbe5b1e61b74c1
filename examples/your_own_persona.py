"""Your own persona: change shipped cards, let the checker look at them, and talk.

python examples/your_own_persona.py     (elsewhere: rlver-gym talk --personas FOLDER)
"""

import tempfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import yaml

import rlver_gym  # noqa: F401 (registers the environments)
from rlver_gym.library.personas import library
from rlver_gym.people.card_check import check_cards

MIKA: dict[str, Any] = dict(
    id="mika", name="Mika", age=34, work="Repairs accordions in a shop by the harbour"
)
WARMED = """That one rings.
Now you're in tune with me.
I'll hum that on the way home.
Well, that was the right key.""".splitlines()
SAY = (
    "When did he die?",
    "I admire that you stayed with him to the end.",
)
INDEX = """
language: en
personas:
  - {id: mika-the-old-dog, person: mika, situation: the-old-dog, need: praise, split: demo}
"""


def write_cards(folder: Path) -> None:
    shipped = library().get("noor-the-old-dog")
    person = shipped.person.model_dump(mode="json") | MIKA
    person["manner"]["warmed"] = WARMED  # what Mika says when somebody praises something they did
    situation = shipped.situation.model_dump(mode="json")
    for kind, card in (("people", person), ("situations", situation)):
        (folder / kind).mkdir()
        (folder / kind / f"{card['id']}.yaml").write_text(yaml.safe_dump(card, sort_keys=False))
    (folder / "index.yaml").write_text(INDEX)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        write_cards(Path(name))
        print("wrong with the cards:", *(check_cards(Path(name)) or ["nothing"]))
        env = gym.make("RLVER-Empathy-v0", personas=name, split="demo", info="privileged")
        text, info = env.reset(seed=0)  # reads the cards
    print(f"\nMika   {text}\n       emotion {info['emotion']}")
    for utterance in SAY:
        text, reward, _, _, info = env.step(utterance)
        print(f"\nyou    {utterance}\n       {reward:+.0f}: “{info['thought']}”\nMika   {text}")


if __name__ == "__main__":
    main()
