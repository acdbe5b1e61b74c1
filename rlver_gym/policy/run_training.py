"""A training run as a folder: the loop's numbers on screen and disk, evaluations, checkpoints,
dialogues to read, the trained model, curves.
"""

import json
import math
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from rlver_gym.core.cards import env_card, shipped_env_ids
from rlver_gym.environment.env import EmpathyEnv
from rlver_gym.library.personas import LIBRARY, library
from rlver_gym.policy.checkpoints import MODEL, Checkpoints, load, save
from rlver_gym.policy.config import (
    CONFIG,
    TrainConfig,
    draws_test_people,
    folder_name,
    read_run_config,
    refuse_changes,
)
from rlver_gym.policy.curves import PICTURE, write_curves
from rlver_gym.policy.evaluate import Evaluation, evaluate, final_score
from rlver_gym.policy.iteration import Iteration, train
from rlver_gym.policy.learner import Learner, make_learner
from rlver_gym.policy.learning.metrics import (
    DIALOGUES,
    EVALUATIONS,
    METRICS,
    TIMES,
    RunLog,
    read_metrics,
)
from rlver_gym.policy.models.distributed import (
    all_gather,
    enter_on_first,
    process_group,
    rank,
    ranks,
)
from rlver_gym.policy.models.local_models import find_local_model
from rlver_gym.policy.models.model import explain_slow_bf16
from rlver_gym.policy.prompt import pin_prompt
from rlver_gym.policy.reference import (
    RewardOveroptimisationCheck,
    describe_agreement,
    exceeds_gap,
    explain_early_stop,
)
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.errors import STOPPING, TrainingError
from rlver_gym.util.files import path_inside
from rlver_gym.util.folders import LOCK, write_folder
from rlver_gym.util.json_lines import append_lines, open_locked
from rlver_gym.util.progress import progress_bar
from rlver_gym.util.stop import StopRequested, StopSignals, handle_stops
from rlver_gym.util.terminal import SafeConsole

_OURS = (CONFIG, METRICS, TIMES, EVALUATIONS, DIALOGUES, PICTURE, MODEL)
_OURS += ("checkpoints", "tensorboard")
"""What a run writes into its folder."""


def run_training(
    config: TrainConfig, *, out: Path | None = None, resume: bool = False, track: str | None = None
) -> Path:
    """Train, from the start or the last checkpoint; gives the folder that holds everything.
    TrainingError when it holds another run, or none to resume, or is written by another process.
    Ctrl-C and SIGTERM end it with KeyboardInterrupt and a checkpoint; a second one at once.
    """
    folder, stop = out or Path("runs") / folder_name(config), StopSignals()
    config = pin_prompt(config)
    note = _describe_payer(config)
    lock = partial(open_locked, folder / LOCK, TrainingError)
    with process_group(), enter_on_first(lock):
        checkpoints = Checkpoints(folder / "checkpoints", config.keep_checkpoints)
        _check_folder(folder, checkpoints, config, resume)
        learner = make_learner(config)
        agree = (lambda stopped: any(all_gather([stopped]))) if ranks() > 1 else None
        learner.interruptible = partial(stop.interruptible, agree)
        try:
            if latest := checkpoints.latest():
                load(learner, latest)
            with stop.listen():
                anew = _ANEW if resume and not latest else ""
                notes = [anew, note, _describe_test_people(learner), _describe_scale(config)]
                notes.append(explain_slow_bf16(config.dtype))
                _run_and_record(learner, folder, checkpoints, track, notes)
        except (StopRequested, *STOPPING) as error:
            if isinstance(error, StopRequested) or _is_written_down(learner, folder):
                with handle_stops(lambda *_: None):
                    _save_stopped(learner, folder, checkpoints)
            raise
        finally:
            learner.close()
            del learner
    return folder


def _refuse_alarm_that_is_never_raised(learner: Learner) -> None:
    """TrainingError where there are no dialogues here to look at."""
    envs = learner.held_out
    if learner.config.stop_on_alarm and not any(isinstance(x.unwrapped, EmpathyEnv) for x in envs):
        raise TrainingError(
            f"--stop-on-alarm looks at dialogues of this machine, and {learner.config.env} plays"
            " none here. Leave it out."
        )


def _describe_scale(config: TrainConfig) -> str:
    """What to know where rewards from 0 to 1 are scaled as points of emotion are."""
    if config.env not in shipped_env_ids() or env_card(config.env).reward != "terminal":
        return ""
    if config.algorithm.has_margin or config.reward_scale >= 1:
        return ""
    return (
        f"{config.env} pays from 0 to 1, once: times --reward-scale {config.reward_scale:g} little"
        " is left beside --min-std and --kl. Take --reward-scale 1."
    )


def _describe_payer(config: TrainConfig) -> str:
    """What to know of the user whose score is learned from, if it is the embedded one.

    TrainingError where a preset leaves open who it is, though somebody plays.
    """
    user = config.env_options.get("user", "embedded")
    heard = (config.env_options | config.eval_options).get("user") if config.eval_every else None
    if "openai:PAYER" in (heard, None if config.corpus else user):
        raise TrainingError(
            "openai:PAYER stands for a language model of yours, whose appraisals are learned from"
            " or evaluated by. Name it: --env-options user=openai:MODEL"
            " (docs/tutorials/llm-user.md)."
        )
    if config.corpus is not None or config.env not in shipped_env_ids():
        return ""
    return _EMBEDDED_PAYS if user == "embedded" and config.model != "tiny" else ""


def _describe_test_people(learner: Learner) -> str:
    """What to know where people of the test split are learned from."""
    config = learner.config
    test = {who for personas in (None, LIBRARY) for who in library(personas).ids("test")}
    people = {str(one.info["persona"]).partition("/")[0] for one in learner.rated}
    is_drawn = config.corpus is None and draws_test_people(config.env, config.env_options)
    return _TEST_PEOPLE if is_drawn or people & test else ""


def _is_written_down(learner: Learner, folder: Path) -> bool:
    """Whether the last iteration was evaluated and logged, so that a run may go on behind it. Of
    several processes one may have failed alone, and none can save without the others.
    """
    done = (line["iteration"] for line in read_metrics(folder))
    return ranks() == 1 and learner.iteration in done


def _save_stopped(learner: Learner, folder: Path, checkpoints: Checkpoints) -> None:
    """Keep what is learned. No score: the best model is that of the run without a stop."""
    number = learner.iteration
    if number and number != int((checkpoints.latest() or Path("0")).name):
        _save_checkpoint(learner, checkpoints, None)
    if rank() == 0:
        kept = f"checkpoint {checkpoints.latest()}" if number else "nothing is learned yet"
        SafeConsole(stderr=True).print(
            f"stopped after iteration {number}: {kept}. To go on: rlver-gym train --resume --out"
            f" {folder}",
            soft_wrap=True,
        )


def _run_and_record(
    learner: Learner,
    folder: Path,
    checkpoints: Checkpoints,
    track: str | None,
    notes: Sequence[str],
) -> None:
    """Of several processes all learn and evaluate, and only the first one writes."""
    config = learner.config
    screen = _TerminalReport(config, folder)
    _refuse_alarm_that_is_never_raised(learner)
    past = [line for line in read_metrics(folder) if line["iteration"] <= learner.iteration]
    past = [line for line in past if learner.iteration and line.get("eval_score") is not None]
    scores: dict[int, float] = {line["iteration"]: line["eval_score"] for line in past}
    alarmed = {line["iteration"] for line in past if line.get("eval_alarms")}
    reference = RewardOveroptimisationCheck(learner) if config.reference else None
    learner.on_progress = screen.show_progress
    with _open_run_log(learner, folder, track) as log, screen.bar:
        for note in (*notes, learner.renderer.note):
            screen.say(note)
        if learner.iteration == 0 and config.eval_every:
            with learner.interruptible():
                first = evaluate(learner)
            _append_evaluation(first, 0, folder)
            screen.show_evaluation(0, first)
            if log:
                log.write(0, first.metrics, {})
            scores[0] = first.metrics["eval_score"]
        for iteration in train(learner):
            number, last = iteration.number, iteration.number == config.iterations
            metrics, score, is_best = iteration.metrics, None, False
            if config.eval_every and (last or number % config.eval_every == 0):
                held_out = evaluate(learner)
                metrics, score = metrics | held_out.metrics, held_out.metrics["eval_score"]
                _append_evaluation(held_out, number, folder)
                is_best = score > max((scores[at] for at in scores if at), default=-math.inf)
                scores[number] = score
                screen.show_evaluation(number, held_out)
                alarmed |= {number} if held_out.alarms else set()
                last = last or (config.stop_on_alarm and bool(held_out.alarms))
            screen.show_iteration(iteration)
            if reference and reference.is_due(number):
                found = reference.measure(learner, iteration.trajectories)
                metrics = metrics | found
                screen.show_reference(number, found)
                if start := learner.reference_start:
                    screen.warn(describe_agreement(config, start, found))
                    if exceeds_gap(config, start, found):
                        last = True
                        screen.warn(explain_early_stop(config, number, found))
            if log:
                log.write(number, metrics, iteration.times)
                if config.show_every and (last or number % config.show_every == 0):
                    log.show(number, iteration.trajectories[:2])
            if last or is_best or number % config.save_every == 0:
                _save_checkpoint(learner, checkpoints, score)
            if last:
                break
    best = checkpoints.best() or checkpoints.latest()
    if best is not None and rank() == 0:
        with write_folder(folder / MODEL, TrainingError) as draft:
            shutil.copytree(best / MODEL, draft, dirs_exist_ok=True)
        curves = write_curves(folder)
        number = int(best.name)
        summary = _summarise_training(config, folder, number, scores, number in alarmed)
        screen.say(f"{summary}\ncurves {curves}" if curves else summary)


def _summarise_training(
    config: TrainConfig, folder: Path, iteration: int, scores: Mapping[int, float], is_alarmed: bool
) -> str:
    drawn = f"sampled at temperature {config.eval_temperature:g}"
    manner = drawn if config.eval_temperature else "the likeliest token"
    before = f", {scores[0]:.1f} before" if 0 in scores else ""
    reached = f": held out {scores[iteration]:.1f}{before}, {manner}" if iteration in scores else ""
    doubt = "; an alarm was raised for it, so read its dialogues first" if is_alarmed else ""
    model = f"model {folder / MODEL} (from iteration {iteration}{reached}{doubt})"
    if config.env not in shipped_env_ids():
        return model
    options = config.env_options | config.eval_options
    if str(options.get("user")).partition(":")[0] == "reader":  # it may have read with the policy
        options.setdefault("base", find_local_model(config.model))
    words = ["rlver-gym", "bench", "--env", str(options.pop("card", config.env))]
    for name, value in options.items():
        if name in _BENCH_OPTIONS:
            words += [f"--{name}", str(value)]
        elif name not in _ENV_ARGUMENTS:
            words += ["--user-option", f"{name}={value}"]
    command = shlex.join([*words, "--agent", f"hf:{folder / MODEL}"])
    return f"{model}\nits dialogues with such people, in the same manner: {command}"


@contextmanager
def _open_run_log(learner: Learner, folder: Path, track: str | None) -> Iterator[RunLog | None]:
    """The folder made ready, and what writes into it; nothing but for the first process."""
    if rank() != 0:
        yield None
        return
    values = learner.config.model_dump(mode="json")
    write_atomically(folder / CONFIG, json.dumps(values, indent=2) + "\n", TrainingError)
    with RunLog(folder, values, track=track, after=learner.iteration) as log:
        yield log


def _save_checkpoint(learner: Learner, checkpoints: Checkpoints, score: float | None) -> None:
    if rank() == 0:
        checkpoints.write(learner.iteration, lambda path: save(learner, path), score)
    else:
        save(learner, checkpoints.unfinished_path(learner.iteration))


def _append_evaluation(held_out: Evaluation, iteration: int, folder: Path) -> None:
    line = {
        "iteration": iteration,
        "dialogues": [
            {
                "persona": one.info.get("persona"),
                "seed": one.seed,
                "score": final_score(one),
                "return": one.total_reward,
                "outcome": one.info.get("outcome"),
                "valid": one.valid,
                "lines": [list(line) for line in one.lines],
            }
            for one in held_out.trajectories
        ],
    }
    if rank() == 0:
        append_lines(folder / EVALUATIONS, [json.dumps(line, ensure_ascii=False)], TrainingError)


def _check_folder(
    folder: Path, checkpoints: Checkpoints, config: TrainConfig, resume: bool
) -> None:
    """TrainingError where a run would overwrite something, or cannot go on with what is there."""
    if not resume:
        for name in _OURS:
            if os.path.lexists(folder / name):
                raise TrainingError(
                    f"{folder} holds a run already, or another's {name}. Go on with --resume, or"
                    " choose another folder with --out."
                )
        return
    for path in folder.rglob("*"):
        if path.is_symlink():
            path_inside(folder, str(path.relative_to(folder)), error=TrainingError)
    if (folder / CONFIG).exists():
        refuse_changes(read_run_config(folder), config.model_dump(mode="json"), folder)
    elif checkpoints.latest() is None:
        raise TrainingError(
            f"{folder} holds no checkpoint to go on from, and no run that began. Leave --resume out"
            " to begin."
        )


_EMBEDDED_PAYS = (
    "The embedded user pays: language models that learned from its score became worse to talk to"
    " (docs/trust.md). To test a loop it is good; for a model that people should like:"
    " --env-options user=openai:MODEL, or --from CORPUS."
)
_TEST_PEOPLE = (
    "Test people are learned from, so scores with them will say nothing of strangers. Take"
    " --env-options split=train, or a corpus with others."
)
_BENCH_OPTIONS = ("split", "user", "personas")
_ENV_ARGUMENTS = ("persona", "info", "on_failure", "render_mode", "url")
"""Of `gym.make`, of which `bench` has an option, or none; what else there is is the user's."""
_ANEW = "no iteration was saved before the run was cut off: it begins anew"
_COLUMNS = {
    "emotion": ("emotion", "{:.1f}"),
    "return": ("return", "{:+.1f}"),
    "content": ("content", "{:.0%}"),
    "left": ("left", "{:.0%}"),
    "tokens": ("tokens", "{:.0f}"),
    "kl": ("kl", "{:.4f}"),
    "reference_kl": ("kl start", "{:.4f}"),
    "clip_fraction": ("clipped", "{:.1%}"),
    "entropy": ("entropy", "{:.2f}"),
    "explained_variance": ("expl.var", "{:.2f}"),
    "format_error": ("broken", "{:.0%}"),
}
_HEADER_EVERY = 20


class _TerminalReport:
    """A line an iteration above a bar with the time that is left, of the first process."""

    def __init__(self, config: TrainConfig, folder: Path) -> None:
        self._config = config
        self.bar = progress_bar(quiet=rank() != 0)
        self._console = self.bar.console
        if not self._console.is_terminal:
            self._console.width = 160
        self._show(
            f"{config.algo} on {config.env}: {config.model}, {config.style}, {config.dialogues}"
            f" dialogues an iteration, into {folder}"
        )
        self._task = self.bar.add_task("", total=config.iterations)
        self._lines = 0

    def _show(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style, soft_wrap=True)

    def say(self, text: str) -> None:
        if text:
            self._show(text, "dim")

    def warn(self, text: str) -> None:
        if text:
            self._show(text, "red")

    def show_progress(self, stage: str, done: int, total: int) -> None:
        self.bar.update(self._task, description=f"{stage}, {done} of {total}; iterations")

    def show_reference(self, number: int, found: Mapping[str, float]) -> None:
        self._show(
            f"reference {self._config.reference} after {number}:"
            f" {found['reference_score']:.1f}, by the reward {found['reference_reward']:.1f}; gap"
            f" since the start {found['reference_gap']:+.1f} [{found['reference_gap_low']:+.1f},"
            f" {found['reference_gap_high']:+.1f}], agreement {found['reference_agreement']:.2f}",
            "bold",
        )

    def show_evaluation(self, number: int, held_out: Evaluation) -> None:
        m = held_out.metrics
        self._show(
            f"held out after {number}: {m['eval_score']:.1f} [{m['eval_low']:.1f},"
            f" {m['eval_high']:.1f}] over {len(held_out.trajectories)} dialogues,"
            f" {m['eval_words']:.0f} words a reply, {m['eval_distinct']:.0%} of replies distinct",
            "bold",
        )
        for alarm in held_out.alarms:
            self.warn(f"alarm: the policy {alarm}")

    def show_iteration(self, iteration: Iteration) -> None:
        shown = {name: column for name, column in _COLUMNS.items() if name in iteration.metrics}
        if self._lines % _HEADER_EVERY == 0:
            titles = "".join(f"{title:>9}" for title, _ in shown.values())
            self.say(f"  iter {titles}    tok/s")
        self._lines += 1
        values = [(iteration.metrics[name], form) for name, (_, form) in shown.items()]
        cells = "".join(f"{form.format(x) if math.isfinite(x) else '-':>9}" for x, form in values)
        self._show(f"{iteration.number:6d} {cells}{iteration.times['tokens_per_s']:9.0f}")
        self.bar.update(self._task, completed=iteration.number)
