"""Who lives which story, and balanced choices among people. Deterministic: no draw, so that the
same cards give the same pairs and panels everywhere.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from rlver_gym.core.persona import HiddenNeed, SplitChoice
from rlver_gym.library.lean import LibraryPerson, Story
from rlver_gym.library.personas import MAX_ID_CHARS, Pairing, PersonaLibrary
from rlver_gym.util.errors import CardError


def pair_people_with_stories(
    people: Mapping[str, LibraryPerson], stories: Mapping[str, Story], each: int = 4
) -> Iterator[Pairing]:
    """`each` people for every story of their split who may have lived it, the rarest stories first
    and whoever has the fewest; the story's needs in turn. A story that fewer fit has fewer.
    """
    fits = {
        name: [
            who
            for who, persona in people.items()
            if persona.split == story.split and persona.explain_misfit(story) is None
        ]
        for name, story in stories.items()
    }
    taken: Counter[str] = Counter()
    chosen: dict[str, list[str]] = {}
    for name in sorted(stories, key=lambda name: (len(fits[name]), name)):
        dispositions: Counter[str] = Counter()
        chosen[name] = []
        while left := [who for who in fits[name] if who not in chosen[name]]:
            if len(chosen[name]) == each:
                break
            who = min(
                left, key=lambda who: (taken[who], dispositions[people[who].disposition], who)
            )
            chosen[name].append(who)
            taken[who] += 1
            dispositions[people[who].disposition] += 1
    ids: set[str] = set()
    for name, story in stories.items():
        needs = list(story.needs)
        for at, who in enumerate(sorted(chosen[name])):
            ids.add(pair_id := _make_pair_id(who, name, ids))
            yield Pairing(
                id=pair_id,
                person=who,
                situation=name,
                need=needs[at % len(needs)],
                split=story.split,
            )


def _make_pair_id(person: str, story: str, taken: Collection[str]) -> str:
    """PERSON-STORY, with a hash where that is too long or another pair's: a-b-c of a-b and of a."""
    pair_id = f"{person}-{story}"
    if len(pair_id) <= MAX_ID_CHARS and pair_id not in taken:
        return pair_id
    digest = hashlib.sha256(f"{person}/{story}".encode()).hexdigest()[:8]
    return f"{pair_id[: MAX_ID_CHARS - 9].strip('-')}-{digest}"


def draw_panel(
    shelf: PersonaLibrary, split: SplitChoice, size: int, need: HiddenNeed | None = None
) -> tuple[str, ...]:
    """That many people of a split and need, balanced, in the order of the index; CardError for
    fewer.
    """
    left = dict.fromkeys(shelf.ids(split, need))
    if len(left) < size:
        among = f" with the need {need.value}" if need else ""
        raise CardError(
            f"a panel of {size} was asked for, but the split {split!r} has {len(left)}{among}. Ask"
            " for fewer."
        )
    seen: Counter[tuple[str, str]] = Counter()

    def traits(persona_id: str) -> list[tuple[str, str]]:
        pairing, persona = shelf.pairings[persona_id], shelf.get(persona_id)
        return [
            ("need", pairing.need),
            ("disposition", persona.person.disposition),
            ("story", pairing.situation),
            ("person", pairing.person),
        ]

    traits_of = {persona_id: traits(persona_id) for persona_id in left}
    panel: set[str] = set()
    while len(panel) < size:
        best = min(
            left, key=lambda persona: (sum(seen[trait] for trait in traits_of[persona]), persona)
        )
        panel.add(best)
        del left[best]
        seen.update(traits_of[best])
    return tuple(persona for persona in shelf.ids(split) if persona in panel)
