"""Who lives which story, and balanced choices among people. Deterministic: no draw, so that the
same cards give the same pairs and panels everywhere.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from rlver_gym.core.persona import HiddenNeed, SplitChoice
from rlver_gym.library.lean import LibraryPerson, Story
from rlver_gym.library.personas import Pairing, PersonaLibrary
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
    for name, story in stories.items():
        needs = list(story.needs)
        for at, who in enumerate(sorted(chosen[name])):
            yield Pairing(
                id=f"{who}-{name}",
                person=who,
                situation=name,
                need=needs[at % len(needs)],
                split=story.split,
            )


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
