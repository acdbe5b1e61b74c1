"""A run as data to train on: what was said comes out as it was, all else beside it."""

import csv
import json
import re
import shutil
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from commands import invoke, invoke_well
from exports import rows
from failing import FailsInTurn
from paths import ROOT

from rlver_gym import Appraisal, Dialogue, EmpathySession, Reason, Scene, Turn, env_card
from rlver_gym.bench.export.export import ExportOptions, export
from rlver_gym.bench.export.files import write_export
from rlver_gym.bench.export.select_dialogues import DialogueFilter, filter_records, read_records
from rlver_gym.bench.export.table import write_table
from rlver_gym.bench.folder import EPISODES, read_episodes
from rlver_gym.core.emotion import Outcome
from rlver_gym.corpora.corpus import Corpus
from rlver_gym.environment.episode import Episode
from rlver_gym.library.personas import library
from rlver_gym.testing import ScriptedChat
from rlver_gym.users import EmbeddedUser
from rlver_gym.users.llm import LLMOptions, LLMUser, RequestBuilder
from rlver_gym.util.errors import RunError, UnknownName

Row = dict[str, Any]
Hold = Callable[..., Episode]


def episode_of(row):
    """The record again, from nothing but the row."""
    told = row["metadata"]
    said = [one["content"] for one in row["messages"]] + [told["last_reply"]]
    felt, turns = told["turns"], []
    for number, one in enumerate(felt):
        reasons = tuple(Reason(**why) for why in one["reasons"])
        appraisal = Appraisal(one["change"], one["thought"], reasons, one.get("spread"))
        outcome = Outcome(told["outcome"]) if number == len(felt) - 1 else None
        utterance, reply = said[2 * number + 1 : 2 * number + 3]
        turns.append(Turn(utterance, appraisal, one["emotion"], one["reward"], outcome, reply))
    header = {name: told[name] for name in Episode._fields if name not in ("opening", "turns")}
    return Episode(**header, opening=said[0], turns=tuple(turns))


def test_a_row_for_the_user_is_what_the_llm_user_asks_and_understands(tmp_path):
    corpus, card = ROOT / "recordings" / "en" / "train", env_card("SAGE-Sentient-v0")
    wanted = DialogueFilter(agents=("curious",), split="validation")
    answers = {}
    for row in rows(corpus, "user", tmp_path, wanted):
        *asked, answer = row["messages"]
        answers[tuple(one["content"] for one in asked)] = answer["content"]
    replies = [
        one
        for one in Corpus(corpus).rated_replies()
        if one.supporter == "curious" and library().get(one.persona).split == "validation"
    ]
    for one in replies:

        def answer_as_exported(request):
            return answers[tuple(message.content for message in request.messages)]

        user = LLMUser(ScriptedChat(answer_as_exported), "m")
        appraisal = user.appraise(Scene(library().get(one.persona), card, 0), 40, one.dialogue)
        assert appraisal.change == round(one.mean("change"))
        assert appraisal.thought == one.ratings[0].thought
    assert len(replies) == len(answers) > 10


def test_a_chat_row_holds_the_whole_record_of_its_dialogue(finished, tmp_path):
    found = rows(finished, "openai", tmp_path)
    assert [episode_of(row).to_json() for row in found] == [
        one.to_json() for one in read_episodes(finished)
    ]
    for row in found:
        roles = [one["role"] for one in row["messages"]]
        assert roles == ["user", "assistant"] * (len(roles) // 2)
        assert row["metadata"]["split"] == "demo"
        assert row["metadata"]["valid"] is True


def test_sharegpt_says_the_same(finished, tmp_path):
    names = {"human": "user", "gpt": "assistant"}
    chats, shared = rows(finished, "openai", tmp_path), rows(finished, "sharegpt", tmp_path)
    for chat, other in zip(chats, shared, strict=True):
        said = [
            {"role": names[one["from"]], "content": one["value"]} for one in other["conversations"]
        ]
        assert said == chat["messages"]
        assert other["metadata"] == chat["metadata"]


def test_each_reply_is_a_row_with_all_that_was_said_before_it(finished, tmp_path):
    found = iter(rows(finished, "sft", tmp_path))
    for episode in read_episodes(finished):
        said = [episode.opening]
        for number, turn in enumerate(episode.turns, 1):
            row = next(found)
            assert [one["content"] for one in row["prompt"]] == said
            assert row["completion"] == [{"role": "assistant", "content": turn.utterance}]
            felt = {"emotion": turn.emotion, "reward": turn.reward, "reply": turn.reply}
            felt |= {"agent": episode.agent, "turn": number, "change": turn.appraisal.change}
            assert row["metadata"].items() >= felt.items()
            said += [turn.utterance, turn.reply]
    assert next(found, None) is None


def test_of_a_pair_the_chosen_reply_is_felt_to_be_better(finished, tmp_path):
    found = rows(finished, "dpo", tmp_path)
    assert len(found) > 30
    card = env_card("SAGE-Sentient-v0")
    for row in found:
        told = row["metadata"]
        session = EmpathySession(EmbeddedUser(), library().get(told["persona"]), card, told["seed"])
        assert row["prompt"][0] == {"role": "user", "content": session.start()}
        for message in row["prompt"][1::2]:
            session.reply(message["content"])
        here = session.snapshot()
        changes = []
        for side in ("chosen", "rejected"):
            (reply,) = row[side]
            changes.append(session.reply(reply["content"]).appraisal.change)
            session.restore(here)
            assert told[side]["change"] == changes[-1]
        assert told["margin"] == changes[0] - changes[1] >= 1


BETTER, WORSE = "You carried him down two floors. That took heart.", "Cheer up."


def test_pairs_branch_wherever_the_talk_was_the_same_so_far(tmp_path, hold):
    _write(
        tmp_path,
        [hold(name, "Tell me more.", end) for name, end in zip("ab", (WORSE, BETTER), strict=True)],
    )
    (row,) = rows(tmp_path, "dpo", tmp_path)
    assert (row["metadata"]["turn"], len(row["prompt"])) == (2, 3)
    assert row["metadata"]["chosen"]["agents"] == ["b"]
    assert row["rejected"][0]["content"] == WORSE


def test_replies_that_were_felt_the_same_or_to_others_make_no_pair(tmp_path, hold):
    same = [hold(name, "Tell me more.") for name in "ab"]
    _write(tmp_path, [*same, hold("c", WORSE, seed=1)])
    with pytest.raises(RunError, match="bench more agents or seeds"):
        export([tmp_path], "dpo")


def test_a_margin_that_no_pair_has_is_named(finished, tmp_path):
    wide = rows(finished, "dpo", tmp_path, min_margin=8)
    assert 0 < len(wide) < len(rows(finished, "dpo", tmp_path))
    assert min(row["metadata"]["margin"] for row in wide) >= 8
    with pytest.raises(RunError, match="--min-margin"):
        rows(finished, "dpo", tmp_path / "none", min_margin=21)
    assert not (tmp_path / "none").exists()


@pytest.fixture
def hold(persona, card):
    """Holds a dialogue in which an agent says these utterances."""

    def hold(agent, *said, seed=0, user=None, who=None):
        short = card.model_copy(update={"turns": len(said)})
        session = EmpathySession(user or EmbeddedUser(), who or persona, short, seed)
        session.start()
        for utterance in said:
            if session.outcome is None:
                session.reply(utterance)
        return Episode.of(session, agent)

    return hold


def _write(folder, episodes):
    lines = "".join(f"{one.to_json()}\n" for one in episodes)
    (folder / EPISODES).write_text(lines, encoding="utf-8")


@pytest.fixture
def broken(tmp_path, hold):
    """Four dialogues: one whole, others that fail in turn 2, in turn 1, before the first words."""
    users = {
        "a9": FailsInTurn(9),
        "a1": FailsInTurn(2),
        "a0": FailsInTurn(1),
        "a-1": FailsInTurn(0),
    }
    said = ("What was that like?", "Go on.")
    _write(tmp_path, [hold(name, *said, user=user) for name, user in users.items()])
    return tmp_path


def test_failed_dialogues_are_left_out_unless_asked_for(broken):
    done = export([broken], "openai")
    assert len(done.chosen.records) == 1
    assert done.chosen.left_out == {
        "failed (--outcome all takes them too)": 2,
        "in which nobody said a word": 1,
    }
    taken = rows(broken, "openai", broken, wanted=DialogueFilter(outcomes=tuple(Outcome)))
    assert [row["metadata"]["valid"] for row in taken] == [True, False, False]
    assert episode_of(taken[1]) == read_episodes(broken)[1]


def test_a_reply_that_nobody_felt_is_no_example_and_no_half_of_a_pair(broken):
    everything = DialogueFilter(outcomes=tuple(Outcome))
    replies = rows(broken, "sft", broken, wanted=everything)
    assert [row["metadata"]["agent"] for row in replies] == ["a9", "a9", "a1"]
    with pytest.raises(RunError, match="no pairs"):
        export([broken], "dpo", wanted=everything)
    with pytest.raises(RunError, match="the user failed at once"):
        export([broken], "sft", wanted=DialogueFilter(agents=("a0",), outcomes=tuple(Outcome)))


def test_filters_keep_what_was_asked_for(finished):
    records = read_records([finished]).records

    def kept(**wanted):
        return [one.episode for one in filter_records(records, DialogueFilter(**wanted)).records]

    assert {one.agent for one in kept(agents=("listener", "oracle"))} == {"listener", "oracle"}
    assert kept(min_emotion=70) == [one.episode for one in records if one.episode.final >= 70]
    assert {one.outcome for one in kept(outcomes=(Outcome.LEFT,))} == {Outcome.LEFT}
    longest = sorted(max(len(turn.utterance) for turn in one.episode.turns) for one in records)
    fitting = sum(size <= longest[20] for size in longest)
    assert 0 < fitting == len(kept(max_reply=longest[20])) < len(records)
    assert len(kept(split="demo")) == len(records)
    says = "nothing is left of 48 dialogues: 48 not with test personas"
    with pytest.raises(RunError, match=says):
        filter_records(records, DialogueFilter(split="test"))
    with pytest.raises(UnknownName, match="Did you mean 'listener'"):
        filter_records(records, DialogueFilter(agents=("listner",)))


def test_a_system_message_stands_first_in_every_format(finished, tmp_path):
    for to, where in (("openai", "messages"), ("sft", "prompt"), ("dpo", "prompt")):
        found = rows(finished, to, tmp_path, system="Listen.")
        assert {json.dumps(row[where][0]) for row in found} == {
            '{"role": "system", "content": "Listen."}'
        }
        assert all(one["role"] != "system" for row in found for one in row[where][1:])
    first = rows(finished, "sharegpt", tmp_path, system="Listen.")[0]["conversations"][0]
    assert first == {"from": "system", "value": "Listen."}


def test_bare_rows_hold_the_format_and_nothing_else(finished, tmp_path):
    assert {tuple(row) for row in rows(finished, "openai", tmp_path, bare=True)} == {("messages",)}
    assert {tuple(row) for row in rows(finished, "dpo", tmp_path, bare=True)} == {
        ("prompt", "chosen", "rejected")
    }


def test_several_runs_give_pairs_that_none_has_alone(tmp_path, hold):
    folders = [tmp_path / name for name in ("one", "two")]
    for folder, words in zip(folders, (WORSE, BETTER), strict=True):
        folder.mkdir()
        _write(folder, [hold("policy", words)])
        with pytest.raises(RunError, match="no pairs"):
            export([folder], "dpo")
    assert export(folders, "dpo").rows == {"pairs": 1}
    lines = map(json.loads, _lines(export(folders, "openai").path))
    assert [line["metadata"]["run"] for line in lines] == ["one", "two"]


def test_the_folder_for_the_hub_says_which_files_are_which_split(finished, tmp_path):
    done = export([finished], "hf", tmp_path / "data")
    card = (done.path / "README.md").read_text(encoding="utf-8")
    head = yaml.safe_load(card.split("---")[1])
    names = [one["config_name"] for one in head["configs"]]
    assert names == list(done.rows) == ["dialogues", "replies", "pairs"]
    for config in head["configs"]:
        (file,) = config["data_files"]
        assert file["split"] == "demo"
        assert len(_lines(done.path / file["path"])) == done.rows[config["config_name"]]
    assert "| oracle | 16 |" in card
    assert "oracle was told the hidden need" in card


def test_an_earlier_export_is_replaced_and_nothing_else_is(finished, tmp_path):
    out = tmp_path / "data"
    export([finished], "hf", out)
    assert "pairs" not in export([finished], "hf", out, DialogueFilter(agents=("oracle",))).rows
    assert sorted(path.name for path in out.iterdir()) == ["README.md", "dialogues", "replies"]
    (out / "pairs").mkdir()
    own = [out / ".git", out / "notes.txt", out / "pairs" / "mine.jsonl", out / "pairs/demo.jsonl"]
    for path in own:
        path.write_text("my own")
    export([finished], "hf", out, DialogueFilter(agents=("oracle",)))
    assert [path.read_text() for path in own] == ["my own"] * 4
    (out / "README.md").write_text("my own")
    with pytest.raises(RunError, match="no earlier export"):
        export([finished], "hf", out)
    assert (out / "README.md").read_text() == "my own"


@pytest.mark.parametrize(
    "name",
    [EPISODES, "manifest.json", "ratings.jsonl", "preferences.jsonl", "studio/branches.jsonl"],
)
def test_no_export_takes_the_place_of_a_runs_record(copy, name):
    before = sorted((path.name, path.read_bytes()) for path in copy.iterdir())
    with pytest.raises(RunError, match=r"is the run's own record.*--out"):
        export([copy], "sft", copy / name)
    assert sorted((path.name, path.read_bytes()) for path in copy.iterdir()) == before


def test_no_export_takes_the_place_of_a_corpus(tmp_path):
    corpus = shutil.copytree(ROOT / "recordings" / "en" / "talk", tmp_path / "talk")
    with pytest.raises(RunError, match=r"is the corpus's own record.*--out"):
        export([corpus], "sft", corpus / "moments.jsonl", options=ExportOptions(min_change=1))


def test_a_folder_that_cannot_be_finished_leaves_the_earlier_one_as_it_was(tmp_path):
    out = tmp_path / "data"
    write_export(out, {"README.md": "<!-- written by rlver-gym export -->"})
    with pytest.raises(RunError, match="cannot be written"):
        write_export(
            out, {"README.md": "new", "README.md/below": "a file lies where a folder is needed"}
        )
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert (out / "README.md").read_text() == "<!-- written by rlver-gym export -->"


def test_an_earlier_export_is_not_followed_out_of_its_folder(finished, tmp_path):
    out, outside = tmp_path / "data", tmp_path / "outside"
    export([finished], "hf", out)
    outside.mkdir()
    (out / "replies").rename(outside / "replies")
    (out / "replies").symlink_to(outside / "replies")
    (outside / "replies" / "demo.jsonl").write_text("mine")
    with pytest.raises(RunError, match="leads out of the folder"):
        export([finished], "hf", out)
    assert (outside / "replies" / "demo.jsonl").read_text() == "mine"


def test_a_table_holds_no_formula_and_its_numbers_are_numbers(tmp_path):
    formulas = ["=1+1", "+1", "-2", "@sum", "\t=1", "\r=1", '=HYPERLINK("x")']
    rows = [{"text": text, "change": -3, "reward": -0.5, "none": None} for text in formulas]
    write_table(tmp_path / "table.csv", [*rows, {**rows[0], "text": "a = b - c, 'quoted'"}])
    with (tmp_path / "table.csv").open(encoding="utf-8", newline="") as file:
        told = list(csv.DictReader(file))
    assert [row["text"] for row in told] == [f"'{text}" for text in formulas] + [
        "a = b - c, 'quoted'"
    ]
    assert {(row["change"], row["reward"], row["none"]) for row in told} == {("-3", "-0.5", "")}


def _lines(path):
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def test_the_command_says_what_it_wrote_and_where_pairs_come_from(copy):
    assert f"{copy / 'openai.jsonl'}: 48 dialogues" in invoke_well("export", copy, "--to", "openai")
    assert "left out  32 by other agents" in invoke_well(
        "export", copy, "--to", "sft", "--agent", "oracle"
    )
    pairs = invoke_well("export", copy, "--to", "dpo")
    assert "16 at turn 1" in pairs
    assert "bench more agents or seeds" in pairs
    told = json.loads(invoke_well("export", copy, "--to", "dpo", "--json", "--outcome", "all"))
    assert (told["points_by_turn"], told["dialogues"]) == ({"1": 16}, 48)


@pytest.mark.parametrize("split", ["validation", "test"])
def test_personas_to_choose_or_report_with_are_not_exported_without_a_word(tmp_path, hold, split):
    _write(tmp_path, [hold("a", "Tell me more.", who=library().get(library().ids(split)[0]))])
    assert f"all dialogues are with {split} personas" in invoke_well(
        "export", tmp_path, "--to", "openai"
    )


def test_a_card_without_a_split_is_in_the_one_that_it_was_asked_for_in(tmp_path):
    card, run = ROOT / "examples" / "people" / "ruth-and-the-choir.yaml", tmp_path / "run"
    few = ("--personas", str(card), "--agent", "comfort", "--seeds", "1", "--split", "train")
    invoke_well("bench", *few, "--out", str(run))
    named = ("export", str(run), "--to", "sft", "--personas", str(card))
    assert "replies" in invoke_well(*named, "--split", "train")
    with pytest.raises(RunError, match="not with demo personas"):
        filter_records(read_records([run], str(card)).records, DialogueFilter(split="demo"))
    with pytest.raises(RunError, match=r"Name the folder: --personas DIR"):
        export([run], "user")


def test_rows_of_a_run_with_a_card_of_ones_own_are_of_that_card(tmp_path):
    card, run = tmp_path / "run.yaml", tmp_path / "run"
    pinned = (ROOT / "research" / "run" / "run.yaml").read_text(encoding="utf-8")
    card.write_text(re.sub(r"(?m)^embedded_user: .*\n", "", pinned), encoding="utf-8")
    few = ("--env", str(card), "--split", "train", "--agent", "echo", "--seeds", "1")
    invoke_well("bench", *few, "--persona", library().ids("train")[0], "--out", str(run))
    exported = rows(run, "user", tmp_path)
    (episode,) = read_episodes(run)
    scene = Scene(library().get(episode.persona), env_card(str(card)), episode.seed)
    emotion, dialogue, asked = episode.start, Dialogue(episode.opening), []
    for turn in episode.turns:
        said = dialogue.with_utterance(turn.utterance)
        builder = RequestBuilder("", LLMOptions(), scene)
        asked.append([x._asdict() for x in builder.build("appraise", emotion, said).messages])
        emotion, dialogue = turn.emotion, said.with_turn(turn._replace(outcome=None))
    assert [row["messages"][:-1] for row in exported] == asked


@pytest.mark.parametrize("option", ["--min-change 3", "--system Hi.", "--bare", "--env x.yaml"])
def test_an_option_that_a_format_does_not_heed_is_refused(finished, option):
    done = invoke("export", finished, "--to", "table", *option.split())
    assert done.exit_code == 2
    assert "goes with --to" in done.output


def test_a_run_given_twice_is_not_exported_twice(finished):
    with pytest.raises(RunError, match="given twice"):
        export([finished, finished], "sft")


def test_what_is_no_run_is_named(tmp_path):
    with pytest.raises(RunError, match="the folder of a run"):
        export([tmp_path], "sft")
    (tmp_path / EPISODES).write_text("")
    with pytest.raises(RunError, match="there are no episodes"):
        export([tmp_path], "sft")
