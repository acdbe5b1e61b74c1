"""An EmpathyEnv whose person is played by a server, as `gym.make` with a `url` makes it."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from hashlib import sha256
from typing import Any, Never, Self
from urllib.parse import quote
from uuid import uuid4

from rlver_gym.core.cards import DEFAULT_ENV, EnvCard, is_card_file
from rlver_gym.core.dialogue import clean_utterance
from rlver_gym.core.persona import SPLITS, SplitChoice
from rlver_gym.core.user import SentientUser
from rlver_gym.environment.dialogue_env import (
    DialogueEnv,
    FailureChoice,
    SaidTurn,
    View,
    check_people,
    check_split,
)
from rlver_gym.environment.episode import parse_appraisal
from rlver_gym.environment.info import InfoChoice
from rlver_gym.environment.remote_server import RemoteServer, ServerFull
from rlver_gym.environment.session import AppraisedReplies, check_place, count_cut_chars
from rlver_gym.users import is_shipped_user
from rlver_gym.util.errors import CardError, DialogueError, ResetNeeded, UnknownName
from rlver_gym.util.field_errors import parse_card
from rlver_gym.util.terminal import printable

_MAX_CONNECTIONS = 64
"""Of an environment and its forks: as many turns as a server works on at once by default."""


class RemoteEmpathyEnv(DialogueEnv):
    """Dialogues on a server, one after the other."""

    metadata: dict[str, Any] = DialogueEnv.metadata | {"render_modes": ["ansi"]}

    def __init__(
        self,
        url: str,
        card: str | EnvCard = DEFAULT_ENV,
        *,
        user: str | SentientUser | None = None,
        split: SplitChoice | None = None,
        persona: str | None = None,
        info: InfoChoice = "public",
        on_failure: FailureChoice = "raise",
        render_mode: str | None = None,
        timeout_s: float = 60.0,
        patience_s: float = 120.0,
        **others: Any,
    ) -> None:
        """The arguments are those of EmpathyEnv. UnknownName for a card or user that the server
        does not have, CardError for what is decided where it was started.
        """
        if isinstance(card, EnvCard) or is_card_file(card):
            raise CardError(
                "a card of your own cannot be sent to a server. Start the server with it (rlver-gym"
                " serve --env CARD.yaml), and give its id here."
            )
        for name in [name for name, value in others.items() if value is not None]:
            raise CardError(
                f"{name} is decided where the server is started (rlver-gym serve --help). Leave it"
                " out, or leave out url. With a url: timeout_s, patience_s."
            )
        if user is not None and not isinstance(user, str):
            raise CardError(
                "a user over the wire is a name that the server offers, such as"
                ' user="embedded". Start the server with the user of your own.'
            )
        self.user = user
        self._server = RemoteServer(url, timeout_s, patience_s)
        self._connections = deque([self._server])
        self._episode: dict[str, Any] | None = None
        self._lines: list[str] = []
        self._place: str | None = None
        try:
            there, ids, is_deterministic = self._learn(card, user, split, persona)
            view = View(info, on_failure, render_mode)
            super().__init__(there, ids, view, is_async=True, is_deterministic=is_deterministic)
        except BaseException:
            self._server.close()
            raise

    def _learn(
        self, card: str, user: str | None, split: SplitChoice | None, persona: str | None
    ) -> tuple[EnvCard, Sequence[str], bool]:
        path = f"/v1/envs/{quote(str(card), safe='')}"
        described = self._server.call("GET", path)
        there = parse_card(EnvCard, described.get("card"), f"{self._server.url}{path}")
        users, people = described["users"], described["personas"]
        if user not in (None, *users):
            raise UnknownName.of("user", user, users)
        if persona is not None and persona.partition("/")[0] not in people["all"]:
            raise UnknownName.of("persona", persona, people["all"], self._server.url)
        chosen = check_split(split or there.split)
        ids = (persona,) if persona is not None else people[chosen]
        is_deterministic = is_shipped_user((user or users[0]).partition(":")[0])
        splits = [name for name in SPLITS if people.get(name)]
        return there, check_people(ids, chosen, "the server", splits), is_deterministic

    @property
    def has_begun(self) -> bool:
        return self._episode is not None

    @property
    def has_failed_to_open(self) -> bool:
        return self._episode is not None and not (
            self._episode["valid"] or self._episode["opening"]
        )

    def _refuse(self, *_: object) -> Never:
        raise DialogueError(
            "the dialogue is on a server: its session is not here, and cannot be saved or"
            " restored. Leave out url for one that is."
        )

    session = property(_refuse)
    save_state = restore = _refuse

    def fork(self) -> Self:
        other = super().fork()
        other._episode, other._lines = None, []
        if len(self._connections) < _MAX_CONNECTIONS:
            self._connections.append(copy(self._server))
        self._connections.rotate()
        other._server = self._connections[0]
        return other

    def _keep_position(self) -> Callable[[], None]:
        episode, lines, place = self._episode, self._lines, self._place

        def restore() -> None:
            if _find_path(self._episode) != _find_path(episode):
                self._server.drop(_find_path(self._episode))
            self._episode, self._lines, self._place = episode, lines, place

        return restore

    def validate_utterance(self, utterance: str) -> str:
        if self._episode is None:
            raise ResetNeeded("the dialogue has not begun. Call reset() first.")
        return clean_utterance(utterance, self.card.max_utterance_chars, self.card.overlong)

    async def _begin(self, persona: str, scene_seed: int) -> tuple[str, dict[str, Any]]:
        request = {"env": self.card.id, "persona": persona, "scene_seed": scene_seed}
        request |= {"request_id": uuid4().hex, "user": self.user}
        path = _find_path(self._episode)
        try:
            # the old episode goes when there is a new one
            answer = await self._ask("POST", "/v1/episodes", request, waits_for_room=path is None)
        except ServerFull:  # but where it takes up the room of the new one
            self._server.drop(path)
            path = None
            answer = await self._ask("POST", "/v1/episodes", request)
        if self.info_choice == "privileged" and "hidden_need" not in (answer["privileged"] or {}):
            self._server.drop(_find_path(answer))
            raise CardError(
                f"{self._server.url} does not tell what a supporter could not know. Start it with"
                ' --privileged, or leave out info="privileged".'
            )
        self._episode, self._lines, self._place = answer, [answer["opening"]], None
        self._server.drop(path)
        return answer["opening"], self._info(answer, 0)

    async def aappraise_replies(self, texts: Sequence[str]) -> AppraisedReplies:
        words = tuple(map(self.validate_utterance, texts))
        assert self._episode is not None
        name, turn = uuid4().hex, self._episode["turn"] + 1
        answer = await self._ask(
            "POST",
            f"/v1/episodes/{self._episode['episode_id']}/replies",
            {"request_id": name, "turn": turn, "utterances": list(texts)},
        )
        self._place = name
        felt = [parse_appraisal(plain) for plain in answer["privileged"] or ()]
        return AppraisedReplies(
            place=name,
            texts=words,
            appraisals=tuple(felt),
            rewards=tuple(map(float, answer["rewards"])),
            unclipped=tuple(map(float, answer["unclipped"])),
            cut_chars=tuple(answer["cut_chars"]),
        )

    async def _say_from(self, appraised: AppraisedReplies, index: int) -> SaidTurn:
        words = self.validate_utterance(appraised.texts[index])
        check_place(appraised, self._place)
        assert self._episode is not None
        turn = self._episode["turn"] + 1
        number = range(len(appraised.texts))[index]  # from the end, where it is negative
        choice = {"turn": turn, "appraised": appraised.place, "index": number}
        path = f"/v1/episodes/{self._episode['episode_id']}/choices"
        answer = await self._ask(
            "POST", path, {"request_id": f"{turn}-{appraised.place}-{number}", **choice}
        )
        return self._take_in(words, answer, appraised.cut_chars[index])

    async def _say(self, action: str) -> SaidTurn:
        words = self.validate_utterance(action)
        assert self._episode is not None
        if self.has_failed_to_open:
            return SaidTurn("", 0.0, True, self._info(self._episode, 0))
        turn = self._episode["turn"] + 1
        # the same for the same words in the same turn: a step that is tried again is taken once
        digest = sha256(words.encode()).hexdigest()[:32]
        answer = await self._ask(
            "POST",
            f"/v1/episodes/{self._episode['episode_id']}/steps",
            {"request_id": f"{turn}-{digest}", "turn": turn, "utterance": words},
        )
        return self._take_in(words, answer, count_cut_chars(action, self.card))

    def _take_in(self, words: str, answer: dict[str, Any], cut: int) -> SaidTurn:
        self._episode, self._place = {**(self._episode or {}), **answer}, None
        self._lines = [*self._lines, f"> {words}", answer["reply"]]
        info = self._info(answer, cut)
        return SaidTurn(answer["reply"], float(answer["reward"]), answer["truncated"], info)

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

    def _end_failed_dialogue(self) -> str:
        self._episode = None
        return "the user failed on the server"

    async def _ask(self, *request: Any, **options: Any) -> dict[str, Any]:
        server = self._server
        try:
            return await server.acall(*request, **options)
        except asyncio.CancelledError:
            self._server = copy(server)  # the other one goes on waiting
            raise

    def close(self) -> None:
        """Tell the server that the dialogue is not needed any more."""
        episode, self._episode = self._episode, None
        self._server.finish(_find_path(episode))

    def render(self) -> str | None:
        return printable("\n".join(self._lines)) if self.render_mode == "ansi" else None


def _find_path(episode: dict[str, Any] | None) -> str | None:
    is_open = episode is not None and episode["outcome"] is None
    return f"/v1/episodes/{episode['episode_id']}" if episode and is_open else None
