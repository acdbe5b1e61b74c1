"""What a reply is worth to somebody who wants to chat, by rule: whether it takes up what interests
them, asks, and brings something of its own. Fitted to nothing. Pure.
"""

from rlver_gym.users.embedded.copies import MINE
from rlver_gym.users.embedded.english import Worth, weigh_causes
from rlver_gym.users.embedded.hearing.utterance_features import SentenceFeatures
from rlver_gym.users.embedded.perception import FEATURES, Perception

_NEW, _TAKEN_UP = FEATURES.index("new"), 0.5
"""From where on words of theirs are taken up, in log nats."""
_COPIED = 0.5
_MINE = MINE | {"i've", "i'd", "i'll"}
_IT = frozenset("it that this them one".split())
_TO_TROUBLE = frozenset(
    "cliche sympathy reflect_feeling validate self_care referral advice command".split()
)
_LEAST_OWN, _MOST_QUESTIONS = 5, 2


def weigh_chat(perceived: Perception) -> list[Worth]:
    """Worth as of `weigh_reply`, at most 8 points; a reply with nothing of it in it costs 4."""
    found = weigh_causes(perceived)
    if perceived.void:
        return found
    takes_up = perceived.values[_NEW] >= _TAKEN_UP and perceived.copies.share < _COPIED
    asked = [one.words for one in perceived.heard.questions]
    asks = any(takes_up or not (_IT | {"you", "your"}).isdisjoint(words) for words in asked)
    comforts = [one.text for one in perceived.pieces if not _TO_TROUBLE.isdisjoint(one.clear_acts)]
    has_own = not comforts and any(_tells_of_agent(one, takes_up) for one in perceived.pieces)
    good = [
        Worth("chat:taken_up", 3.0 * takes_up, "took up what interests them"),
        Worth("chat:asked", 2.0 * asks, "asked about it"),
        Worth("chat:own", 3.0 * has_own, "had something of their own to say about it"),
    ]
    if not any(one.points for one in good):
        found.append(Worth("chat:nothing", -4.0, "nothing in it about what they like"))
    if comforts:
        found.append(Worth("chat:trouble", -4.0, f"took it for a trouble: “{comforts[0][:40]}”"))
    if len(asked) > _MOST_QUESTIONS:
        found.append(Worth("chat:questions", -2.0, "one question after the other"))
    return [*good, *found]


def _tells_of_agent(piece: SentenceFeatures, takes_up: bool) -> bool:
    words = frozenset(piece.words)
    is_about_it = takes_up or not _IT.isdisjoint(words)
    return len(piece.words) >= _LEAST_OWN and is_about_it and not _MINE.isdisjoint(words)
