"""What browser tests share: a run in which everything is markup, a training, and small steps."""

import json
from pathlib import Path

import pytest
from hostile_run import mark_texts

from rlver_gym.bench.folder import EPISODES, MANIFEST, compute_manifest_checksum
from rlver_gym.bench.run import read_episodes

KEY = "listener/gus-the-flatmate/0"
CHROMIUM = "/usr/bin/chromium"
BROWSER_TEST = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path(CHROMIUM).exists(), reason=f"needs {CHROMIUM}"),
]
MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>\u202e\"'`{{3}}"


class Hostile:
    """An agent of somebody's own whose words are markup."""

    def reply(self, messages):
        return MARKUP


def show(page, address):
    page.goto(f"{page.here}{address}")


def expect(found):
    return pytest.importorskip("playwright.sync_api").expect(found)


def hostile_run(held, folder):
    """The same run, in which every text that can be anything is markup; an agent's name too."""
    folder.mkdir()
    manifest = (held / MANIFEST).read_text(encoding="utf-8")
    plain = json.loads(manifest)
    name = f"openai:{MARKUP}".replace("\u202e", "")  # what a plan takes
    plain["plan"]["agents"] = [name, "listener", "oracle"]
    plain["agents"] = {name: {}, "listener": {}, "oracle": {}}
    plain["check"] = compute_manifest_checksum(plain)
    (folder / MANIFEST).write_text(json.dumps(plain), encoding="utf-8")
    lines = []
    for one in read_episodes(held):
        agent = name if one.agent == "echo" else one.agent
        lines.append(mark_texts(one, MARKUP)._replace(agent=agent).to_json())
    (folder / EPISODES).write_text("\n".join(lines) + "\n", encoding="utf-8")
    for file, line in {
        "ratings.jsonl": {"rater": MARKUP, "turn": 1, "change": 1},
        "notes.jsonl": {"turn": 1, "text": MARKUP},
        "judgements.jsonl": {"scores": {"empathic_depth": 1}},
    }.items():
        (folder / file).write_text(json.dumps({"dialogue": KEY} | line) + "\n")
    return folder


def training_run(folder, said="At iteration {}."):
    """A training run with a reference, and one held-out dialogue each second iteration."""
    folder.mkdir()
    lines = [
        {"iteration": at, "emotion": 20.0 + at, "reference_score": 21.0, "return": None}
        for at in range(1, 6)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    dialogue = {"persona": "gus-the-flatmate", "seed": 1, "score": 3.0, "outcome": "left"}
    evaluations = [
        {"iteration": at, "dialogues": [{**dialogue, "lines": [["agent", said.format(at), ""]]}]}
        for at in (0, 2, 4)
    ]
    text = "".join(json.dumps(one) + "\n" for one in evaluations)
    (folder / "evaluations.jsonl").write_text(text)
    return folder
