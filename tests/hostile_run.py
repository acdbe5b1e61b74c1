"""Run folders that a stranger made to harm whoever looks at them. Nothing here runs anything."""

import json
import os
import sqlite3
import sys
from contextlib import closing
from typing import Any

from rlver_gym import EnvCard
from rlver_gym.bench.folder import (
    EPISODES,
    MANIFEST,
    RESPONSE_CACHE_FILE,
    compute_manifest_checksum,
    read_episodes,
)
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run
from rlver_gym.llm_client.response_cache import ResponseCache
from rlver_gym.llm_client.values import ChatAnswer, ChatMessage, ChatRequest

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e[/nope][bold]{{x}}|\n<img src=x>`"
"""What a terminal, a tag of markup, Markdown and HTML obey."""
NOISE = "[/nope][bold]{{x}}|<img src=x>`owned"
"""What markup obeys, of signs that may be in the name of a model."""
Manifest = dict[str, Any]


def honest_run(folder):
    people = ("noor-missed-evening",)
    list(run(BenchPlan(agents=("comfort", "listener"), seeds=1, persona_ids=people), folder))
    return folder


def mark_texts(episode, mark):
    """The same dialogue, with a mark at the end of everything that is said, thought and noted."""

    def mark_turn(turn):
        felt = turn.appraisal
        reasons = tuple(one._replace(code=mark, note=one.note + mark) for one in felt.reasons)
        appraisal = felt._replace(thought=felt.thought + mark, reasons=reasons)
        said = {"utterance": turn.utterance + mark, "reply": turn.reply + mark}
        return turn._replace(appraisal=appraisal, **said)

    turns = tuple(map(mark_turn, episode.turns))
    return episode._replace(opening=episode.opening + mark, turns=turns)


def noisy_run(folder):
    """A well formed run and response cache, with `ESCAPES` in every text that is free."""
    honest_run(folder)
    lines = []
    for episode in read_episodes(folder):
        parts = ("persona", "user", "user_version")
        names = {name: getattr(episode, name) + ESCAPES for name in parts}
        names |= {"agent": f"openai:{episode.agent}{NOISE}"}
        lines.append(mark_texts(episode, ESCAPES)._replace(**names).to_json())
    (folder / EPISODES).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def noisy(there):
        there["plan"]["agents"] = [f"openai:{name}{NOISE}" for name in there["plan"]["agents"]]
        there["agents"] = {name: {} for name in there["plan"]["agents"]}
        there |= {"command": [ESCAPES], "python": ESCAPES, "packages": {ESCAPES: ESCAPES}}
        there["user"] = {name: value + ESCAPES for name, value in there["user"].items()}
        there["personas"] = {name + ESCAPES: value for name, value in there["personas"].items()}
        there["created"] = ESCAPES
        there[ESCAPES] = 1

    edit_manifest(folder, noisy)
    noisy_cache(folder / RESPONSE_CACHE_FILE)
    return folder


def noisy_cache(path):
    """A response cache of two requests: one with `ESCAPES`, one with a flipped byte."""
    cache = ResponseCache(path)
    for words in ("one", "two"):
        asked = ChatRequest(f"{words}{ESCAPES}", (ChatMessage("user", ESCAPES),))
        answer = ChatAnswer(f"a secret {ESCAPES}", "stop", 1, 1)
        cache.put(asked, answer, server=f"http://{ESCAPES}")
    cache.close()
    damaged = "CAST(X'FFFE' || CAST(answer AS BLOB) AS TEXT)"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE answers SET answer = {damaged} WHERE model LIKE 'two%'")


def edit_manifest(folder, edit):
    """Apply `edit` to the plain manifest, and give it a checksum that fits."""
    path = folder / MANIFEST
    there = json.loads(path.read_text(encoding="utf-8"))
    edit(there)
    there["check"] = compute_manifest_checksum(there)
    path.write_text(json.dumps(there), encoding="utf-8")


def command_at(outside):
    """The words of a command that leaves a file `executed` in the folder."""
    return [sys.executable, "-c", f"open({str(outside / 'executed')!r}, 'w')"]


def _pipe(path):
    os.mkfifo(path)
    return path


def _own_weights(there, outside):
    there["plan"]["user"] = f"embedded:{_pipe(outside / 'weights.json')}"


def _own_cache(there, outside):
    (outside / "empty").touch()
    options = {"response_cache": str(outside / "empty"), "cache_mode": "record"}
    there["plan"] |= {"user": "openai:m", "user_options": options}


def _server(there, outside):
    options = {"base_url": "http://127.0.0.1:9/v1", "cache_mode": "off"}
    there["plan"] |= {"user": "openai:m", "user_options": options}


def _cache_elsewhere(there, outside):
    (outside / "empty").touch()
    there["plan"]["user"], there["server"] = "openai:m", "http://127.0.0.1:9/v1"
    there["response_cache"] = str(outside / "empty")


def _env_with_a_shipped_id(there, outside):
    there["plan"]["env"] = str(_pipe(outside / "card.yaml"))
    there["env_card"]["start"] = 90
    there["env_hash"] = EnvCard.model_validate(there["env_card"]).hash


def _cards_elsewhere(there, outside):
    there["persona_folder"] = str(_pipe(outside / "index.yaml").parent)


def _plan(**fields):
    return lambda there, _: there["plan"].update(fields)


MANIFESTS = {
    "user that is a command": (
        lambda there, outside: there["plan"].update(
            user="subprocess:Popen", user_options={"args": command_at(outside)}
        ),
        r"'subprocess:Popen'.*--user MODULE:NAME",
    ),
    "user from weights elsewhere": (_own_weights, "there is no user 'embedded:"),
    "user with a response cache of its own": (
        _own_cache,
        "no run records how its server is reached",
    ),
    "user with a server of its own": (_server, "no run records how its server is reached"),
    "response cache elsewhere": (_cache_elsewhere, "there is no response cache.*--response-cache"),
    "env that is a pipe": (_env_with_a_shipped_id, "--env CARD.yaml"),
    "persona cards elsewhere": (_cards_elsewhere, "--personas DIR"),
    "persona that is a path": (_plan(persona_ids=["../../../etc/passwd"]), "there is no persona"),
    "a hundred thousand agents": (_plan(agents=["comfort"] * 10**5), "agents"),
    "endless seeds": (_plan(seeds=10**17), "seeds"),
    "card that is none": (lambda there, _: there.update(env_card={"start": 10**17}), "env_card"),
}
"""What a manifest may hold, and what is said of it; edits may leave bait outside the run."""


def _link_outside(name):
    def link(folder, outside):
        (folder / name).rename(outside / name)
        (folder / name).symlink_to(outside / name)

    return link


def _put_instead(name, make=None, data=b""):
    def replace(folder, _):
        (folder / name).unlink()
        make(folder / name) if make else (folder / name).write_bytes(data)

    return replace


FILES = {
    "manifest that is a pipe": (_put_instead(MANIFEST, os.mkfifo), "a pipe, not a regular file"),
    "manifest that never ends": (
        _put_instead(MANIFEST, lambda path: path.symlink_to("/dev/zero")),
        "leads out of the folder",
    ),
    "manifest of brackets": (_put_instead(MANIFEST, data=b"[" * 100_000), "nested too deeply"),
    "episodes elsewhere": (_link_outside(EPISODES), "leads out of the folder"),
    "episodes that are a pipe": (_put_instead(EPISODES, os.mkfifo), "a pipe, not a regular file"),
    "episodes that are no text": (_put_instead(EPISODES, data=b"\xff\xfe\n"), "not UTF-8 text"),
}
"""What a folder may hold in place of a run's files, and what is said of it."""
