"""Feelings that words name. Knows no card."""

from collections.abc import Sequence

from rlver_gym.core.inquiries import Feeling

_WORDS = {
    Feeling.ANGRY: (
        "angry anger angrier furious fury rage raging cross mad livid annoyed annoying resent"
        " resentment resentful outraged seething bitter bitterness fuming irritated pissed"
    ),
    Feeling.SAD: (
        "sad sadness sadder grief grieve grieving mourning mourn heartbroken heartbreak"
        " heartbreaking sorrow cry crying cried tears tearful weep down miserable unhappy"
        " depressed low"
    ),
    Feeling.LONELY: "lonely loneliness alone isolated isolating isolation abandoned",
    Feeling.SCARED: (
        "scared scary afraid fear fears frightened frightening terrified terrifying terror panic"
        " panicked dread dreading"
    ),
    Feeling.WORRIED: "worried worry worries worrying anxious anxiety nervous uneasy",
    Feeling.ASHAMED: (
        "ashamed shame shameful embarrassed embarrassing embarrassment mortified mortifying awkward"
    ),
    Feeling.GUILTY: "guilty guilt blame remorse",
    Feeling.HURT: "hurt hurts hurting hurtful painful wounded stung stings sting pain ache aches",
    Feeling.DISAPPOINTED: "disappointed disappointing disappointment letdown disillusioned gutted",
    Feeling.TIRED: (
        "tired tiring exhausted exhausting exhaustion drained draining weary wearing worn burnt"
        " burned"
    ),
    Feeling.OVERWHELMED: "overwhelmed overwhelming swamped overloaded crushing crushed",
    Feeling.STUCK: "stuck trapped cornered paralysed paralyzed",
    Feeling.CONFUSED: (
        "confused confusing confusion lost puzzled bewildered unsure baffled baffling"
    ),
    Feeling.BETRAYED: "betrayed betrayal cheated deceived backstabbed",
    Feeling.HUMILIATED: "humiliated humiliating humiliation belittled ridiculed mocked",
    Feeling.HELPLESS: "helpless helplessness powerless powerlessness hopeless",
    Feeling.NUMB: "numb numbness empty emptiness hollow",
    Feeling.JEALOUS: "jealous jealousy envious envy",
    Feeling.PROUD: "proud pride",
    Feeling.RELIEVED: "relieved relief",
    Feeling.HOPEFUL: "hopeful optimistic",
    Feeling.UNSEEN: (
        "unseen invisible overlooked ignored unheard unappreciated unacknowledged unnoticed"
        " disregarded dismissed"
    ),
    Feeling.TORN: "torn conflicted ambivalent",
    Feeling.FOOLISH: "foolish fool stupid silly dumb naive",
    Feeling.MISSING: "miss missing homesick longing",
}
_OF_WORD = {word: feeling for feeling, words in _WORDS.items() for word in words.split()}
_NAMING = frozenset(_OF_WORD)


def feelings_in(words: Sequence[str]) -> tuple[Feeling, ...]:
    """The feelings that a sentence of these lower-case words names, in order, each once."""
    if _NAMING.isdisjoint(words):
        return ()
    found: list[Feeling] = []
    for at, word in enumerate(words):
        feeling = _OF_WORD.get(word)
        if feeling is None:
            continue
        before = words[at - 1] if at else ""
        if word in ("down", "low") and before not in ("feel", "feeling", "felt", "so", "you"):
            if not (
                word == "down"
                and at >= 2
                and words[at - 2] in ("let", "lets")
                and before in ("you", "me")
            ):
                continue
            feeling = Feeling.DISAPPOINTED
        if word == "lost" and before not in (
            "feel",
            "feeling",
            "felt",
            "so",
            "bit",
            "you're",
            "are",
        ):
            continue
        if word in ("miss", "missing") and before not in (
            "you",
            "must",
            "really",
            "you're",
            "and",
            "still",
            "to",
        ):
            continue
        if word == "blame" and "yourself" not in words:
            continue
        if feeling not in found:
            found.append(feeling)
    return tuple(found)
