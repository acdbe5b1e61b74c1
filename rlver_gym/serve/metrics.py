"""What happened since a server started, as Prometheus reads it."""

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper ends of the histogram of turns, in seconds: 1 ms is the embedded user, seconds a model."""


class Metrics:
    """In a registry of its own: a process may run several servers."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own = {"namespace": "rlver_gym", "registry": self.registry}
        count, self.gauge = partial(Counter, **own), partial(Gauge, **own)
        self.episodes = count("episodes", "Episodes begun.")
        self.steps = count("steps", "Turns taken.")
        self.responses = count("http_responses", "HTTP responses.", ["status"])
        self.step_s = Histogram("step_seconds", "Time to take a turn.", buckets=BUCKETS_S, **own)
