"""Alarms as lines for a terminal and as banners for the report. What agents said may be hostile: it is set plain, or escaped."""

from html import escape

from rich.text import Text

from rlver_gym.anomaly import AboveCeiling, Alarm, Watch
from rlver_gym.io.terminal import one_line

_EXCERPT = 110


def alarm_lines(watched: Watch) -> list[Text]:
    """A line for each alarm with its evidence below it, then what is expected or could not be judged."""
    lines: list[Text] = []
    for alarm in _unexpected(watched):
        lines.append(Text.assemble(("suspicious", "bold red"), "  ", (one_line(alarm.agent), "bold"), f" {alarm.says}"))
        lines += [Text(f"            {evidence}", style="dim") for evidence in evidence_lines(alarm)]
    return lines + [Text(note, style="dim") for note in _notes(watched)]


def banners(watched: Watch) -> str:
    """The same for the report."""
    boxes = "".join(
        f'<div class="alarm" role="note"><p><strong>{escape(one_line(alarm.agent))}</strong> {escape(alarm.says)}</p>'
        f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in evidence_lines(alarm))}</ul></div>"
        for alarm in _unexpected(watched)
    )
    return boxes + "".join(f'<p class="note">{escape(note)}</p>' for note in _notes(watched))


def badge(agent: str, watched: Watch) -> str:
    """What stands behind an agent's name in the report's table."""
    if agent in watched.privileged:
        return ' <span class="badge told">told everything</span>'
    kinds = [alarm.kind for alarm in _unexpected(watched) if alarm.agent == agent]
    return f' <span class="badge" title="{escape(", ".join(kinds))}">suspicious</span>' if kinds else ""


def evidence_lines(alarm: Alarm) -> list[str]:
    """What to look at: the dialogues to read first, or the two replies that are most alike."""
    evidence = alarm.evidence
    if isinstance(evidence, AboveCeiling):
        first = ", ".join(f"{persona} seed {seed} ({final})" for persona, seed, final in evidence.read_first)
        return [one_line(f"read first: {first}")]
    return [
        f"to {one_line(said.persona)}, seed {said.seed}, turn {said.turn}: “{one_line(said.text, max_chars=_EXCERPT)}”"
        for said in evidence.pair or ()
    ]


def _unexpected(watched: Watch) -> list[Alarm]:
    return [alarm for alarm in watched.alarms if not alarm.expected]


def _notes(watched: Watch) -> list[str]:
    expected = [alarm.agent for alarm in watched.alarms if alarm.expected]
    told = [f"{', '.join(watched.privileged)} was told everything: the theoretical top, not a competitor."]
    same = [f"Same words to everybody, as these baselines are meant to: {', '.join(expected)}."] if expected else []
    return [one_line(note) for note in (*(told if watched.privileged else ()), *same, *watched.unjudged)]
