"""The report: one self-contained page. What a model or a card wrote is escaped."""

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from math import ceil, isnan
from pathlib import Path
from typing import Any, NamedTuple

from rlver_gym.bench.compare import Comparison, read_comparisons
from rlver_gym.bench.flagged import render_alert_banners, render_badge
from rlver_gym.bench.manifest import Manifest
from rlver_gym.bench.noise import (
    NOISE,
    SHIFT,
    describe_noise,
    describe_shift,
    spread_over_runs,
    spread_over_user_seeds,
)
from rlver_gym.bench.score import Score, drop_failed
from rlver_gym.bench.strategies import STRATEGY_NOTES, AgentStrategies, analyse_strategies
from rlver_gym.bench.table import noise_rows, shift_rows, variety_rows
from rlver_gym.bench.verdict import Verdict
from rlver_gym.environment.alarms import AnomalyReport, check_episodes
from rlver_gym.environment.charts import (
    draw_final_bar,
    draw_strategies,
    draw_trajectories,
    render_heat_cell,
)
from rlver_gym.environment.episode import Episode
from rlver_gym.io.atomic import write_atomically
from rlver_gym.io.interval import format_interval, format_mean
from rlver_gym.io.terminal import format_count, printable

MAX_CHARS = 6 << 20
"""Characters of JSON that a browser still opens at once: four benchmarks of all agents."""


class Viewer(NamedTuple):
    """What can be read on the page."""

    json: str
    """Cannot end its own script element, and holds nothing that turns the direction of writing."""
    shown: int
    """How many dialogues are in it; lower seeds first when not all."""


def build_viewer(
    episodes: Sequence[Episode], ranked: Sequence[Score], max_chars: int = MAX_CHARS
) -> Viewer:
    """The dialogues, the best agent's first, as numbers of `texts`."""
    rank = {score.agent: number for number, score in enumerate(ranked)}
    texts: dict[str, int] = {}
    chosen: list[Episode] = []
    size = 0
    for episode in sorted(episodes, key=lambda episode: episode.seed):
        size += _size(episode, texts)
        if size > max_chars:
            break
        chosen.append(episode)
        _pack(episode, texts)
    chosen.sort(key=lambda episode: rank[episode.agent])
    packed = [_pack(episode, texts) for episode in chosen]
    value = {"texts": list(texts), "episodes": packed}
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Viewer(text, len(chosen))


def _size(episode: Episode, texts: dict[str, int]) -> int:
    """About how many characters of JSON an episode adds to these texts."""
    numbers = sum(30 + 14 * len(turn.appraisal.reasons) for turn in episode.turns)
    return 80 + numbers + sum(len(text) for text in set(_texts(episode)) if text not in texts)


def _texts(episode: Episode) -> list[str]:
    turns = episode.turns
    notes = [reason.note for turn in turns for reason in turn.appraisal.reasons]
    said = [text for turn in turns for text in (turn.utterance, turn.appraisal.thought, turn.reply)]
    return [
        printable(text) for text in (episode.agent, episode.persona, episode.opening, *said, *notes)
    ]


def _pack(episode: Episode, texts: dict[str, int]) -> dict[str, Any]:
    """An episode with numbers for texts; new ones are added to `texts`."""

    def number(text: str) -> int:
        return texts.setdefault(printable(text), len(texts))

    return {
        "agent": number(episode.agent),
        "persona": number(episode.persona),
        "need": number(episode.need),
        "disposition": number(episode.disposition),
        "seed": episode.seed,
        "start": episode.start,
        "opening": number(episode.opening),
        "outcome": episode.outcome,
        "turns": [
            [
                number(turn.utterance),
                turn.appraisal.change,
                turn.emotion,
                number(turn.appraisal.thought),
                [[reason.points, number(reason.note)] for reason in turn.appraisal.reasons],
                number(turn.reply),
            ]
            for turn in episode.turns
        ],
    }


PROTOCOLS_DIFFER = (
    "Runs of different protocols (env card, user, people or seeds): one table each, since a rank"
    " across them would mean nothing."
)
_VIEWER = """<div class="choose"><label>agent <select id="agent"></select></label><label>person <select id="persona"></select></label>
<label>seed <select id="seed"></select></label><button id="previous" type="button">previous</button><button id="next" type="button">next</button></div>
<div id="dialogue" aria-live="polite"><p>Reading the dialogues needs JavaScript; nothing is loaded from anywhere.</p></div>"""


def write_report(
    folders: Sequence[Path],
    out: Path | None = None,
    comparisons: Sequence[Comparison] | None = None,
    verdicts: Sequence[Verdict] = (),
) -> Path:
    """Write the page for one run, or for several compared; returns its path, by default one in the
    first folder. `comparisons`: what `read_comparisons` gave for the folders, if it was asked.
    `verdicts`: of the runs that were recomputed.
    """
    page = out or folders[0] / ("report.html" if len(folders) == 1 else "compare.html")
    write_atomically(page, page_html(comparisons or read_comparisons(folders), verdicts))
    return page


def page_html(comparisons: Sequence[Comparison], verdicts: Sequence[Verdict] = ()) -> str:
    """The page as text. Runs of different protocols have tables of their own."""
    episodes = [episode for one in comparisons for episode in one.episodes]
    ranked = [one.score() for one in comparisons]
    viewer = build_viewer(episodes, [score for group in ranked for score in group])
    style, script = _asset("report.css"), _asset("report.js")
    differ = f'<p class="note">{PROTOCOLS_DIFFER}</p>' if len(comparisons) > 1 else ""
    script_hash = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script_hash}'; base-uri 'none'; form-action 'none'">
<title>{_title(comparisons)}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{_title(comparisons)}</h1>{_lead(comparisons)}{differ}{_problem_notes(comparisons)}{_verdict_notes(verdicts)}</header>
<main>
{"".join(_sections(one, scored, len(comparisons) > 1) for one, scored in zip(comparisons, ranked, strict=True))}{_render_shift(comparisons)}
<section><h2>Every dialogue</h2>{_omission_note(viewer, len(episodes))}{_VIEWER}</section>
</main>
<footer>{"".join(_provenance(manifest) for one in comparisons for manifest in one.manifests)}</footer>
<script type="application/json" id="episodes">{viewer.json}</script>
<script>{script}</script>
</body>
</html>
"""


def _escape_text(value: object) -> str:
    """Anything as text of a page or an attribute: escaped, and writing in one direction."""
    return escape(printable(str(value)))


def _sections(comparison: Comparison, ranked: Sequence[Score], several: bool) -> str:
    episodes, watched = comparison.episodes, check_episodes(comparison.episodes)
    title = (
        f"<h2>{_escape_text(comparison.protocol)}</h2><p>{_escape_text(', '.join(comparison.runs))}</p>"
        if several
        else ""
    )
    return f"""{title}<section><h2>Who leaves people better than they came</h2>{_leaderboard(ranked, comparison.manifests[0].env_card.start, watched)}{render_alert_banners(watched)}</section>
<section><h2>How the emotion moved</h2><p>Emotion after each turn. Bold: the mean, an ended dialogue keeping its last score. Thin: each persona. The dashed lines are the bands' borders, 10, 40 and 70.</p>{_curves(ranked, episodes)}</section>
<section><h2>By hidden need</h2><p>Mean final emotion.</p>{_heat_map(ranked)}</section>{_render_strategies(analyse_strategies(episodes))}{_render_noise(comparison, ranked)}"""


def _render_strategies(found: Sequence[AgentStrategies]) -> str:
    """Nothing where no turn is English."""
    if not found:
        return ""
    bounds = [bound for one in found for use in one.uses.values() for bound in use.difference]
    reach = max([1, *(ceil(abs(bound)) for bound in bounds if not isnan(bound))])
    panels = "".join(
        f"<figure><figcaption>{_escape_text(one.agent)}</figcaption>"
        f"{draw_strategies([(name, use.share.mean, use.difference) for name, use in one.uses.items()], reach)}</figure>"
        for one in found
    )
    picture = (
        '<p class="note">Bars: percent of turns. Dots: the mean change of the emotion in turns with'
        " the strategy minus that in turns without, with its 95 % interval over personas.</p>"
        f'<div class="panels">{panels}</div>'
    )
    table = _render_spread("support strategies", variety_rows(found), STRATEGY_NOTES)
    return table.replace("</section>", f"{picture}</section>")


def _render_noise(comparison: Comparison, ranked: Sequence[Score]) -> str:
    """Nothing for a run with one seed of the user."""
    protocol = comparison.protocol
    spread = spread_over_user_seeds(comparison.episodes, protocol.seeds, protocol.user_seeds)
    if spread is None:
        return ""
    return _render_spread(NOISE, noise_rows(spread, ranked), describe_noise(spread))


def _render_shift(comparisons: Sequence[Comparison]) -> str:
    """Nothing for a single run."""
    spread = spread_over_runs(comparisons)
    return _render_spread(SHIFT, shift_rows(spread), describe_shift(spread)) if spread else ""


def _render_spread(title: str, rows: Sequence[Sequence[str]], sentences: Sequence[str]) -> str:
    def row(cells: Sequence[str]) -> str:
        agent, *values = map(_escape_text, cells)
        numbers = "".join(f'<td class="num">{one}</td>' for one in values)
        return f'<tr><th scope="row">{agent}</th>{numbers}</tr>'

    heading, *body = map(row, rows)
    return f"""<section><h2>{title.capitalize()}</h2><div class="scroll"><table class="board spread"><thead>{heading}</thead>
<tbody>{"".join(body)}</tbody></table></div><p class="note">{_escape_text(" ".join(sentences))}</p></section>"""


def _problem_notes(comparisons: Sequence[Comparison]) -> str:
    """Runs by the names of their folders: where they lie is nobody's business."""
    problems = [problems for one in comparisons for problems in one.problems if problems]
    notes = [note for one in problems for note in one.describe(one.folder.resolve().name)]
    return "".join(map(_render_alarm, notes))


def _verdict_notes(verdicts: Sequence[Verdict]) -> str:
    notes = [verdict.describe(Path(verdict.run).resolve().name) for verdict in verdicts]
    return "".join(
        f'<p class="note">{_escape_text(note)}</p>'
        if verdict.is_sound or verdict.needs_source
        else _render_alarm(note)
        for verdict, note in zip(verdicts, notes, strict=True)
    )


def _render_alarm(note: str) -> str:
    return f'<div class="alarm" role="note"><p>{_escape_text(note)}</p></div>'


def _omission_note(viewer: Viewer, count: int) -> str:
    if viewer.shown == count:
        return ""
    return (
        f'<p class="note">{viewer.shown:,} of {count:,} dialogues are here, lower seeds first; all'
        " are in the runs' episodes.jsonl.</p>"
    )


def _asset(name: str) -> str:
    return (files("rlver_gym.bench") / name).read_text(encoding="utf-8")


def _title(comparisons: Sequence[Comparison]) -> str:
    return _escape_text(" and ".join(sorted({one.protocol.env for one in comparisons})))


def _lead(comparisons: Sequence[Comparison]) -> str:
    episodes = [episode for one in comparisons for episode in one.episodes]
    protocols = [one.protocol for one in comparisons]
    people = len({episode.persona for episode in episodes})
    agents = len({episode.agent for episode in episodes})
    users = ", ".join(sorted({f"{one.user} user, version {one.user_version}" for one in protocols}))
    return (
        f"<p>{format_count(len(episodes), 'dialogue')} of {format_count(agents, 'agent')} with"
        f" {format_count(people, 'simulated person', 'simulated people')}"
        f" ({_escape_text(users)}). Emotion runs from 0 to 100.</p>"
    )


def _leaderboard(ranked: Sequence[Score], start: int, watched: AnomalyReport) -> str:
    rows = "".join(
        f"""<tr><th scope="row">{_escape_text(score.agent)}{render_badge(score.agent, watched)}</th>
<td class="num strong">{format_mean(score.final)}</td><td class="bar">{draw_final_bar(score.final, start)}</td><td class="num dim wide">{format_interval(score.final)}</td>
<td class="num">{score.content:.0f} %</td><td class="num">{score.left:.0f} %</td><td class="num wide">{score.turns:.1f}</td>
<td class="num">{_difference_cell(score)}</td>{_render_lacks(score, ranked)}</tr>"""
        for score in ranked
    )
    is_whole = all(score.is_whole for score in ranked)
    heads = "" if is_whole else "".join(f'<th class="num">{head}</th>' for head in _LACKS)
    worst = "" if is_whole else _AT_WORST
    return f"""<div class="scroll"><table class="board"><thead><tr><th>agent</th><th class="num">final emotion</th><th></th><th class="num wide">95 %</th>
<th class="num">content</th><th class="num">left</th><th class="num wide">turns</th><th class="num">to the best</th>{heads}</tr></thead><tbody>{rows}</tbody></table></div>
<p class="note">Mean over personas with its 95 % bootstrap interval; the thin mark is the start, {start}. Content: the person got what they came for. Left: they walked away.
“To the best” is the paired difference over the same personas, with its 95 % interval: one that includes 0 is no proof of a difference.{worst}</p>"""


_LACKS = ("at worst", "failed by agent", "failed by user", "missing")
_AT_WORST = (
    " At worst: the mean with 0 for every dialogue that failed or is missing, since an agent can"
    " bring both about; it ranks, and “to the best” compares it."
)


def _difference_cell(score: Score) -> str:
    if score.to_best is None:
        return "best"
    return (
        f"{format_mean(score.to_best, signed=True)} <span class='dim"
        f" wide'>({format_interval(score.to_best, signed=True)})</span>"
    )


def _render_lacks(score: Score, ranked: Sequence[Score]) -> str:
    """Nothing where every dialogue of every agent came to an end."""
    if all(other.is_whole for other in ranked):
        return ""
    counts = map(str, (score.failed_by_agent, score.failed_by_user, score.missing))
    values = (format_mean(score.at_worst), *counts)
    return "".join(f'<td class="num">{value}</td>' for value in values)


def _curves(ranked: Sequence[Score], episodes: Sequence[Episode]) -> str:
    horizon = max((len(episode.turns) for episode in episodes), default=0)
    episodes = drop_failed(episodes)
    panels = "".join(
        f"<figure><figcaption>{_escape_text(score.agent)} <span"
        f" class='dim'>{format_mean(score.final)}</span></figcaption>"
        f"{draw_trajectories([episode for episode in episodes if episode.agent == score.agent], horizon)}</figure>"
        for score in ranked
    )
    return f'<div class="panels">{panels}</div>'


def _heat_map(ranked: Sequence[Score]) -> str:
    needs = sorted({need for score in ranked for need in score.needs})
    head = "".join(
        f'<th scope="col"><span>{_escape_text(need.replace("_", " "))}</span></th>'
        for need in needs
    )
    rows = "".join(
        "<tr><th"
        f' scope="row">{_escape_text(score.agent)}</th>{"".join(render_heat_cell(score.needs.get(need)) for need in needs)}</tr>'
        for score in ranked
    )
    return (
        '<div class="scroll"><table'
        f' class="heat"><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _provenance(manifest: Manifest) -> str:
    packages = ", ".join(f"{name} {number}" for name, number in manifest.packages.items() if number)
    return (
        f"<p>Run {_escape_text(manifest.fingerprint)}, {_escape_text(manifest.created)}:"
        f" <code>{_escape_text(' '.join(manifest.command))}</code><br>Python"
        f" {_escape_text(manifest.python)}, {_escape_text(packages)}</p>"
    )
