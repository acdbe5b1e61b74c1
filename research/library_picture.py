"""How the shipped library is balanced: python research/library_picture.py > docs/library.svg"""

from collections import Counter, defaultdict

from rlver_gym.core.persona import SPLITS, Disposition, HiddenNeed
from rlver_gym.library.personas import LIBRARY, PersonaLibrary

TOPIC = "topic (a story has two or three)"
COLUMNS = (("split", "hidden need", "disposition"), ("age", "gender", "way of typing"), (TOPIC,))
AGES = {16: "16 to 29", **{n: f"{n} to {n + 9}" for n in (30, 40, 50, 60)}, 70: "70 to 80"}
GENDERS, TYPING = ("female", "male", "nonbinary"), ("careful", "plain", "quick", "terse")
ORDER = [*SPLITS, *HiddenNeed, *Disposition, *AGES.values(), *GENDERS, *TYPING]
COLOURS = {"train": "#3b6ea8", "validation": "#e0a030", "test": "#79b8a4"}
WIDTH, ROW, BAR, LABEL = 300, 18, 150, 112


def text(x: float, y: float, words: object, style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{words}</text>'


def box(x: float, y: float, width: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="13" fill="{colour}"/>'


shelf = PersonaLibrary(LIBRARY)
counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
for one in shelf.pairings.values():
    person, story = shelf.lean_person(one.person), shelf.story(one.situation)
    age = AGES[max(first for first in AGES if first <= person.age)]
    values = (one.split, one.need, person.disposition, age, person.gender, person.typing)
    panels = zip((*COLUMNS[0], *COLUMNS[1]), values, strict=True)
    for panel, row in (*panels, *((TOPIC, topic) for topic in story.topics)):
        counts[panel][str(row)][one.split] += 1

parts, height = [], 0
for at, split in enumerate(SPLITS[:3]):
    parts += [box(10 + 90 * at, 10, 13, COLOURS[split]), text(28 + 90 * at, 21, split)]
for at, column in enumerate(COLUMNS):
    y = 34
    for panel in column:
        rows = counts[panel]
        parts.append(text(10 + at * WIDTH, y + 12, panel, 'font-weight="bold"'))
        scale = BAR / max(row.total() for row in rows.values())
        key = {name: ORDER.index(name) if name in ORDER else -rows[name].total() for name in rows}
        for name in sorted(rows, key=lambda row, key=key: (key[row], row)):
            y, x = y + ROW, 10.0 + at * WIDTH + LABEL
            parts.append(text(x - 6, y + 12, name.replace("_", " "), 'text-anchor="end"'))
            for split in COLOURS:
                parts.append(box(x, y + 2, rows[name][split] * scale, COLOURS[split]))
                x += rows[name][split] * scale
            parts.append(text(x + 4, y + 12, rows[name].total(), 'fill="#555"'))
        y += 2 * ROW
    height = max(height, y)
width, font = 3 * WIDTH + 10, 'font-family="sans-serif" font-size="11"'
print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {font}>')
print(f'<rect width="{width}" height="{height}" fill="#fff"/>', *parts, "</svg>", sep="\n")
