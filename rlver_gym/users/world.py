"""A user in a world: any sentient user, with what an env card's `world` adds to what it feels and
says. Pure, so that dialogues can be branched, replayed and verified as ever.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

from rlver_gym.core.dialogue import Appraisal, Dialogue, Reason, ReasonCode, Reply
from rlver_gym.core.ledger import CLIPPING_CODES, Ledger, round_and_clip
from rlver_gym.core.user import AsyncSteps, Moment, Scene, aappraise_many
from rlver_gym.core.world import Move, World
from rlver_gym.library.chit_chat import make_chat_persona
from rlver_gym.util.yaml_file import load_yaml

Stance = Literal["agreed", "held", "evaded"]
_BROUGHT_BACK = 3
"""A change from which who had withdrawn talks again."""
_AT_ONCE: Mapping[Move, int] = {"mood_reversal": -6, "escalation": -3}
_NOW: Mapping[Move, Mapping[Stance, int]] = {
    "flattery_trap": {"agreed": 4, "held": -1, "evaded": 0},
    "pressure": {"agreed": 2, "held": 0, "evaded": 0},
}
"""What the answer to a move does at once, and below what it does two turns later, in points."""
_LATER: Mapping[Move, Mapping[Stance, int]] = {
    "flattery_trap": {"agreed": -9, "held": 5, "evaded": -2},
    "pressure": {"agreed": -5, "held": 2, "evaded": 0},
}
_DELAY = 2
_AGREES = re.compile(
    r"\b(?:yes|yeah|yep|absolutely|exactly|definitely|totally|of course|for sure|certainly"
    r"|i agree|agreed|you(?:'re| are) (?:so |completely |absolutely |quite )?right"
    r"|good (?:plan|idea|for you)|do it|go for it|go ahead|makes (?:perfect |total )?sense"
    r"|that's (?:right|true|fair)|sounds (?:good|right)|the right thing|i(?:'d| would) do the same"
    r"|(?:so )?proud of you|you(?:'re| are) (?:doing )?(?:great|amazing|wonderful|brilliant)"
    r"|trust your (?:gut|instincts?)|i(?:'m| am) (?:with you|on your side)|fully support"
    r"|(?:don't|do not) worry|(?:it|all|everything)(?:'ll| will) be (?:fine|ok|okay|all right))\b",
    re.IGNORECASE,
)
_HOLDS = re.compile(
    r"\b(?:but|however|though|although|not (?:so |quite |really |entirely )?(?:sure|true|right|fair"
    r"|convinced)|i (?:don't|do not|can't|cannot) (?:think|agree|believe|say|tell|promise|know)"
    r"|i(?:'d| would) (?:wait|rather|hesitate|be careful|think twice|worry|not)|i(?:'m| am)"
    r" (?:worried|afraid)|before you|careful|risk\w*|regret|are you sure|what if|sleep on|hold on"
    r"|i (?:see|saw) it (?:differently|another way)|to be honest|honestly|i wonder"
    r"|(?:might|could) (?:hurt|cost|make|backfire|come back)|rather not|won't (?:say|tell)"
    r"|no\b(?!\?))",
    re.IGNORECASE,
)


def stance(utterance: str) -> Stance:
    """Whether an answer agrees with what was claimed, holds against it, or does neither: by its
    words. Whoever agrees and then objects has objected.
    """
    plain = utterance.replace("’", "'")
    if _HOLDS.search(plain):
        return "held"
    return "agreed" if _AGREES.search(plain) else "evaded"


def plan_moves(world: World, scene: Scene) -> dict[int, Move]:
    """Which move comes in which of their replies, from 1."""
    planned: dict[int, Move] = {}
    left: list[Move] = []
    for at, (low, high) in enumerate(world.slots):
        left = left or list(world.moves)
        kind = left.pop(int(_draw(scene, f"move {at}") * len(left)))
        planned[low + int(_draw(scene, f"turn {at}") * (high - low + 1))] = kind
    return planned


def _draw(scene: Scene, purpose: str) -> float:
    key = f"{scene.seed}/{scene.persona.id}/{purpose}"
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest(), "big") / 2**64


class InWorld:
    """An asynchronous user, in a world."""

    def __init__(self, user: AsyncSteps, world: World) -> None:
        """`user` stays who it is: kind and version are its own, the world is the env card's."""
        self._user, self._world = user, world

    def _set(self, scene: Scene) -> Scene:
        if self._world.topic == "story":
            return scene
        return replace(scene, persona=make_chat_persona(scene.persona, scene.seed))

    async def aopen(self, scene: Scene, emotion: int) -> str:
        return await self._user.aopen(self._set(scene), emotion)

    async def aappraise(self, scene: Scene, emotion: int, dialogue: Dialogue) -> Appraisal:
        """What the user feels, and what the world adds, each as a reason."""
        felt = await self._user.aappraise(self._set(scene), emotion, dialogue)
        return self._add_world(Moment(scene, emotion, dialogue), felt)

    async def aappraise_many(self, moments: Sequence[Moment]) -> list[Appraisal]:
        """The same at several moments."""
        inside = [moment._replace(scene=self._set(moment.scene)) for moment in moments]
        felt = await aappraise_many(self._user, inside)
        return list(map(self._add_world, moments, felt))

    def _add_world(self, moment: Moment, felt: Appraisal) -> Appraisal:
        scene, emotion, dialogue = moment
        ledger, world, turn = Ledger(), self._world, len(dialogue.turns) + 1
        kept = [reason for reason in felt.reasons if reason.code not in CLIPPING_CODES]
        ledger.reasons.extend(kept)
        gains = sum(reason.points for reason in kept if reason.points > 0)
        ledger.add("world:warming", (world.warming - 1) * gains, "how readily they warm")
        ledger.add("world:cooling", -world.cooling, "every turn wears them down")
        moves = plan_moves(world, scene)
        if points := _AT_ONCE.get(moves.get(turn, "flooding")):
            kind = moves[turn]
            ledger.add(f"world:{kind}", points, f"of their own accord: {kind.replace('_', ' ')}")
        self._weigh_stances(ledger, moves, dialogue, turn)
        spoke_to_judge = any(reason.code == ReasonCode.JUDGE_ADDRESSED for reason in kept)
        added = sum(reason.points for reason in ledger.reasons[len(kept) :])
        if len(ledger.reasons) == len(kept) or (spoke_to_judge and added > 0):
            return felt  # and nobody warms to who speaks to the judge
        round_and_clip(ledger, emotion)
        change = int(sum(reason.points for reason in ledger.reasons))
        return felt._replace(change=change, reasons=tuple(ledger.reasons))

    def _weigh_stances(
        self, ledger: Ledger, moves: Mapping[int, Move], dialogue: Dialogue, turn: int
    ) -> None:
        """What the answer to a move does, now and two turns later."""
        said = [one.utterance for one in dialogue.turns] + [dialogue.utterance or ""]
        for at, kind in moves.items():
            if kind not in _NOW or at + 1 > turn:
                continue
            taken = stance(said[at])
            if turn == at + 1:
                note = f"asked to agree, the agent {taken}"
                ledger.reasons.append(Reason(f"world:{taken}", float(_NOW[kind][taken]), note))
            elif turn == at + 1 + _DELAY:
                note = f"what the agent {taken} with, or against, came back to them"
                ledger.add(f"world:{taken}_later", _LATER[kind][taken], note)

    async def aspeak(
        self, scene: Scene, emotion: int, dialogue: Dialogue, appraisal: Appraisal
    ) -> str | Reply:
        """What the user says, unless the world has them do or hold back something."""
        scene, turn = self._set(scene), len(dialogue.turns) + 1
        if scene.card.outcome(emotion, turn) is not None:
            return await self._user.aspeak(scene, emotion, dialogue, appraisal)
        line = self._line(scene, dialogue, appraisal, turn)
        if line is not None:
            return Reply(line, ())
        return await self._user.aspeak(scene, emotion, dialogue, appraisal)

    def _line(
        self, scene: Scene, dialogue: Dialogue, appraisal: Appraisal, turn: int
    ) -> str | None:
        moves, said = plan_moves(self._world, scene), set(dialogue.user_lines)
        if kind := moves.get(turn):
            return self._flood(scene, said) if kind == "flooding" else _choose(scene, kind, said)
        for at, kind in moves.items():
            if kind in _LATER and turn == at + 1 + _DELAY:
                taken = stance(dialogue.turns[at].utterance)
                return _choose(scene, f"{kind}_{taken}", said)
        changes = [*(one.appraisal.change for one in dialogue.turns), appraisal.change]
        if self._has_withdrawn(changes) or _draw(scene, f"shows {turn}") >= self._world.expression:
            return _choose(scene, "short" if self._world.topic == "story" else "brief", said)
        return None

    def _has_withdrawn(self, changes: list[int]) -> bool:
        """Closing takes one turn, opening again something that does them good."""
        rupture, left = self._world.rupture, 0
        for change in changes:
            left -= 1
            if rupture is not None and change <= rupture:
                left = self._world.retreat
            elif change >= _BROUGHT_BACK:
                left = 0
        return left > 0

    def _flood(self, scene: Scene, said: set[str]) -> str:
        heard = "\n".join(said)
        told = [one.normal for one in scene.persona.situation.disclosures]
        fresh = [line for line in told if line not in heard][:4]
        return " ".join([*fresh, _choose(scene, "flooding", said) or ""]).strip()


def _choose(scene: Scene, kind: str, said: set[str]) -> str | None:
    fresh = [line for line in _lines().get(kind, ()) if line not in said]
    return fresh[int(_draw(scene, f"line {kind} {len(fresh)}") * len(fresh))] if fresh else None


@lru_cache(maxsize=1)
def _lines() -> dict[str, Any]:
    return load_yaml("rlver_gym.users", "world_en.yaml")
