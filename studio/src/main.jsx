// The studio: which page stands at which address, and what is the same on all of them.
import { render } from "preact";
import { useEffect, useErrorBoundary, useState } from "preact/hooks";
import { address, get, go, readAddress, useAnswer, useKeys } from "./lib.js";
import { Problem, Waiting } from "./ui.jsx";
import { reasons } from "./reasons.js";
import { DialoguePage } from "./dialogue.jsx";
import { PeoplePage } from "./people.jsx";
import { RatePage } from "./rate.jsx";
import { RunsPage } from "./runs.jsx";
import { TalkPage } from "./talk.jsx";
import { TrainPage } from "./train.jsx";
import "./style.css";

const PAGES = { runs: RunsPage, dialogue: DialoguePage, talk: TalkPage, rate: RatePage, train: TrainPage, people: PeoplePage };
const TABS = [["runs", "Runs"], ["talk", "Talk"], ["rate", "Rate"], ["train", "Train"], ["people", "People"]];
// A file holds runs and trainings alone.
const tabsOf = ({ runs, trainings, still }) => TABS.filter(([page]) => {
  if (page === "train") return trainings.length;
  if (page === "rate") return runs.length && !still;
  return !still || (page === "runs" && runs.length);
});
const KEYS = [
  ["j, k", "next, previous dialogue of the list; next, previous turn of a dialogue"],
  ["Enter", "open the dialogue"],
  ["n, p", "in a dialogue: the next, previous one of the list"],
  ["b", "in a dialogue: another reply at this turn"],
  ["u", "back to the list"],
  ["/", "search"],
  ["← →, Enter", "rating: another number, and keep it; of two dialogues: ← the left, → the right, = neither"],
  ["?", "these keys and words"],
];
const WORDS = [
  ["environment", "the rules of a talk: how many turns, how hard the person is to reach"],
  ["seed", "the number that draws all chance; the same seed gives the same talk again"],
  ["embedded user", "the simulated person of this package: it reads words by rules and small models, and asks no server"],
  ["card", "who a person is, what happened to them and what they need, as a file"],
  ["disposition", "how they take things: negative (quick to anger), passive (waits to be drawn out) or avoidant"],
  ["need", "what they came for and never name, as to be listened to, practical advice, a balanced view, or to see the other's motives"],
  ["split", "which people are for what: train, validation and test are for training, choosing and measuring an agent, demo is to look at"],
  ["oracle", "an agent that is told the need: the top in theory, no competitor"],
  ["stickiness", "how probably an agent uses a strategy again in its next turn"],
];


function Help({ close }) {
  useKeys({ Escape: close });
  return (
    <div class="overlay" onClick={close}>
      <div class="card" role="dialog" aria-label="keys and words" onClick={(event) => event.stopPropagation()}>
        <h2>Keys</h2>
        <dl>{KEYS.map(([key, effect]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{effect}</dd></div>)}</dl>
        <h2>Words</h2>
        <dl>{WORDS.map(([word, meaning]) => <div key={word}><dt>{word}</dt><dd>{meaning}</dd></div>)}</dl>
        <button onClick={close} autofocus>Close</button>
      </div>
    </div>
  );
}

// A page that cannot be shown says so; the others stay.
function Guarded({ Page, overview, params }) {
  const [error] = useErrorBoundary();
  return error ? <Problem text={`This page cannot be shown (${error.message}). Choose another one, or load it anew.`} /> : <Page overview={overview} params={params} />;
}

function Studio() {
  const [at, setAt] = useState(readAddress);
  const [helps, setHelps] = useState(false);
  const { value: overview, problem } = useAnswer(() => get("overview"), "overview");
  useEffect(() => {
    const move = () => setAt(readAddress());
    addEventListener("hashchange", move);
    return () => removeEventListener("hashchange", move);
  }, []);
  useEffect(() => {
    if (at.page !== "runs") scrollTo(0, 0); // the list scrolls to the dialogue that was open
    document.title = `${at.params.get("id") || at.page} · rlver-gym studio`;
  }, [at.page, at.params.get("id")]);
  useKeys({
    "?": () => setHelps(!helps),
    "/": () => {
      if (!document.getElementById("search")) go(at.page === "people" ? "people" : "runs");
      setTimeout(() => document.getElementById("search")?.focus(), 60);
    },
  });
  reasons.all = overview?.reasons || [];
  const tabs = overview ? tabsOf(overview) : TABS;
  const page = PAGES[at.page] && (!overview?.still || tabs.some(([one]) => one === at.page) || at.page === "dialogue") ? at.page : tabs[0][0];
  const Page = PAGES[page];
  const current = page === "dialogue" ? "runs" : page;
  return (
    <>
      <header class="top">
        <a class="brand" href={address("runs")}><span class="wide">rlver-gym </span><b>studio</b></a>
        <nav>{tabs.map(([one, title]) => <a key={one} href={address(one)} aria-current={one === current ? "page" : undefined}>{title}</a>)}</nav>
        <button class="quiet" onClick={() => setHelps(true)} aria-label="keys and words" title="keys and words">?</button>
      </header>
      <main>{overview ? <Guarded key={page} Page={Page} overview={overview} params={at.params} /> : problem ? <Problem text={problem} /> : <Waiting text="reading the runs…" />}</main>
      {helps && <Help close={() => setHelps(false)} />}
    </>
  );
}

render(<Studio />, document.getElementById("studio"));
