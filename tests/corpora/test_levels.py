"""From a benchmark's dialogues to blind sheets, and from readers' lines to each agent's level."""

import json
import re
from statistics import fmean

import pytest
from commands import invoke_well
from paths import ROOT

from rlver_gym import env_card
from rlver_gym.bench.folder import read_episodes
from rlver_gym.bench.plan import BenchPlan
from rlver_gym.bench.run import run as hold
from rlver_gym.corpora.corpus import ENV, Corpus
from rlver_gym.corpora.levels import measure_levels
from rlver_gym.library.personas import library

TRAIN = ROOT / "recordings" / "en" / "train"
AGENTS = ("listener", "oracle", "echo")
PEOPLE = tuple(library().ids("test"))[:5]
FACTORS = dict.fromkeys(("understood", "about", "gives", "pressure", "false"), 0)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("levels") / "run"
    list(hold(BenchPlan(agents=AGENTS, persona_ids=PEOPLE, seeds=1), folder))
    return folder


@pytest.fixture
def corpus(run, tmp_path):
    out = tmp_path / "held"
    told = invoke_well("export", run, "--to", "corpus", "--out", out)
    assert f"{len(AGENTS) * len(PEOPLE)} dialogues, 0 ratings" in told
    return out


@pytest.fixture
def sheets(corpus, tmp_path):
    out = tmp_path / "sheets"
    invoke_well("sheets", "write", corpus, "--recorded", TRAIN, "--out", out, "--size", 60)
    return out


def read_key(sheets):
    return json.loads((sheets / "key.json").read_text(encoding="utf-8"))


def test_the_dialogues_of_a_run_are_a_corpus_as_they_were_held(run, corpus):
    episodes, lines = read_episodes(run), Corpus(corpus).dialogues
    assert list(Corpus(corpus).supporters) == list(AGENTS)
    assert [(x.supporter, x.persona, x.opening) for x in lines] == [
        (x.agent, x.persona, x.opening) for x in episodes
    ]
    assert [[(turn.agent, turn.user) for turn in x.turns] for x in lines] == [
        [(turn.utterance, turn.reply) for turn in x.turns] for x in episodes
    ]
    assert {len(x.turns) for x in lines} > {9}  # some ended early


def test_a_sheet_holds_a_persons_dialogues_by_all_agents_in_order_and_names_none(corpus, sheets):
    key, texts = read_key(sheets), [x.read_text("utf-8") for x in sorted(sheets.glob("*.md"))]
    replies = {reply.id: reply for reply in Corpus(corpus).replies()}
    assert len(texts) > 1
    assert sorted(x["reply"] for x in key.values() if x["recorded"] is None) == sorted(replies)
    orders = set()
    for text in texts:
        assert not any(word in text for word in (*AGENTS, "rogers", "confused"))
        shown = [key[name] for name in re.findall(r"^(?:SUPPORTER )?(s\d\d-\d{4}): ", text, re.M)]
        assert sum(x["recorded"] is not None for x in shown) == 2
        told = [replies[x["reply"]] for x in shown if x["recorded"] is None]
        places = list(dict.fromkeys(reply.place for reply in told))
        assert [x.id for x in told] == [x.id for place in places for x in told if x.place == place]
        for place in places:
            numbers = [len(x.dialogue.turns) for x in told if x.place == place]
            assert numbers == list(range(len(numbers)))
        for persona in {reply.persona for reply in told}:
            agents = dict.fromkeys(x.supporter for x in told if x.persona == persona)
            assert sorted(agents) == sorted(AGENTS)
            orders.add(tuple(agents))
    assert len(orders) > 1


def rate(sheets, corpus, change, left_out=""):
    """By a function of the agent and the person."""
    replies = {reply.id: reply for reply in Corpus(corpus).replies()}
    lines = []
    for name, entry in read_key(sheets).items():
        reply = replies.get(entry["reply"])
        if entry["reply"] == left_out:
            continue
        value = change(reply.supporter, reply.persona) if reply else round(entry["recorded"])
        human = {"human": 3 if reply and reply.supporter == "oracle" else 1}
        line = {"id": name, "thought": f"No. {name}", **FACTORS, **human, "words": ""}
        lines.append(json.dumps({**line, "change": value}))
    (sheets / "ratings" / "anna.jsonl").write_text("\n".join(lines), encoding="utf-8")


def test_levels_are_what_readers_said_person_by_person(corpus, sheets):
    def change(agent, persona):
        return {"listener": PEOPLE.index(persona), "oracle": 4, "echo": -10}[agent]

    rate(sheets, corpus, change)
    told = invoke_well("sheets", "read", sheets, corpus)
    turns = {(x.supporter, x.persona): len(x.turns) for x in Corpus(corpus).dialogues}
    finals = {
        who: [min(100, 40 + change(who, x) * turns[who, x]) for x in PEOPLE]
        for who in ("listener", "oracle")
    }
    levels = {(x.supporter, x.over): x for x in measure_levels(Corpus(corpus))}
    assert list(levels) == [
        ("listener", None),
        ("oracle", None),
        ("echo", None),
        ("oracle", "listener"),
        ("echo", "listener"),
    ]
    for who, values in finals.items():
        level = levels[who, None]
        assert level.final.mean == pytest.approx(fmean(values))
        assert level.dialogues == len(PEOPLE)
        assert min(values) <= level.final.low <= level.final.mean <= level.final.high <= max(values)
    assert levels["echo", None].final == (0, 0, 0)  # 30, 20, 10, and away at 0
    over = levels["oracle", "listener"]
    pairs = zip(finals["oracle"], finals["listener"], strict=True)
    assert over.final.mean == pytest.approx(fmean(a - b for a, b in pairs))
    assert over.change.mean == pytest.approx(4 - 2)
    assert over.change.low < over.change.mean < over.change.high
    assert over.human == (2, 2, 2)
    other = {x.supporter: x for x in measure_levels(Corpus(corpus), "RLVER-Sparse-v0")[:3]}
    start = env_card("RLVER-Sparse-v0").start
    lower = [min(100, start + 4 * turns["oracle", x]) for x in PEOPLE]
    assert other["oracle"].final.mean == pytest.approx(fmean(lower))
    assert "more than listener, to the same people" in told
    assert "anna: anchors" in told
    assert re.search(r"echo +5 +0\.0 \[0\.0, 0\.0\] +-10\.0 \[-10\.0, -10\.0\] +1\.0", told)


def test_a_dialogue_of_which_a_reply_is_not_rated_has_no_final(corpus, sheets):
    missing = Corpus(corpus).dialogues[0]
    assert missing.turns[-1].id
    rate(sheets, corpus, lambda agent, persona: 1, left_out=missing.turns[-1].id)
    told = invoke_well("sheets", "read", sheets, corpus)
    assert "1 dialogue is not rated whole: no final." in told
    first, *_ = measure_levels(Corpus(corpus))
    assert (first.supporter, first.dialogues) == (missing.supporter, len(PEOPLE) - 1)


def test_a_user_rates_the_same_corpus_and_gives_no_figure_of_what_it_was_not_asked(run, corpus):
    told = invoke_well("rate", corpus, "--user", "embedded")
    recorded = {(x.agent, x.persona): x.final for x in read_episodes(run)}
    level = measure_levels(Corpus(corpus))[1]
    assert level.final.mean == pytest.approx(fmean(recorded["oracle", x] for x in PEOPLE), abs=3)
    assert re.search(r"oracle +5 .* –", told)


@pytest.mark.parametrize(
    ("changes", "final"),
    [
        ((), 40),
        ((3.5, -1), 42.5),
        ((-10, -10, -10, -1, 10), 9),
        ((10,) * 6 + (-5,), 100),
        ((10,) * 5 + (9.5, 0.4, -3), 96.9),
    ],
    ids=["nothing", "halves", "gone", "content", "not quite content"],
)
def test_a_person_who_has_left_or_is_content_hears_no_more(changes, final):
    assert env_card(ENV).final_emotion(changes) == pytest.approx(final)
