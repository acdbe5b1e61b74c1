"""What people are asked at a terminal, and what they type there."""

import re
import select
import sys

from rich.console import Console
from rich.text import Text


def can_ask() -> bool:
    return bool(sys.stdin and sys.stdin.isatty())


_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_PASTE_GAP_S = 0.05
"""Lines that come faster than this were not typed."""


def read_utterance(console: Console, prompt: Text) -> str:
    """What was typed or pasted, perhaps several lines. EOFError at the end of input."""
    if not can_ask() or not sys.stdout.isatty():
        console.print(prompt, end="")
        if sys.stdin is None:
            raise EOFError
        return input()
    lines = [input(_render_prompt(console, prompt))]
    while sys.platform != "win32" and select.select([sys.stdin], [], [], _PASTE_GAP_S)[0]:
        lines.append(input())
    return "\n".join(lines)


def _render_prompt(console: Console, prompt: Text) -> str:
    """The prompt as `input` takes it: the line editor must know which characters take no cell."""
    with console.capture() as shown:
        console.print(prompt, end="", soft_wrap=True)
    return _STYLE.sub("\x01\\g<0>\x02", shown.get()) if _enable_line_editing() else shown.get()


def _enable_line_editing() -> bool:
    """Whether `input` lets people edit the line, from now on."""
    try:
        import readline  # noqa: PLC0415 (it speaks to the terminal when it is imported)
    except ImportError:
        return False
    readline.parse_and_bind("set enable-bracketed-paste on")  # Python turns it off
    return True
