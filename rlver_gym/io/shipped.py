"""Where the cards are that come with the package: `envs` and `personas`."""

from pathlib import Path

_PACKAGE = Path(__file__).parent.parent


def shipped_cards(name: str) -> Path:
    """The folder of that name: inside the installed package or, in a checkout, beside it.

    A checkout's own `rlver_gym/` is what Python imports when it is started in the checkout's folder, whatever is installed.
    """
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name
