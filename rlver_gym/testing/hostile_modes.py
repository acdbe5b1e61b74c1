"""All modes of a hostile server."""

from rlver_gym.testing.hostile import Mode
from rlver_gym.testing.hostile_bodies import BODY_MODES
from rlver_gym.testing.hostile_http import HTTP_MODES

MODES: tuple[Mode, ...] = (*HTTP_MODES, *BODY_MODES)
"""Each group is one kind of malice; its variants go through what that kind can do."""
GROUPS: tuple[str, ...] = tuple(dict.fromkeys(mode.group for mode in MODES))
"""The kinds, by name."""
