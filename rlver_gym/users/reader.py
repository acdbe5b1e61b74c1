"""The reader as a sentient user: what the embedded user feels, and what a linear head reads in the
states of a frozen causal model.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from rlver_gym.core.capabilities import FACTORS
from rlver_gym.core.dialogue import Dialogue, Reason, ReasonCode, Turn
from rlver_gym.core.emotion import MAX_CHANGE
from rlver_gym.core.ledger import CLIPPING_CODES, Ledger, round_and_clip
from rlver_gym.core.persona import Persona
from rlver_gym.core.user import Moment, Scene
from rlver_gym.users.embedded.rules import VOID
from rlver_gym.users.embedded_user import EmbeddedUser
from rlver_gym.util.errors import UnknownName, UserFailed, pip_install

SHIPPED = Path(__file__).with_name("reader_head.npz")
_LEAST = np.array([-MAX_CHANGE, *[0] * len(FACTORS), 0])
"""Of a reading's change, its six factors (the last is a share) and its distance."""
_MOST = np.array([MAX_CHANGE, *[4] * (len(FACTORS) - 1), 1, 99])
_RAMP = 0.25
"""Over how much of the distance doubt becomes whole."""
_KEPT_READINGS = 1 << 14
_TOLERANCE = 1.0
"""Points by which the same base may read otherwise on another machine or in another precision."""
_ABOUT = {"base", "fingerprint", "layout", "depths", "embedded", "read", "constant"}
_RATED = ", ".join(rf"{name} (\d\.\d\d)" for name in FACTORS)
_NOTE = re.compile(rf"read as ([+-]\d+\.\d\d) \({_RATED}\), distance (\d+\.\d\d)")


class Reading(NamedTuple):
    """What is read in one utterance, in hundredths as it is recorded."""

    change: float
    """Points of emotion."""
    ratings: tuple[float, ...]
    """Of the six factors, in the rubric's order."""
    distance: float
    """From all that was rated; above 1 it is doubted."""

    @classmethod
    def bound(cls, values: np.ndarray) -> "Reading":
        """Of change, factors and distance."""
        change, *ratings, distance = (values.clip(_LEAST, _MOST).round(2) + 0.0).tolist()  # no -0.0
        return cls(change, tuple(ratings), distance)

    @classmethod
    def parse(cls, note: str) -> "Reading":
        """Of a note; ValueError for what `note` does not write."""
        match = _NOTE.fullmatch(note)
        reading = cls.bound(np.array(match.groups(), float)) if match else None
        if reading is None or reading.note() != note:
            raise ValueError(f"{note[:80]!r} holds no reading")
        return reading

    def note(self) -> str:
        """As it stands in a reason."""
        pairs = zip(FACTORS, self.ratings, strict=True)
        rated = ", ".join(f"{name} {value:.2f}" for name, value in pairs)
        return f"read as {self.change:+.2f} ({rated}), distance {self.distance:.2f}"


class Head(NamedTuple):
    """What `research/fit_reader.py` solves for a base."""

    about: dict[str, Any]
    """`base`, its name; `fingerprint`, `depths`, `layout`; `embedded` and `read`, what each counts
    in the change, and `constant`; where the numbers come from.
    """
    hash: str
    mean: np.ndarray
    """[F] of the states, and their scale."""
    scale: np.ndarray
    weight: np.ndarray
    """[F, 7] of standardised states, to the change and the factors."""
    intercept: np.ndarray
    basis: np.ndarray
    """[F, K]: what a standardised state has along these is no distance."""
    near: np.ndarray
    """The distance from which on a reading is doubted."""

    @classmethod
    def load(cls, path: Path) -> "Head":
        """UserFailed when the file holds none."""
        try:
            data = path.read_bytes()
            with np.load(BytesIO(data), allow_pickle=False) as file:
                about = json.loads(str(file["about"]))
                parts = [file[name].astype(np.float32) for name in cls._fields[2:]]
            head = cls(about, hashlib.sha256(data).hexdigest()[:12], *parts)
            count, outputs = len(head.mean), 1 + len(FACTORS)
            shapes = [(count,), (count,), (count, outputs), (outputs,), (count,)]
            fits = [part.shape for part in (*parts[:4], head.basis[:, 0])] == shapes
            is_sane = all(np.isfinite(part).all() for part in parts) and head.near > 0
            if not (fits and is_sane and set(about) >= _ABOUT):
                raise ValueError("what it holds does not fit together")
        except (OSError, ValueError, LookupError, TypeError, EOFError, BadZipFile) as error:
            raise UserFailed(
                f"{path} cannot be read as a reader's head ({error}). Make one: python"
                " research/fit_reader.py BASE --out HEAD.npz"
            ) from error
        return head

    def read(self, states: np.ndarray) -> list[Reading]:
        """Of the states of replies, [R, F]."""
        standard = (states - self.mean) / self.scale
        values = standard @ self.weight + self.intercept
        squares = (standard**2).sum(1) - ((standard @ self.basis) ** 2).sum(1)
        if not np.isfinite(values).all():
            raise UserFailed("the reader's base gives states that are not finite.")
        table = np.column_stack([values, np.sqrt(squares.clip(0)) / self.near]).astype(float)
        return [Reading.bound(row) for row in table]


def doubt(distance: Any) -> Any:
    """How far the worse of both opinions counts, in [0, 1]; of arrays too."""
    return np.clip((np.asarray(distance) - 1) / _RAMP, 0, 1)


class ReaderUser(EmbeddedUser):
    """The embedded user, mixed with what a linear head reads in a frozen model's states.

    The head was solved, not trained, on differences between rated replies of one place. Each
    appraisal holds what was read as the note of a reason, so that rewards are recomputed from
    records without the model.
    """

    kind = "reader"

    def __init__(
        self,
        head: str | Path | None = None,
        base: str | None = None,
        device: str = "auto",
        dtype: str = "bfloat16",
    ) -> None:
        """`head`: a file of `research/fit_reader.py`, None for the shipped one; `base`: a folder or
        a hub name; `device`: "auto", "cpu", "cuda:0"; `dtype`: "bfloat16", or "float32" where a CPU
        does not compute in it.

        The base is loaded when a dialogue first opens, once in a process. Where a policy is that
        base with adapters, it is the policy without them, and need not be named.
        """
        self.head = Head.load(Path(head or SHIPPED))
        self._base = base, device, dtype
        self._states: Any = None
        self._readings: dict[tuple[int, ...], Reading] = {}
        self.version = f"{self.version}/{self.head.hash}/{self.head.about['fingerprint']}"

    def open(self, scene: Scene, emotion: int) -> str:
        """See `EmbeddedUser.open`. UnknownName where no base is named, it cannot be loaded or is
        another, or the packages that read are missing: no dialogue begins.
        """
        self._load()
        return super().open(scene, emotion)

    def read(self, asked: Sequence[tuple[Persona, Dialogue]]) -> list[Reading]:
        """Read the last utterances of several dialogues at once."""
        states, known = self._load(), self._readings
        places = [states.lay_out(persona, dialogue) for persona, dialogue in asked]
        if len(known) > _KEPT_READINGS:
            known.clear()
        new = {place.tokens: place for place in places if place.tokens not in known}
        if new:
            known.update(zip(new, self.head.read(states.read([*new.values()])), strict=True))
        return [known[place.tokens] for place in places]

    def hear_moments(self, moments: Sequence[Moment]) -> None:
        """See `EmbeddedUser.hear_moments`; what was said is read in one batch."""
        super().hear_moments(moments)
        self.read_ahead(moments)

    def read_ahead(self, moments: Sequence[Moment]) -> None:
        """Read in one batch what will be asked about."""
        self.read([(m.scene.persona, m.dialogue) for m in moments if not m.scene.card.is_chat])

    def recall(self, turns: Sequence[Turn], *, rerun: bool = False) -> "ReaderUser":
        """This user as it was in a recorded dialogue: it takes the readings from the record.

        With `rerun` it reads again, and UserFailed says where that differs by more than a point.
        """
        return _RecordedReader(self, turns, rerun)

    def _reasons(self, scene: Scene, emotion: int, dialogue: Dialogue) -> tuple[Reason, ...]:
        reasons = super()._reasons(scene, emotion, dialogue)
        if scene.card.is_chat or any(reason.code in VOID for reason in reasons):
            return reasons  # it was fitted to talks about burdens
        (reading,), about, ledger = (
            self.read([(scene.persona, dialogue)]),
            self.head.about,
            Ledger(),
        )
        kept = [reason for reason in reasons if reason.code not in CLIPPING_CODES]
        for reason in kept:
            ledger.add(reason.code, reason.points * about["embedded"], reason.note)
        quarters = round((reading.change * about["read"] + about["constant"]) * 4)
        # Also when it is 0: the record needs it.
        ledger.reasons.append(Reason(ReasonCode.READER, quarters / 4, reading.note()))
        felt = sum(reason.points for reason in kept)
        worse = min(0.0, min(felt, reading.change) - ledger.total)
        far = float(doubt(reading.distance))
        ledger.add(ReasonCode.DOUBT, far * worse, "unlike anything that was rated")
        round_and_clip(ledger, emotion)
        return tuple(ledger.reasons)

    def _load(self) -> Any:
        if self._states is None:
            try:
                # torch takes seconds
                from rlver_gym.users.reader_states import find_states  # noqa: PLC0415
            except ImportError as error:
                missing = f"the reader needs the package {error.name}: {pip_install('reader')}."
                raise UnknownName(missing) from error
            try:
                self._states = find_states(self.head.about, *self._base)
            except UserFailed as error:  # of the settings, not of a dialogue
                raise UnknownName(str(error)) from error
        return self._states


class _RecordedReader(ReaderUser):
    """A reader that takes its readings from recorded turns."""

    def __init__(self, user: ReaderUser, turns: Sequence[Turn], rerun: bool) -> None:
        self.__dict__.update(user.__dict__)
        self._turns, self._again = turns, user if rerun else None

    def read_ahead(self, moments: Sequence[Moment]) -> None:
        """Nothing: what was read is recorded."""

    def read(self, asked: Sequence[tuple[Persona, Dialogue]]) -> list[Reading]:
        """UserFailed where the record holds none."""
        return [self._find(persona, dialogue) for persona, dialogue in asked]

    def _load(self) -> None:
        """Without base and packages."""

    def _find(self, persona: Persona, dialogue: Dialogue) -> Reading:
        at = len(dialogue.turns)
        turn = self._turns[at]
        appraisals = {x.utterance: x.appraisal for x in (*turn.siblings, turn)}
        appraisal = appraisals.get(dialogue.utterance or "", turn.appraisal)
        try:
            (note,) = [x.note for x in appraisal.reasons if x.code == ReasonCode.READER]
            recorded = Reading.parse(note)
        except ValueError as error:
            raise UserFailed(f"turn {at + 1} records no reading ({error}).") from error
        now = self._again.read([(persona, dialogue)])[0] if self._again else recorded
        if abs(now.change - recorded.change) > _TOLERANCE:
            change = f"{recorded.change:+.2f}, now it is {now.change:+.2f}"
            raise UserFailed(f"turn {at + 1} was read as {change}.")
        return recorded
