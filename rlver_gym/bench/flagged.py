"""Alerts for a terminal; what agents said is hostile."""

from rich.text import Text

from rlver_gym.environment.alarms import Alert, AnomalyReport
from rlver_gym.io.terminal import one_line

_EXCERPT = 110


def format_alerts(watched: AnomalyReport) -> list[Text]:
    """A line for each alert, its evidence below it; then what is expected."""
    lines: list[Text] = []
    for alert in _select_unexpected(watched):
        lines.append(
            Text.assemble(
                ("suspicious", "bold red"), "  ", (one_line(alert.agent), "bold"), f" {alert.says}"
            )
        )
        lines += [
            Text(f"            {evidence}", style="dim") for evidence in format_evidence(alert)
        ]
    return lines + [Text(note, style="dim") for note in _notes(watched)]


def format_evidence(alert: Alert) -> list[str]:
    """What to look at: the two replies that are most alike."""
    return [
        f"to {one_line(said.persona)}, seed {said.seed}, turn {said.turn}:"
        f" “{one_line(said.text, max_chars=_EXCERPT)}”"
        for said in alert.evidence.pair or ()
    ]


def _select_unexpected(watched: AnomalyReport) -> list[Alert]:
    return [alert for alert in watched.alarms if not alert.expected]


def _notes(watched: AnomalyReport) -> list[str]:
    expected = [alert.agent for alert in watched.alarms if alert.expected]
    told = [
        f"{', '.join(watched.privileged)} was told everything: the theoretical top, not a"
        " competitor."
    ]
    same = (
        [f"Same words to everybody, as these baselines are meant to: {', '.join(expected)}."]
        if expected
        else []
    )
    return [one_line(note) for note in (*(told if watched.privileged else ()), *same)]
