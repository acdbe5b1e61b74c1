"""`rlver-gym rate`: a user in the person's place rates what nobody has rated."""

import asyncio
import subprocess
import sys
import time
from collections import Counter

import pytest
from commands import invoke, run_command
from json_files import read_lines, write_lines
from paths import ROOT

from rlver_gym import Appraisal
from rlver_gym.bench.rate import list_unrated_places, rate_places
from rlver_gym.core.capabilities import FACTORS
from rlver_gym.corpora.corpus import Corpus, Rating
from rlver_gym.corpora.sheets import write_sheets
from rlver_gym.testing import ChatServer, Refused
from rlver_gym.testing.answers import EmbeddedAnswers
from rlver_gym.users import EmbeddedUser
from rlver_gym.util.errors import RecordingError, UserFailed

EN = ROOT / "recordings" / "en"
FILES = ("dialogues.jsonl", "moments.jsonl", "ratings.jsonl")


@pytest.fixture
def drawn(tmp_path):
    """Six moments of six replies, one reply of the first rated, and two whole dialogues, the first
    reply of the one rated.
    """
    folder, source = tmp_path / "drawn", EN / "samples"
    folder.mkdir()
    moments = read_lines(source / "own" / "moments.jsonl")[:6]
    dialogues = read_lines(source / "test" / "dialogues.jsonl")[:2]
    known = {moments[0]["replies"][0]["id"], dialogues[0]["turns"][0]["id"]}
    ratings = [
        rating
        for part in ("own", "test")
        for rating in read_lines(source / part / "ratings.jsonl")
        if rating["reply"] in known
    ]
    for name, lines in zip(FILES, (dialogues, moments, ratings), strict=True):
        write_lines(folder / name, lines)
    (folder / "supporters.json").write_text((source / "own" / "supporters.json").read_text())
    return folder


def rate(folder, url, *words):
    server = ("--user-option", f"base_url={url}", *words)
    return run_command("rate", str(folder), "--user", "openai:any", *server)


def test_every_unrated_reply_is_rated_once_by_one_request_a_place(drawn):
    before = Corpus(drawn)
    todo = sorted(x.id for x in before.replies() if not x.ratings)
    answers, asked = EmbeddedAnswers(card="SAGE-Sentient-v0"), []

    async def answer_once_all_are_asked(body):
        asked.append(body)
        while len(asked) < 6 + 2:
            await asyncio.sleep(0.01)
        return answers(body)

    with ChatServer(answer_once_all_are_asked) as server:
        done = rate(drawn, server.base_url)
        assert (done.returncode, len(asked)) == (0, 6 + 2)
        new = Corpus(drawn).ratings[len(before.ratings) :]
        assert sorted(rating.reply for rating in new) == todo
        assert "at most 8 requests" in done.stderr
        again = run_command("rate", str(drawn), "--user", "embedded")
        assert (again.returncode, "is rated" in again.stderr) == (2, True)
    (reader,) = {rating.reader for rating in new}
    assert reader.startswith("openai:any 4+")
    assert reader in done.stdout
    assert all(rating.thought for rating in new)
    lines = read_lines(drawn / "ratings.jsonl")
    assert not any(name in line for line in lines[len(before.ratings) :] for name in FACTORS)


def test_the_changes_are_the_users_own_and_learners_read_them(drawn):
    places = list_unrated_places(Corpus(drawn))
    with ChatServer(EmbeddedAnswers(card="SAGE-Sentient-v0")) as server:
        assert rate(drawn, server.base_url).returncode == 0
    offline = [x for place in rate_places(EmbeddedUser(), places) for x in place.ratings]
    asked = {rating.reply: rating.change for rating in Corpus(drawn).ratings}
    assert len({rating.change for rating in offline}) > 4
    moments = {x.id for x in Corpus(drawn).replies() if x.place not in dialogue_ids(drawn)}
    agree = [asked[x.reply] == x.change for x in offline if x.reply in moments]
    assert all(agree)
    assert len(agree) == 6 * 6 - 1
    rated = Counter((x.place, len(x.dialogue.turns)) for x in Corpus(drawn).rated_replies())
    assert Counter(rated.values())[6] == 6


def dialogue_ids(folder):
    return {line.id for line in Corpus(folder).dialogues}


def test_a_command_that_was_killed_asks_for_nothing_twice(drawn):
    answers, served = EmbeddedAnswers(card="SAGE-Sentient-v0"), []

    def answer(body):
        served.append(body)
        return answers(body)

    def wait_s(_):
        return 0.0 if len(served) <= 3 else 60.0

    before = (drawn / "ratings.jsonl").read_bytes()
    words = ["rate", str(drawn), "--user", "openai:any"]
    with ChatServer(answer, latency_s=wait_s) as server:
        options = ["--user-option", f"base_url={server.base_url}", "--user-option", "concurrency=2"]
        process = subprocess.Popen([sys.executable, "-m", "rlver_gym", *words, *options])
        try:
            deadline = time.monotonic() + 60
            while len(served) < 5 and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(0.5)  # what was answered reaches the file
        finally:
            process.kill()
            process.wait()
        assert len(served) == 5
        assert (drawn / "ratings.jsonl").read_bytes() == before
    with ChatServer(answers) as server:
        assert rate(drawn, server.base_url).returncode == 0
        assert len(server.requests) == 8 - 3
    assert len(Corpus(drawn).rated_replies()) == len(list(Corpus(drawn).replies()))


def test_places_that_failed_are_named_and_asked_again_the_others_are_kept(drawn):
    answers, first = EmbeddedAnswers(card="SAGE-Sentient-v0"), Corpus(drawn).moments[1]

    def answer(body):
        if first.replies[0].text in body["messages"][1]["content"]:
            raise Refused(400, "no such words here")
        return answers(body)

    before = len(Corpus(drawn).ratings)
    with ChatServer(answer) as server:
        done = rate(drawn, server.base_url)
        assert done.returncode == 4
        assert f"left out: {first.id}: " in done.stderr
    rated = Corpus(drawn).ratings[before:]
    assert not {rating.reply for rating in rated} & {reply.id for reply in first.replies}
    with ChatServer(answers) as server:
        assert rate(drawn, server.base_url).returncode == 0
        assert len(server.requests) == 1
    assert all(reply.ratings for reply in Corpus(drawn).replies())


def test_what_failed_before_the_command_was_stopped_is_asked_again(drawn):
    answers, first = EmbeddedAnswers(card="SAGE-Sentient-v0"), Corpus(drawn).moments[0]
    answered = []

    def answer(body):
        if first.replies[-1].text in body["messages"][1]["content"]:
            raise Refused(400, "no such words here")
        answered.append(answers(body))
        return answered[-1]

    limits = ("--user-option", "concurrency=1", "--user-option", 'budget={"calls": 4}')
    before = (drawn / "ratings.jsonl").read_bytes()
    with ChatServer(answer) as server:
        assert rate(drawn, server.base_url, *limits).returncode == 2
        assert 8 > len(server.requests) > len(answered) > 0
    assert (drawn / "ratings.jsonl").read_bytes() == before
    with ChatServer(answers) as server:
        assert rate(drawn, server.base_url).returncode == 0
        assert len(server.requests) == 8 - len(answered)


class Terse(EmbeddedUser):
    """Has no thoughts, and tires at the third turn."""

    def appraise(self, scene, emotion, dialogue):
        if len(dialogue.turns) == 2:
            raise UserFailed("tired")
        return Appraisal(-10, "", ())


def test_a_rating_holds_no_more_than_the_user_gave(drawn):
    rated = list(rate_places(Terse(), list_unrated_places(Corpus(drawn))))
    assert {place.failure for place in rated} == {"", "tired"}
    whole = [rating for place in rated for rating in place.ratings]
    assert {rating.change for rating in whole} == {-10}
    assert {frozenset(rating.model_dump(exclude_none=True)) for rating in whole} == {
        frozenset(("reply", "reader", "change"))
    }


def test_whoever_reads_a_factor_that_nobody_gave_is_told(drawn, tmp_path):
    assert invoke("rate", str(drawn), "--user", "embedded").exit_code == 0
    known, other, *_ = Corpus(drawn).rated_replies()
    (rating,) = (x for x in known.ratings if isinstance(x, Rating))
    assert known.mean("human") == rating.human
    assert -10 <= other.mean("change") <= 10
    with pytest.raises(RecordingError, match="nobody gave it 'human'"):
        other.mean("human")
    with pytest.raises(RecordingError, match="no unrated reply"):
        write_sheets(Corpus(drawn), Corpus(EN / "train"), tmp_path / "sheets")
