"""`rlver-gym calibrate`: whether a model may pay a learner, may rank agents, or neither."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from rlver_gym.bench.calibrate import (
    ALL_REPLIES,
    FEWEST_REPLIES,
    PAYS,
    RANKS,
    TIMES_A_MOMENT,
    Calibration,
    judge_places,
    read_places,
    summarise,
)
from rlver_gym.bench.folder import find_response_cache
from rlver_gym.cli.options import AsJson, print_json
from rlver_gym.cli.report import ask_all
from rlver_gym.cli.servers import (
    UserOption,
    Yes,
    announce_cost,
    parse_user_options,
    require_chat_model,
)
from rlver_gym.llm_client.connect import connect, spending
from rlver_gym.users.llm import LLMUser, sort_options
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.errors import RunError
from rlver_gym.util.files import path_inside
from rlver_gym.util.interval import Interval
from rlver_gym.util.json_text import to_plain
from rlver_gym.util.terminal import SafeConsole

_RESULT = "calibration.json"
_VERDICTS = {
    "pay": "It may pay a learner, and rank agents.",
    "rank": "It may rank agents. It may not pay a learner: what it tells apart within a dialogue is"
    " too little.",
    "neither": "It may neither pay a learner nor rank agents.",
}


def calibrate(
    user: Annotated[str, typer.Option(help="The model: openai:MODEL.")],
    user_option: UserOption = None,
    replies: Annotated[
        int,
        typer.Option(
            min=FEWEST_REPLIES,
            max=ALL_REPLIES,
            help="At most so many: fewer are quicker, and say less.",
        ),
    ] = ALL_REPLIES,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where answers and result are kept. Default: runs/calibrate-MODEL; the same"
            " command goes on where it stopped."
        ),
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Have a model judge rated replies as the LLM user does, and say what it may be used for: to
    pay a learner, to rank agents, or neither.

    A model may pay when within a dialogue or moment it agrees with readers at an r whose 90 %
    interval begins at 0.6 or above, has the sign right in 80 % of the replies that are clearly good
    or bad, and agrees less when it is given somebody else's card. It may rank when the order of
    whole dialogues agrees at an r whose interval begins at 0.5 or above.

    Some 60 requests of 6,000 tokens. Options of the model and its server: --user-option
    base_url=URL, temperature=0, structured=false, …

    Example: rlver-gym calibrate --user openai:gpt-4o --user-option concurrency=16
    """
    fitted = "the embedded user and the reader were fitted to these replies."
    name = require_chat_model("--user", user, fitted)
    folder = out or Path("runs") / f"calibrate-{name.replace('/', '-')}"
    folder.mkdir(parents=True, exist_ok=True)
    given = {"response_cache": find_response_cache(folder), **parse_user_options(user_option)}
    options, settings = sort_options(name, given)
    judge, places = LLMUser(connect(settings), name, options), read_places(replies)
    asked = [place for place in places for _ in range(TIMES_A_MOMENT if place.is_moment else 1)]
    announce_cost([user], [(len(place.texts), False) for place in asked], given, yes)
    judged = ask_all(judge_places(judge, places), "judging", len(places))
    calibration = summarise(judged)
    result: dict[str, Any] = {
        "user": user,
        "user_version": judge.version,
        "verdict": calibration.verdict,
        **calibration._asdict(),
        "failures": [x.failure for x in judged if x.failure],
        "spent": spending(settings).summary(),
    }
    path = path_inside(folder, _RESULT)
    write_atomically(
        path, json.dumps(to_plain(result), indent=1, ensure_ascii=False) + "\n", RunError
    )
    if as_json:
        print_json(result)
        return
    console = SafeConsole()
    console.print_table(
        _build_rows(calibration), f"{name} beside two readers", [_VERDICTS[calibration.verdict]]
    )
    console.print_line(f"Spent: {result['spent']}. Kept in {path}.")


def _build_rows(calibration: Calibration) -> list[tuple[str, str, str]]:
    readers = f"two readers {calibration.readers_within:.2f}; to pay: from {PAYS}"
    swapped = f"with another person's card {calibration.swapped:.2f}"
    top_one = "of what the best is worth to readers; by lot 0 %"
    rows = [
        ("", "model", "for comparison"),
        ("r within a place", _format_interval(calibration.within), readers),
        ("… within dialogues", _format_interval(calibration.within_dialogues), ""),
        ("… within moments", _format_interval(calibration.within_moments), swapped),
        ("r between dialogues", _format_interval(calibration.between), f"to rank: from {RANKS}"),
        ("sign right", _format_share(calibration.sign), "to pay: 80 %"),
        ("pays more by", f"{calibration.bias:+.1f}", "points a reply than readers"),
        ("best of six", _format_share(calibration.top_one), top_one),
        ("pairs paid alike", _format_share(calibration.ties), "of those that readers tell apart"),
        ("pairs that turn", _format_share(calibration.flips), "when shown in reverse order"),
        ("r with length", f"{calibration.length:.2f}", f"readers {calibration.readers_length:.2f}"),
    ]
    return rows + (
        [("places that failed", str(calibration.failed), "")] if calibration.failed else []
    )


def _format_share(share: float) -> str:
    return f"{100 * share:.0f} %"


def _format_interval(interval: Interval) -> str:
    return f"{interval.mean:.2f} [{interval.low:.2f}, {interval.high:.2f}]"
