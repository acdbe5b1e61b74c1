"""A terminal that obeys nobody but us: whatever is printed on it is shown, never carried out."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from rlver_gym.io.text import printable


class SafeConsole(Console):
    """Rich's console for text from outside: strings are not markup unless asked for, and characters that a terminal would obey are replaced."""

    def __init__(self, **options: Any) -> None:
        """Options of `rich.console.Console`; markup, emoji codes and automatic highlighting are off unless asked for."""
        super().__init__(**{"markup": False, "emoji": False, "highlight": False, **options})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Rich's segments, their text made printable."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))
