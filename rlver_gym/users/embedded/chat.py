"""What a reply is worth to somebody who wants to chat, by rule: whether it takes up what interests
them, asks, and brings something of its own. Fitted to nothing.
"""

from rlver_gym.users.embedded.english import ACT, LABEL, weigh
from rlver_gym.users.embedded.recall import Moment
from rlver_gym.users.embedded.rules import Contribution, find_rules, find_void

_TAKEN_UP, _COPIED, _CLEAR = 60, 0.5, 0.5
"""Hundredths of a nat of theirs; the share of runs of theirs; how sure an act must be."""
_MINE = frozenset("i me my mine myself we our us i'm i've i'd i'll".split())
_IT = frozenset("it that this them one".split())
_LEAST_OWN, _MOST_QUESTIONS = 5, 2


def weigh_chat(moment: Moment) -> list[Contribution]:
    """At most 8 points; a reply with nothing of it in it costs 4."""
    _, past, heard = moment
    void = find_void(moment)
    if void is not None:
        return [void.cost()]
    found = [rule.cost() for rule in find_rules(moment)]
    copied = len(heard.runs & past.told_runs) / max(4, len(heard.runs))
    takes_up = weigh(heard.tokens & past.told - past.own) >= _TAKEN_UP and copied < _COPIED
    asked = [one.words for one in heard.sentences if one.ask]
    asks = any(takes_up or not (_IT | {"you", "your"}).isdisjoint(words) for words in asked)
    sympathy = heard.labels[:, LABEL["sympathy"]]
    comforts = [
        one.text
        for at, one in enumerate(heard.sentences)
        if sympathy[at] >= _CLEAR or heard.evidence[at, ACT["cliche"]] > 1
    ]
    has_own = not comforts and any(
        len(one.words) >= _LEAST_OWN
        and (takes_up or not _IT.isdisjoint(one.words))
        and not _MINE.isdisjoint(one.words)
        for one in heard.sentences
    )
    good = [
        Contribution("chat:taken_up", 3.0 * takes_up, "took up what interests them"),
        Contribution("chat:asked", 2.0 * asks, "asked about it"),
        Contribution("chat:own", 3.0 * has_own, "had something of their own to say about it"),
    ]
    if not any(one.points for one in good):
        found.append(Contribution("chat:nothing", -4.0, "nothing in it about what they like"))
    if comforts:
        note = f"took it for a trouble: “{comforts[0][:40]}”"
        found.append(Contribution("chat:trouble", -4.0, note))
    if len(asked) > _MOST_QUESTIONS:
        found.append(Contribution("chat:questions", -2.0, "one question after the other"))
    return [*good, *found]
