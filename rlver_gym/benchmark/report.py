"""The report: one self-contained page, from episodes. Everything that a model or a card wrote is escaped or set as plain text."""

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from rlver_gym.alarm import Watch, watch
from rlver_gym.atomic import write_whole
from rlver_gym.benchmark.charts import final_bar, heat_cell, trajectories
from rlver_gym.benchmark.folder import read_episodes, read_manifest
from rlver_gym.benchmark.score import Score, scores, valid
from rlver_gym.benchmark.suspects import badge, banners
from rlver_gym.benchmark.table import bounds, points
from rlver_gym.episode import Episode
from rlver_gym.errors import RunError


def write_report(folders: Sequence[Path], out: Path | None = None) -> Path:
    """Write the page for one run, or for several compared; returns its path."""
    page = out or (folders[0] / "report.html" if len(folders) == 1 else Path("compare.html"))
    manifests = [read_manifest(folder) for folder in folders]
    write_whole(page, page_html(load_runs(folders), manifests))
    return page


def load_runs(folders: Sequence[Path]) -> list[Episode]:
    """The episodes of all runs; an agent that is in several gets the run's name behind its own."""
    runs = [read_episodes(folder) for folder in folders]
    if not any(runs):
        raise RunError(f"there are no episodes in {', '.join(map(str, folders))}. Run: rlver-gym bench")
    agents = [{episode.agent for episode in episodes} for episodes in runs]
    shared = {agent for names in agents for agent in names if sum(agent in others for others in agents) > 1}
    return [
        episode._replace(agent=f"{episode.agent} ({folder.name})") if episode.agent in shared else episode
        for folder, episodes in zip(folders, runs, strict=True)
        for episode in episodes
    ]


def page_html(episodes: Sequence[Episode], manifests: Sequence[dict[str, Any]]) -> str:
    """The page as text."""
    ranked, watched = scores(episodes), watch(episodes)
    style, script = _asset("report.css"), _asset("report.js")
    script_hash = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script_hash}'; base-uri 'none'; form-action 'none'">
<title>{_title(episodes)}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{_title(episodes)}</h1>{_lead(episodes, manifests)}</header>
<main>
<section><h2>Who leaves people better than they came</h2>{_leaderboard(ranked, episodes[0].start, watched)}{banners(watched)}</section>
<section><h2>How the emotion moved</h2><p>Emotion after each turn. Bold: the mean, an ended dialogue keeping its last score. Thin: each persona. The dashed lines are the bands' borders, 10, 40 and 70.</p>{_curves(ranked, episodes)}</section>
<section><h2>By hidden need</h2><p>Mean final emotion.</p>{_heat_map(ranked)}</section>
<section><h2>Every dialogue</h2>{_viewer()}</section>
</main>
<footer>{_provenance(manifests)}</footer>
<script type="application/json" id="episodes">{_embedded(episodes, ranked)}</script>
<script>{script}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return (files("rlver_gym.benchmark") / name).read_text(encoding="utf-8")


def _title(episodes: Sequence[Episode]) -> str:
    return escape(" and ".join(sorted({episode.env for episode in episodes})))


def _lead(episodes: Sequence[Episode], manifests: Sequence[dict[str, Any]]) -> str:
    people, agents = len({episode.persona for episode in episodes}), len({episode.agent for episode in episodes})
    users = ", ".join(sorted({f"{episode.user} user, version {episode.user_version}" for episode in episodes}))
    return f"<p>{len(episodes):,} dialogues of {agents} agents with {people} simulated people ({escape(users)}). Emotion runs from 0 to 100.</p>"


def _leaderboard(ranked: Sequence[Score], start: int, watched: Watch) -> str:
    rows = "".join(
        f"""<tr><th scope="row">{escape(score.agent)}{badge(score.agent, watched)}</th>
<td class="num strong">{points(score.final)}</td><td class="bar">{final_bar(score.final, start)}</td><td class="num dim wide">{bounds(score.final)}</td>
<td class="num">{score.content:.0f} %</td><td class="num">{score.left:.0f} %</td><td class="num wide">{score.turns:.1f}</td>
<td class="num">{_to_best(score)}</td>{_failed(score, ranked)}</tr>"""
        for score in ranked
    )
    failed = '<th class="num">failed</th>' if any(score.failed for score in ranked) else ""
    return f"""<div class="scroll"><table class="board"><thead><tr><th>agent</th><th class="num">final emotion</th><th></th><th class="num wide">95 %</th>
<th class="num">content</th><th class="num">left</th><th class="num wide">turns</th><th class="num">to the best</th>{failed}</tr></thead><tbody>{rows}</tbody></table></div>
<p class="note">Mean over personas with its 95 % bootstrap interval; the thin mark is the start, {start}. Content: the person got what they came for. Left: they walked away.
“To the best” is the paired difference over the same personas, with its 95 % interval: one that includes 0 is no proof of a difference.</p>"""


def _to_best(score: Score) -> str:
    if score.to_best is None:
        return "best"
    return f"{points(score.to_best, signed=True)} <span class='dim wide'>({bounds(score.to_best, signed=True)})</span>"


def _failed(score: Score, ranked: Sequence[Score]) -> str:
    return f'<td class="num">{score.failed}</td>' if any(other.failed for other in ranked) else ""


def _curves(ranked: Sequence[Score], episodes: Sequence[Episode]) -> str:
    horizon = max(len(episode.turns) for episode in episodes)
    episodes = valid(episodes)
    panels = "".join(
        f"<figure><figcaption>{escape(score.agent)} <span class='dim'>{points(score.final)}</span></figcaption>"
        f"{trajectories([episode for episode in episodes if episode.agent == score.agent], horizon)}</figure>"
        for score in ranked
    )
    return f'<div class="panels">{panels}</div>'


def _heat_map(ranked: Sequence[Score]) -> str:
    needs = sorted({need for score in ranked for need in score.needs})
    head = "".join(f'<th scope="col"><span>{escape(need.replace("_", " "))}</span></th>' for need in needs)
    rows = "".join(
        f'<tr><th scope="row">{escape(score.agent)}</th>{"".join(heat_cell(score.needs.get(need)) for need in needs)}</tr>'
        for score in ranked
    )
    return f'<div class="scroll"><table class="heat"><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _viewer() -> str:
    return """<div class="choose"><label>agent <select id="agent"></select></label><label>person <select id="persona"></select></label>
<label>seed <select id="seed"></select></label><button id="previous" type="button">previous</button><button id="next" type="button">next</button></div>
<div id="dialogue" aria-live="polite"><p>Reading the dialogues needs JavaScript; nothing is loaded from anywhere.</p></div>"""


def _provenance(manifests: Sequence[dict[str, Any]]) -> str:
    lines = []
    for manifest in manifests:
        packages = ", ".join(
            f"{name} {number}" for name, number in dict(manifest.get("packages") or {}).items() if number
        )
        lines.append(
            f"<p>Run {escape(str(manifest.get('fingerprint')))}, {escape(str(manifest.get('created')))}: <code>{escape(' '.join(map(str, manifest.get('command') or [])))}</code><br>"
            f"Python {escape(str(manifest.get('python')))}, {escape(packages)}</p>"
        )
    return "".join(lines)


def _embedded(episodes: Sequence[Episode], ranked: Sequence[Score]) -> str:
    """The episodes, the best agent's first, as JSON that cannot end its own script element."""
    rank = {score.agent: number for number, score in enumerate(ranked)}
    plain = [
        {
            "agent": episode.agent, "persona": episode.persona, "need": episode.need, "disposition": episode.disposition, "seed": episode.seed,
            "start": episode.start, "opening": episode.opening, "outcome": episode.outcome,
            "turns": [
                [turn.utterance, turn.appraisal.change, turn.emotion, turn.appraisal.thought, [reason[1:] for reason in turn.appraisal.reasons], turn.reply]
                for turn in episode.turns
            ],
        }
        for episode in sorted(episodes, key=lambda episode: rank[episode.agent])
    ]  # fmt: skip
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text
