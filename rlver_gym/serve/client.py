"""The client: an environment whose person is played by a server, with the same observations,
rewards and ends as on this machine; and the entry point that chooses between both. Knows nothing of
the server but its answers.
"""

from contextlib import suppress
from hashlib import sha256
from typing import Any, ClassVar
from urllib.parse import quote
from uuid import uuid4

import gymnasium as gym

from rlver_gym.core.cards import EnvCard
from rlver_gym.core.dialogue import clean_utterance
from rlver_gym.core.library import parse_card
from rlver_gym.core.persona import SPLIT_CHOICES, SplitChoice
from rlver_gym.environment.env import MAX_REPLY_CHARS, EmpathyEnv, Utterance, draw_scene
from rlver_gym.io.errors import CardError, DialogueError, RlverError, UnknownName
from rlver_gym.serve.calls import RemoteServer

_LOCAL_ONLY = ("personas", "base_url", "api_key")


def make_env(
    card: str | EnvCard = "RLVER-Empathy-v0", *, url: str | None = None, **options: Any
) -> gym.Env[str, str]:
    """The environment of that card: an `EmpathyEnv`, or a `RemoteEnv` when a `url` is given.

        gym.make("RLVER-Empathy-v0")
        gym.make("RLVER-Empathy-v0", url="http://127.0.0.1:8000")

    `options` are those of the class. CardError for those that a server's operator decides about;
    other errors as the class raises them.
    """
    if url is None:
        return EmpathyEnv(card, **options)
    if isinstance(card, EnvCard) or card.endswith((".yaml", ".yml")):
        raise CardError(
            "a card of your own cannot be sent to a server. Start the server with it (rlver-gym"
            " serve --env CARD.yaml), and give its id here."
        )
    for name in _LOCAL_ONLY:
        if name in options:
            raise CardError(
                f"{name} is decided where the server is started (rlver-gym serve --help). Leave it"
                " out, or leave out url."
            )
    return RemoteEnv(card, url=url, **options)


class RemoteEnv(gym.Env[str, str]):
    """An `EmpathyEnv` elsewhere: the same spaces, rewards and ends, and for the same seeds the same
    episodes. See there.

    `info` holds what an agent may know: turn, outcome, valid, persona and cut_chars. The names in
    `privileged_info` are among it only when the server was started with --privileged.

    ## Arguments

    `gym.make("RLVER-Empathy-v0", url="http://127.0.0.1:8000", user=None, split=None, persona=None,
    render_mode=None, timeout_s=60.0, patience_s=120.0)`

    - `url`: where the server is. Its token is read from RLVER_GYM_TOKEN
    - `user`: one of those that the server offers; None takes its first
    - `split`, `persona`: as for `EmpathyEnv`
    - `render_mode`: "ansi" gives what was said as text
    - `timeout_s`: how long one request may take, in seconds
    - `patience_s`: how long a request is repeated, in seconds, while the server cannot be reached
      or asks to wait. A repeated request is done once

    Raises ServerUnreachable, ServerOutage and ServerRefused, with the remedy. The dialogue is then
    where it was, and the same step can be taken again. DialogueError when the server has dropped
    the episode.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 (so in Gymnasium)
    privileged_info: ClassVar[tuple[str, ...]] = EmpathyEnv.privileged_info

    def __init__(
        self,
        card: str = "RLVER-Empathy-v0",
        *,
        url: str,
        user: str | None = None,
        split: SplitChoice | None = None,
        persona: str | None = None,
        render_mode: str | None = None,
        timeout_s: float = 60.0,
        patience_s: float = 120.0,
    ) -> None:
        """See the class for the arguments. Asks the server for the card.

        Raises UnknownName for a card, user, split or persona that the server does not have.
        """
        self._server = RemoteServer(url, timeout_s, patience_s)
        if user is not None and not isinstance(user, str):
            raise CardError(
                "a user over the wire is a name that the server offers, such as"
                ' user="embedded". Start the server with the user of your own.'
            )
        if render_mode not in (None, "ansi"):
            raise UnknownName.of("render mode", render_mode, ["ansi"], "'ansi' or None")
        self.render_mode = render_mode
        self.user = user
        try:
            self._learn(card, split, persona)
        except BaseException:
            self._server.close()
            raise
        self.action_space = Utterance(self.card.max_utterance_chars)
        self.observation_space = Utterance(MAX_REPLY_CHARS)
        self._episode: dict[str, Any] | None = None
        self._lines: list[str] = []

    def _learn(self, card: str, split: SplitChoice | None, persona: str | None) -> None:
        """Ask for the card and the people."""
        path = f"/v1/envs/{quote(str(card), safe='')}"
        described = self._server.call("GET", path)
        self.card = parse_card(EnvCard, described.get("card"), f"{self._server.url}{path}")
        users, people = described["users"], described["personas"]
        if self.user not in (None, *users):
            raise UnknownName.of("user", self.user, users, ", ".join(users))
        split = split or self.card.split
        if split not in SPLIT_CHOICES:
            raise UnknownName.of("split", split, SPLIT_CHOICES, ", ".join(SPLIT_CHOICES))
        self._ids: tuple[str, ...] = tuple(people[split]) if persona is None else (persona,)
        if persona is not None and persona.partition("/")[0] not in people["all"]:
            raise UnknownName.of("persona", persona, people["all"], self._server.url + path)
        if not self._ids:
            raise CardError(f"the server has no persona of split {split!r}. Choose another split.")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin a dialogue. `options={"persona": id}` chooses with whom."""
        super().reset(seed=seed)
        unknown = set(options or {}) - {"persona"}
        if unknown:
            raise UnknownName.of(
                "reset option", sorted(unknown)[0], ["persona"], 'options={"persona": id}'
            )
        asked = (options or {}).get("persona")
        persona_id, scene_seed = draw_scene(self.np_random, (asked,) if asked else self._ids)
        self._leave()
        answer = self._server.call(
            "POST",
            "/v1/episodes",
            {
                "request_id": uuid4().hex,
                "env": self.card.id,
                "persona": persona_id,
                "scene_seed": scene_seed,
                "user": self.user,
            },
        )
        self._episode = answer
        self._lines = [answer["opening"]]
        return answer["opening"], self._info(answer, 0)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Say something; see `EmpathyEnv` for what comes back."""
        if self._episode is None:
            raise DialogueError("the dialogue has not begun. Call reset() first.")
        if self._has_failed_to_open:
            return "", 0.0, False, True, self._info(self._episode, 0)
        words = clean_utterance(action, self.card.max_utterance_chars, self.card.overlong)
        turn = self._episode["turn"] + 1
        answer = self._server.call(
            "POST",
            f"/v1/episodes/{self._episode['episode_id']}/steps",
            {"request_id": _request_id(turn, words), "turn": turn, "utterance": words},
        )
        self._episode = {**self._episode, **answer}
        self._lines += [f"> {words}", answer["reply"]]
        cut = max(0, len(action) - self.card.max_utterance_chars)
        return (
            answer["reply"],
            float(answer["reward"]),
            answer["terminated"],
            answer["truncated"],
            self._info(answer, cut),
        )

    def render(self) -> str | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """What was said so far, in mode "ansi"; the agent's lines begin with ">"."""
        return "\n".join(self._lines) if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Tell the server that the episode is not needed any more."""
        self._leave()
        self._server.close()

    @property
    def _has_failed_to_open(self) -> bool:
        """Whether the user failed before its first words."""
        return self._episode is not None and not (
            self._episode["valid"] or self._episode["opening"]
        )

    def _leave(self) -> None:
        """Drop an episode that still goes on; one that has ended is the server's to drop."""
        episode, self._episode = self._episode, None
        if episode and episode["outcome"] is None:
            with suppress(RlverError):  # it is dropped when it was idle for long
                path = f"/v1/episodes/{episode['episode_id']}"
                self._server.call("DELETE", path, patience_s=0.0)

    def _info(self, answer: dict[str, Any], cut_chars: int) -> dict[str, Any]:
        assert self._episode is not None
        return {
            **(answer["privileged"] or {}),
            "turn": answer["turn"],
            "outcome": answer["outcome"],
            "valid": answer["valid"],
            "persona": self._episode["persona"],
            "cut_chars": cut_chars,
        }


def _request_id(turn: int, words: str) -> str:
    """The same for the same words in the same turn: a step that is tried again is taken once."""
    return f"{turn}-{sha256(words.encode()).hexdigest()[:32]}"
