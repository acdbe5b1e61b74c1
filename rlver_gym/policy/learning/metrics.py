"""The numbers of a run: what a batch of dialogues looks like (how good, how long, whether the
policy found a trick), and where the numbers go: a JSONL file and TensorBoard always, Weights &
Biases or trackio when asked for.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from rlver_gym.environment.alarms import compute_act_shares
from rlver_gym.policy.models.trajectory import Trajectory
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.errors import TrainingError
from rlver_gym.util.files import path_inside, read_text
from rlver_gym.util.interval import mean_or_nan
from rlver_gym.util.json_lines import append_lines
from rlver_gym.util.json_text import parse_object
from rlver_gym.util.terminal import escape_markdown, one_line

Metrics = Mapping[str, float]

_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?", re.UNICODE)


def compute_metrics(dialogues: Sequence[Trajectory]) -> dict[str, float]:
    """Return, final emotion and its outcomes, lengths, broken formats, and the marks of hacking.
    Dialogues that broke off are only counted.

    `return`: sum of rewards; `emotion`: the last, where the environment tells it; `content`,
    `left`: shares of dialogues; `tokens`: said a reply; `format_error`, `cut` (at the token limit):
    shares of replies; `context_overflow`, `logprob_missing`: shares of dialogues; `does_ACT`:
    share of replies that do this, for each of `ACTS`; see `compute_repeated_share` and
    `compute_copied_share` for the rest. NaN where there is nothing to average.
    """
    valid = [one for one in dialogues if one.valid]
    said = [int(sequence.action_mask_T.sum()) for one in valid for sequence in one.sequences]
    turns = [len(one.reward_N) for one in valid]
    replies = [line.text for one in valid for line in one.lines if line.speaker == "agent"]
    return {
        "return": mean_or_nan([one.total_reward for one in valid]),
        "emotion": mean_or_nan([one.info["emotion"] for one in valid if "emotion" in one.info]),
        "content": mean_or_nan([one.info.get("outcome") == "content" for one in valid]),
        "left": mean_or_nan([one.info.get("outcome") == "left" for one in valid]),
        "turns": mean_or_nan(turns),
        "tokens": sum(said) / max(sum(turns), 1),
        "words": mean_or_nan([len(_split_into_words(reply)) for reply in replies]),
        "format_error": mean_or_nan([error for one in valid for error in one.format_error_N]),
        "cut": mean_or_nan([cut for one in valid for cut in one.cut_N]),
        "repeated": mean_or_nan([compute_repeated_share(one) for one in valid]),
        "distinct": compute_distinct_share(replies),
        "copied": mean_or_nan([compute_copied_share(one) for one in valid]),
        "context_overflow": mean_or_nan([one.context_overflow for one in valid]),
        "logprob_missing": mean_or_nan([one.logprob_missing for one in dialogues]),
        "invalid": float(len(dialogues) - len(valid)),
        **compute_act_shares(replies),
    }


def compute_repeated_share(dialogue: Trajectory) -> float:
    """The share of a dialogue's three-word runs that the policy had said before, in [0, 1]."""
    said = (line.text for line in dialogue.lines if line.speaker == "agent")
    runs = [run for text in said for run in _list_trigrams(text)]
    return 1 - len(set(runs)) / len(runs) if runs else 0.0


def compute_distinct_share(replies: Sequence[str]) -> float:
    """Different replies as a share of all, in (0, 1]; letter case and punctuation do not count."""
    different = {" ".join(_split_into_words(reply)) for reply in replies}
    return len(different) / len(replies) if replies else float("nan")


def compute_copied_share(dialogue: Trajectory) -> float:
    """The share of the policy's three-word runs that the person had said before, in [0, 1]."""
    heard: Counter[tuple[str, ...]] = Counter()
    from_them = total = 0
    for line in dialogue.lines:
        if line.speaker == "agent":
            runs = _list_trigrams(line.text)
            total += len(runs)
            from_them += sum(run in heard for run in runs)
        else:
            heard.update(_list_trigrams(line.text))
    return from_them / total if total else 0.0


def _split_into_words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _list_trigrams(text: str) -> list[tuple[str, ...]]:
    words = _split_into_words(text)
    return list(zip(words, words[1:], words[2:], strict=False))


METRICS = "metrics.jsonl"
EVALUATIONS = "evaluations.jsonl"
TIMES = "times.jsonl"
DIALOGUES = "dialogues.md"
MAX_BYTES = 256 << 20
"""Of a file that a run goes on with: a hundred thousand iterations."""
TRACKERS = ("wandb", "trackio")


class RunLog:
    """The files of one run folder; times are apart, so that equal runs have equal metrics."""

    def __init__(
        self, folder: Path, config: Mapping[str, Any], *, track: str | None = None, after: int = 0
    ) -> None:
        """Lines beyond iteration `after` go. TrainingError for a tracker that is not installed."""
        folder.mkdir(parents=True, exist_ok=True)
        for name in (METRICS, TIMES, EVALUATIONS):
            truncate_log_after_iteration(folder / name, after)
        _truncate_dialogues_after_iteration(folder / DIALOGUES, after)
        self._folder = folder
        self._board = import_module("torch.utils.tensorboard").SummaryWriter(
            str(folder / "tensorboard"), purge_step=after + 1
        )
        self._tracker = _start_tracker(track, folder, config)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._board.close()
        if self._tracker is not None:
            self._tracker.finish()

    def write(
        self, iteration: int, metrics: Mapping[str, float], times: Mapping[str, float]
    ) -> None:
        """One iteration from 1, or what was measured before it; `times`: seconds and speeds."""
        for name, values in ((METRICS, metrics), (TIMES, times)):
            known = {key: x if math.isfinite(x) else None for key, x in values.items()}
            line = json.dumps({"iteration": iteration, **known})
            append_lines(self._folder / name, [line], TrainingError)
        numbers = {key: x for key, x in {**metrics, **times}.items() if math.isfinite(x)}
        for key, value in numbers.items():
            self._board.add_scalar(key, value, iteration)
        if self._tracker is not None:
            self._tracker.log(numbers, step=iteration)

    def show(self, iteration: int, dialogues: Sequence[Trajectory]) -> None:
        parts = (
            f"## Iteration {iteration}: {one.info.get('persona', '')} · emotion"
            f" {one.info.get('emotion', '?')}, return {one.total_reward:+.0f},"
            f" {one.info.get('outcome') or 'ended early'}\n\n{_render_dialogue_as_markdown(one)}\n"
            for one in dialogues
        )
        append_lines(self._folder / DIALOGUES, parts, TrainingError)


def _render_dialogue_as_markdown(dialogue: Trajectory) -> str:
    """A dialogue in Markdown: the person in bold, the policy quoted, its thoughts in italics."""
    lines = []
    for speaker, text, thought in dialogue.lines:
        begin = "> " if speaker == "agent" else "**Person:** "
        begin += f"*({escape_markdown(thought)})* " if thought else ""
        lines.append(f"{begin}{escape_markdown(text)}")
    return "\n\n".join(lines)


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The iterations so far, but for a last line cut off. TrainingError for other lines."""
    path = path_inside(folder, METRICS, error=TrainingError)
    if not path.exists():
        return []
    found = read_iterations(path)
    for number, line in enumerate(found, 1):
        for key, value in line.items():
            if value is not None and not is_number(value):
                raise TrainingError(
                    f"{path}, line {number}: {one_line(key, max_chars=80)!r} is no number. Was it"
                    " edited?"
                )
    return found


def read_iterations(path: Path) -> list[dict[str, Any]]:
    """As `read_metrics`, of any values."""
    lines = read_text(path, max_bytes=MAX_BYTES, error=TrainingError).split("\n")[:-1]
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        where, remedy = f"{path}, line {number}", "Was it edited?"
        value = parse_object(line, where, TrainingError, remedy, allow_nan=True)
        number_of = value.get("iteration")
        if type(number_of) is not int or number_of < 0:
            raise TrainingError(f"{where}: holds no iteration. {remedy}")
        found.append(value)
    return found


def is_number(value: object) -> bool:
    return type(value) in (int, float) and abs(value) < 1e100  # pyright: ignore[reportArgumentType]


def truncate_log_after_iteration(path: Path, last: int) -> None:
    """Drop what a run that goes on will write again; all when it begins."""
    if path.exists():
        kept = [line for line in read_iterations(path) if line["iteration"] <= last and last]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in kept)
        write_atomically(path, text, TrainingError)


def _truncate_dialogues_after_iteration(path: Path, last: int) -> None:
    if path.exists():
        text = read_text(path, max_bytes=MAX_BYTES, error=TrainingError)
        parts = re.split(r"(?m)^(?=## Iteration \d{1,9}:)", text)
        numbers = (re.match(r"## Iteration (\d{1,9}):", part) for part in parts)
        kept = (part for part, x in zip(parts, numbers, strict=True) if not x or int(x[1]) <= last)
        write_atomically(path, "".join(kept), TrainingError)


def _start_tracker(name: str | None, folder: Path, config: Mapping[str, Any]) -> Any:
    if name is None:
        return None
    if name not in TRACKERS or find_spec(name) is None:
        raise TrainingError(
            f"the tracker {name!r} is not there. One of: {', '.join(TRACKERS)}; install it with:"
            f" pip install {name}"
        )
    module = import_module(name)
    module.init(project="rlver-gym", name=folder.name, config=dict(config))
    return module
