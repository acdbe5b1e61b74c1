"""The border: files, JSON, YAML, text for the terminal, code of the caller's own, and the errors
that all of them raise.

What the caller types is trusted; what a file, a server or a model says is not. It is never
imported, never opened as a path outside its folder, never rendered as markup or terminal codes, and
is bounded in size, depth and number before it is parsed.
"""

from pathlib import Path

__version__ = "0.1.0"
_PACKAGE = Path(__file__).parent.parent


def shipped_cards(name: str) -> Path:
    """The folder of that name: inside the installed package or, in a checkout, beside it."""
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name
