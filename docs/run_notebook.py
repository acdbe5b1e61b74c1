"""Runs a notebook's cells without a kernel and renews its outputs: text, and matplotlib's figures.

python docs/run_notebook.py FILE.ipynb            runs the cells and writes what they print
python docs/run_notebook.py FILE.ipynb --check    fails when they print something else

Lines that begin with % or ! are for Jupyter and left out. `.ci/snippets` runs the same cells in a
kernel, where there is one.
"""

import base64
import contextlib
import io
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any


def draw_figures() -> list[dict[str, Any]]:
    """The open figures of matplotlib as outputs of a cell; closes them."""
    if "matplotlib.pyplot" not in sys.modules:
        return []
    import matplotlib.pyplot as plt  # noqa: PLC0415 (only where a cell has used it)

    outputs = []
    for number in plt.get_fignums():
        drawn = io.BytesIO()
        plt.figure(number).savefig(drawn, format="png", dpi=70, metadata={"Software": None})
        image = base64.b64encode(drawn.getvalue()).decode()
        outputs.append(
            {"output_type": "display_data", "metadata": {}, "data": {"image/png": image}}
        )
    plt.close("all")
    return outputs


def run_cells(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Run the code cells in order, in one namespace; gives the outputs of each cell."""
    names: dict[str, Any] = {"__name__": "__main__"}
    os.environ["MPLBACKEND"] = "agg"
    warnings.filterwarnings("ignore", "FigureCanvasAgg is non-interactive")
    found = []
    for cell in notebook["cells"]:
        lines = "".join(cell["source"]).splitlines()
        code = "\n".join(line for line in lines if not line.startswith(("%", "!")))
        outputs: list[dict[str, Any]] = []
        if cell["cell_type"] == "code" and code.strip():
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                exec(compile(code, "cell", "exec"), names)
            text = printed.getvalue().splitlines(keepends=True)
            if text:
                outputs.append({"output_type": "stream", "name": "stdout", "text": text})
            outputs += draw_figures()
        found.append(outputs)
    return found


def texts(outputs: list[dict[str, Any]]) -> list[Any]:
    """What must be equal on every machine: all but the pixels of figures."""
    return [one.get("text", one["output_type"]) for one in outputs]


def renew(file: Path) -> str:
    """The notebook with what its cells print now; figures are kept while all text is as it was."""
    notebook = json.loads(file.read_text(encoding="utf-8"))
    fresh = run_cells(notebook)
    old = [cell.get("outputs", []) for cell in notebook["cells"]]
    if [texts(one) for one in fresh] != [texts(one) for one in old]:
        for cell, outputs in zip(notebook["cells"], fresh, strict=True):
            if cell["cell_type"] == "code":
                cell.update(outputs=outputs)
    return json.dumps(notebook, indent=1, ensure_ascii=False)


def main() -> None:
    """Write the outputs, or check them."""
    file = Path(sys.argv[1])
    fresh = renew(file) + "\n"
    if "--check" in sys.argv:
        if fresh != file.read_text(encoding="utf-8"):
            sys.exit(
                f"{file} does not show what its cells print."
                f" Run: python docs/run_notebook.py {file}"
            )
    else:
        file.write_text(fresh, encoding="utf-8")


if __name__ == "__main__":
    main()
