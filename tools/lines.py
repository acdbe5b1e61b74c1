"""Lines by room, of one revision or of two beside each other: raw, code, docstring, comment.

python tools/lines.py [REVISION [REVISION]]      (default: HEAD; `main~20 main` shows what changed)

A room is a folder of the package or of the tests with all that is in it. A line that holds code and
a comment is code; what is left of the raw lines is blank.
"""

import ast
import io
import subprocess
import sys
import tokenize
from collections import defaultdict
from typing import NamedTuple, Self


class Lines(NamedTuple):
    """How many lines of each kind."""

    raw: int = 0
    code: int = 0
    docstring: int = 0
    comment: int = 0

    @classmethod
    def of(cls, text: str) -> Self:
        """Count a Python file."""
        docstring = {
            line
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
            for line in range(node.lineno, (node.end_lineno or 0) + 1)
        }
        code: set[int] = set()
        comment: set[int] = set()
        layout = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                comment.add(token.start[0])
            elif token.type not in (*layout, tokenize.ENDMARKER):
                code |= set(range(token.start[0], token.end[0] + 1))
        code -= docstring
        return cls(text.count("\n"), len(code), len(docstring), len(comment - code - docstring))

    def plus(self, other: Self) -> Self:
        """Both together."""
        return type(self)(*map(sum, zip(self, other, strict=True)))


def count_rooms(revision: str) -> dict[str, Lines]:
    """The lines of each room of a revision, "rlver_gym" and "tests" for all of theirs."""
    rooms: dict[str, Lines] = defaultdict(Lines)
    for path in run_git("ls-tree", "-r", "--name-only", revision, "rlver_gym", "tests").split("\n"):
        if path.endswith(".py"):
            lines = Lines.of(run_git("show", f"{revision}:{path}"))
            top, *below = path.split("/")
            for room in {top, f"{top}/{below[0]}" if len(below) > 1 else top}:
                rooms[room] = rooms[room].plus(lines)
    return dict(rooms)


def run_git(*arguments: str) -> str:
    """What git prints, in this checkout."""
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def main(revisions: list[str]) -> None:
    """Print a row a room: its lines, or those of two revisions and the difference of the raw."""
    counts = [count_rooms(revision) for revision in revisions or ["HEAD"]]
    kinds = "".join(f"{kind:>10}" for kind in Lines._fields)
    print(f"{'':26}" + "".join(kinds for _ in counts) + ("      less" if len(counts) > 1 else ""))
    for room in sorted({room for count in counts for room in count}):
        rows = [count.get(room, Lines()) for count in counts]
        numbers = "".join(f"{number:10,}" for row in rows for number in row)
        less = f"{rows[0].raw - rows[-1].raw:10,}" if len(rows) > 1 else ""
        print(f"{room:26}{numbers}{less}")


if __name__ == "__main__":
    main(sys.argv[1:])
