"""Persona folders, env cards and recordings as a stranger could make them: data
for tests, each with one fault.

`persona_folder` makes a good folder of one persona, `HOSTILE_FOLDERS` does one bad thing to such a
folder each.
"""

import json
import os
import shutil
from pathlib import Path

from rlver_gym.library.personas import shipped_personas_folder
from rlver_gym.util import shipped_cards

PERSON, SITUATION = "noor", "the-old-dog"
PERSONA = "mine"
INDEX = f"""language: en
personas:
- id: {PERSONA}
  person: {PERSON}
  situation: {SITUATION}
  need: praise
  split: demo
"""
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r\b"
"""What a terminal would obey: a title, a cleared screen, colour, right to left, a line anew."""
YAML_ESCAPES = r"\e]0;owned\a\e[2J\x9b31m\u202e\r\b"
"""The same inside double quotes of YAML."""
MARKUP = "[bold]no[/nope] [link=http://localhost]x[/link] :smile: <script>alert(1)</script>"
"""Text that Rich or a browser obeys as markup; a card may say it, and it is shown as it stands."""


def persona_folder(folder):
    for kind, name in (("people", PERSON), ("situations", SITUATION)):
        (folder / kind).mkdir(parents=True)
        shutil.copy(shipped_personas_folder() / kind / f"{name}.yaml", folder / kind)
    (folder / "index.yaml").write_text(INDEX, encoding="utf-8")
    return folder


def _replace(*parts, old, new):
    def change(folder):
        path = folder.joinpath(*parts)
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    return change


def _write(*parts, data):
    content = data.encode() if isinstance(data, str) else data
    return lambda folder: folder.joinpath(*parts).write_bytes(content)


def _instead(*parts, make):
    def change(folder):
        path = folder.joinpath(*parts)
        path.unlink()
        make(path)

    return change


def _terabyte(path):
    path.touch()
    os.truncate(path, 1 << 40)


def _linked_folder(folder):
    outside = folder.parent / f"{folder.name}-outside"
    shutil.move(folder / "people", outside)
    (folder / "people").symlink_to(outside)


_MANY_ENTRIES = "language: en\npersonas: [" + "{}," * 60_000 + "]"
_PERSON, _SITUATION = ("people", f"{PERSON}.yaml"), ("situations", f"{SITUATION}.yaml")
_TITLE = "title: The last appointment"
_PAIR = INDEX.partition("personas:\n")[2]


def _link(to):
    return lambda path: path.symlink_to(to)


def _title(new, old=_TITLE):
    """Another text in the situation, most often in place of its title."""
    return _replace(*_SITUATION, old=old, new=new)


HOSTILE_FOLDERS = {
    "no index": lambda folder: (folder / "index.yaml").unlink(),
    "an index that is a pipe": _instead("index.yaml", make=os.mkfifo),
    "an index that never ends": _instead("index.yaml", make=_link("/dev/zero")),
    "an index that is a folder": _instead("index.yaml", make=Path.mkdir),
    "an index of a terabyte": _instead("index.yaml", make=_terabyte),
    "an index in a circle": _instead("index.yaml", make=_link("index.yaml")),
    "an index with very many entries": _write("index.yaml", data=_MANY_ENTRIES),
    "an index that names a path": _write(
        "index.yaml", data=INDEX.replace(f"person: {PERSON}", "person: ../../../etc/passwd")
    ),
    "an index that names a long id": _write(
        "index.yaml", data=INDEX.replace(f"id: {PERSONA}", f"id: {'x' * 5000}")
    ),
    "an index with an id twice": _write("index.yaml", data=INDEX + _PAIR),
    "an index that is no text": _write("index.yaml", data=b"\xff\xfe\x00language"),
    "an index of another kind": _write("index.yaml", data="- 1\n- 2\n"),
    "a card that is a pipe": _instead(*_PERSON, make=os.mkfifo),
    "a card that never ends": _instead(*_PERSON, make=_link("/dev/zero")),
    "a card that leads outside": _instead(*_PERSON, make=_link("/etc/passwd")),
    "a folder that leads outside": _linked_folder,
    "a card of many bytes": _write(*_PERSON, data="x: " + "y" * 400_000),
    "a card that is no text": _write(*_PERSON, data=b"id: \xff"),
    "a card with control characters": _write(*_PERSON, data="id: \x00\x1b[31m"),
    "a card with escapes in a text": _title(f'title: "{YAML_ESCAPES}"'),
    "a card with escapes in a name": _title(f'{_TITLE}\n"{YAML_ESCAPES}": 1'),
    "a card with escapes in a name twice": _title(_TITLE + f'\n"{YAML_ESCAPES}": 1' * 2),
    "a card with a long name": _title(f"{_TITLE}\n? {'k' * 100_000}\n: 1"),
    "a card with a long value": _title(f"title: {'t' * 100_000}"),
    "a card with an alias": _title("title: &t The last appointment"),
    "a card with a tag": _title("title: !!python/object/apply:os.system ['true']"),
    "a card with binary": _title("title: !!binary aGVsbG8gaGVsbG8="),
    "a card with a deep value": _title("title: " + "[" * 10_000),
    "a card with a huge number": _title(f"ages: [20, {'9' * 5000}]", "ages: [20, 70]"),
    "a card with a huge hexadecimal number": _title(
        f"ages: [20, 0x{'f' * 90_000}]", "ages: [20, 70]"
    ),
    "a card with an endless number": _replace(*_PERSON, old="age: ", new="age: .inf #"),
    "a card with words that are none": _title(
        'words: ["-|\'"', 'words: ["slept|sleeping|lay beside"'
    ),
    "a card with very many lines": _title(
        "disclosures:\n" + "- {id: a, depth: 1, high: aa, normal: aa, low: aa}\n" * 3000,
        "disclosures:\n",
    ),
    "a card of another name": _replace(*_PERSON, old=f"id: {PERSON}", new="id: somebody"),
    "two documents": _title(f"{_TITLE}\n---\n"),
}
"""What spoils a good folder: each must be one error (exit code 2), or problems of a check (1)."""


def markup_folder(folder):
    """A folder whose cards are valid, and say in every place what Rich or a browser would obey."""
    persona_folder(folder)
    _replace(*_SITUATION, old=_TITLE, new=f"title: '{MARKUP}'")(folder)
    person = folder.joinpath(*_PERSON)
    lines = person.read_text(encoding="utf-8").split("\n")
    named = [f"name: '{MARKUP}'" if line.startswith("name:") else line for line in lines]
    person.write_text("\n".join(named), encoding="utf-8")
    return folder


_ENV = (shipped_cards("envs") / "RLVER-Empathy-v0.yaml").read_text(encoding="utf-8")
HOSTILE_ENV_CARDS = {
    "empty": b"",
    "no text": b"\xff\xff",
    "a huge number": _ENV.replace("start: 40", f"start: {'9' * 6000}").encode(),
    "a huge hexadecimal number": _ENV.replace("start: 40", f"start: 0x{'f' * 90_000}").encode(),
    "escapes": _ENV.replace("summary: ", f'"{YAML_ESCAPES}": 1\nsummary: ').encode(),
    "escapes in a text": _ENV.replace("notes: >", f'notes: "{YAML_ESCAPES}"\nother: >').encode(),
    "a long name": _ENV.replace("id: RLVER", f"id: {'x' * 5000}-RLVER").encode(),
    "an alias": b"a: &a [x, x]\nb: [*a, *a]",
    "a deep value": b"[" * 50_000,
    "many wrong fields": "\n".join(f"field{number}: 1" for number in range(10_000)).encode(),
    "turns without end": _ENV.replace("turns: ", "turns: 9").encode(),
}

_RECORDING = {
    "simulator": "judge",
    "agent": "near",
    "persona": "lin",
    "need": "praise",
    "disposition": "passive",
    "messages": [
        {"role": "user", "text": "I am tired.", "emotion": 40},
        {"role": "agent", "text": "What happened?"},
        {"role": "user", "text": "The pipe burst.", "emotion": 45, "change": 5},
    ],
}


def recording(**changes):
    """A good line of recordings, but for the changes."""
    return json.dumps({**_RECORDING, **changes}).encode()


def _last(**changes):
    first, said, answer = _RECORDING["messages"]
    return recording(messages=[first, said, {**answer, **changes}])


def _with_a_turn_before(**answer):
    first, *turn = _RECORDING["messages"]
    before = [turn[0], {"role": "user", "text": "It is cold here.", "emotion": 42, **answer}]
    return recording(messages=[first, *before, *turn])


_PROFILE = {"id": "lin", "player": "x", "scene": "y", "main_cha": "passive", "task": "praise"}
HOSTILE_RECORDINGS = {
    "nothing": b"",
    "no text": b"\xff",
    "deep JSON": b"[" * 200_000,
    "messages that are a number": recording(messages=5),
    "no messages": recording(messages=[]),
    "one message": recording(messages=_RECORDING["messages"][:1]),
    "no change": recording(messages=_RECORDING["messages"][:2]),
    "very many messages": recording(messages=_RECORDING["messages"] * 5000),
    "an emotion below zero": _last(emotion=-5),
    "an emotion off the scale": _last(emotion=10**30),
    "an emotion that is a text": _last(emotion="45"),
    "a change that is NaN": _last(change=float("nan")),
    "a change that is a list": _last(change=[5]),
    "no change in the middle": _with_a_turn_before(),
    "an unknown need of a shipped persona": recording(persona="gus-the-flatmate/bogus"),
    "a persona that is a list": recording(persona=["lin"]),
    "an agent that is nothing": recording(agent=None),
    "an agent that is an object": recording(agent={}),
    "a need of escapes": recording(need=ESCAPES),
    "a profile without an id": b'{"player": "x"}',
    "a profile with a list for an id": json.dumps({**_PROFILE, "id": ["x"]}).encode(),
    "a profile of numbers": json.dumps({**_PROFILE, "scene": 5, "player": 7}).encode(),
    "a profile of wrong traits": json.dumps({**_PROFILE, "cha_group": {"a": 1}}).encode(),
}
"""Files that `rescore` must refuse, in a folder of their own."""

SLOW_TEXTS = {
    "line feeds": "\n" * 30_000,
    "blanks": " " * 30_000,
    "stars": "*" * 30_000,
    "blanks and stars": " *" * 15_000,
    "a heading of blanks": "###" + " " * 29_000 + "x",
    "half lines": ("**  姓名 \n" * 3000)[:30_000],
}
"""Texts that make a careless regular expression take hours."""
