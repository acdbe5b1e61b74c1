"""Alerts for a terminal; what agents said is hostile."""

from rich.text import Text

from rlver_gym.environment.alarms import Alert, AnomalyReport
from rlver_gym.util.terminal import one_line

_EXCERPT = 110


def format_alerts(watched: AnomalyReport) -> list[Text]:
    """A line for each alert, its evidence below it; then what is expected."""
    lines: list[Text] = []
    for alert in watched.alarms:
        if not alert.expected:
            agent = (one_line(alert.agent), "bold")
            lines.append(Text.assemble(("suspicious", "bold red"), "  ", agent, f" {alert.says}"))
            lines += [Text(f"            {line}", style="dim") for line in format_evidence(alert)]
    notes: list[str] = []
    if watched.privileged:
        who = ", ".join(watched.privileged)
        notes.append(f"{who} was told everything: the theoretical top, not a competitor.")
    if expected := [alert.agent for alert in watched.alarms if alert.expected]:
        who = ", ".join(expected)
        notes.append(f"Same words to everybody, as these baselines are meant to: {who}.")
    return lines + [Text(one_line(note), style="dim") for note in notes]


def format_evidence(alert: Alert) -> list[str]:
    """What to look at: the two replies that are most alike."""
    return [
        f"to {one_line(said.persona)}, seed {said.seed}, turn {said.turn}:"
        f" “{one_line(said.text, max_chars=_EXCERPT)}”"
        for said in alert.evidence.pair or ()
    ]
