"""Dialogues whose person is played by a server, as an `EmpathyEnv` with a `url` holds them."""

from contextlib import suppress
from copy import copy
from hashlib import sha256
from typing import Any, NamedTuple, Self
from urllib.parse import quote
from uuid import uuid4

from rlver_gym.core.cards import EnvCard
from rlver_gym.core.dialogue import clean_utterance
from rlver_gym.core.library import parse_card
from rlver_gym.environment.calls import RemoteServer
from rlver_gym.environment.env import check_split
from rlver_gym.users import is_shipped_user
from rlver_gym.util.errors import CardError, ResetNeeded, RlverError, UnknownName

_OPTIONS = ("timeout_s", "patience_s")


class RemoteTurn(NamedTuple):
    """What came of an utterance."""

    reply: str
    reward: float
    is_failed: bool
    info: dict[str, Any]


class RemoteDialogue:
    """One dialogue on a server: `begin`, then `step`, in any number of episodes."""

    def __init__(
        self, url: str, card: str | EnvCard, user: object, options: dict[str, Any]
    ) -> None:
        """Asks the server for the card and the people.

        `options`: `timeout_s`, of one request, by default 60, and `patience_s`, by default 120: how
        long a request is repeated while the server cannot be reached or asks to wait.

        UnknownName for a card or user that the server does not have, CardError for what is decided
        where it was started, ServerUnreachable, ServerOutage and ServerRefused with the remedy.
        """
        if isinstance(card, EnvCard) or card.endswith((".yaml", ".yml")):
            raise CardError(
                "a card of your own cannot be sent to a server. Start the server with it (rlver-gym"
                " serve --env CARD.yaml), and give its id here."
            )
        for name in options:
            if name not in _OPTIONS:
                raise CardError(
                    f"{name} is decided where the server is started (rlver-gym serve --help). Leave"
                    f" it out, or leave out url. With a url: {', '.join(_OPTIONS)}."
                )
        if user is not None and not isinstance(user, str):
            raise CardError(
                "a user over the wire is a name that the server offers, such as"
                ' user="embedded". Start the server with the user of your own.'
            )
        self._server = RemoteServer(
            url, options.get("timeout_s", 60.0), options.get("patience_s", 120.0)
        )
        self.user = user
        self._episode: dict[str, Any] | None = None
        self.lines: list[str] = []
        try:
            self._learn(card)
        except BaseException:
            self._server.close()
            raise

    def _learn(self, card: str) -> None:
        path = f"/v1/envs/{quote(str(card), safe='')}"
        described = self._server.call("GET", path)
        self.card = parse_card(EnvCard, described.get("card"), f"{self._server.url}{path}")
        users, self._people = described["users"], described["personas"]
        if self.user not in (None, *users):
            raise UnknownName.of("user", self.user, users, ", ".join(users))
        self.is_deterministic = is_shipped_user((self.user or users[0]).partition(":")[0])

    def list_personas(self, split: str, persona: str | None) -> tuple[str, ...]:
        """Whom a reset draws from. UnknownName for a split or persona that is not there."""
        if persona is None:
            return tuple(self._people[check_split(split)])
        if persona.partition("/")[0] not in self._people["all"]:
            raise UnknownName.of("persona", persona, self._people["all"], self._server.url)
        return (persona,)

    def fork(self) -> Self:
        """Another dialogue with the same server, over the same connection."""
        other = copy(self)
        other._episode, other.lines = None, []
        return other

    @property
    def has_begun(self) -> bool:
        """Whether there is an episode."""
        return self._episode is not None

    @property
    def has_failed_to_open(self) -> bool:
        """Whether the user failed before its first words."""
        return self._episode is not None and not (
            self._episode["valid"] or self._episode["opening"]
        )

    def begin(self, persona: str, scene_seed: int) -> tuple[str, dict[str, Any]]:
        """Begin an episode: the first words, and everything that the server tells."""
        self.leave()
        request = {"env": self.card.id, "persona": persona, "scene_seed": scene_seed}
        answer = self._server.call(
            "POST", "/v1/episodes", {"request_id": uuid4().hex, "user": self.user, **request}
        )
        self._episode = answer
        self.lines = [answer["opening"]]
        return answer["opening"], self._info(answer, 0)

    def validate_utterance(self, utterance: str) -> str:
        """The utterance as it is sent. ResetNeeded or UtteranceError for what cannot be said."""
        if self._episode is None:
            raise ResetNeeded("the dialogue has not begun. Call reset() first.")
        return clean_utterance(utterance, self.card.max_utterance_chars, self.card.overlong)

    def step(self, utterance: str) -> RemoteTurn:
        """Say something to the person."""
        words = self.validate_utterance(utterance)
        assert self._episode is not None
        if self.has_failed_to_open:
            return RemoteTurn("", 0.0, True, self._info(self._episode, 0))
        turn = self._episode["turn"] + 1
        # the same for the same words in the same turn: a step that is tried again is taken once
        digest = sha256(words.encode()).hexdigest()[:32]
        answer = self._server.call(
            "POST",
            f"/v1/episodes/{self._episode['episode_id']}/steps",
            {"request_id": f"{turn}-{digest}", "turn": turn, "utterance": words},
        )
        self._episode = {**self._episode, **answer}
        self.lines += [f"> {words}", answer["reply"]]
        cut = max(0, len(utterance) - self.card.max_utterance_chars)
        info = self._info(answer, cut)
        return RemoteTurn(answer["reply"], float(answer["reward"]), answer["truncated"], info)

    def leave(self) -> None:
        """Drop an episode that still goes on; one that has ended is the server's to drop."""
        episode, self._episode = self._episode, None
        if episode and episode["outcome"] is None:
            with suppress(RlverError):  # it is dropped when it was idle for long
                path = f"/v1/episodes/{episode['episode_id']}"
                self._server.call("DELETE", path, patience_s=0.0)

    def close(self) -> None:
        """Tell the server that the episode is not needed any more."""
        self.leave()
        self._server.close()

    def require_privileged(self) -> None:
        """CardError where the server does not tell what a supporter could not know."""
        if self._episode is not None and "hidden_need" not in (self._episode["privileged"] or {}):
            self.leave()
            raise CardError(
                f"{self._server.url} does not tell what a supporter could not know. Start it with"
                ' --privileged, or leave out info="privileged".'
            )

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
