// Rate: people say blindly how replies would feel, and how far they agree.
import { useEffect, useState } from "preact/hooks";
import { address, fixed, get, go, post, useAction, useAnswer, useKeys } from "./lib.js";
import { Person, Problem, Say, Scale, Select, Waiting } from "./ui.jsx";

export function RatePage({ overview, params }) {
  const run = params.get("run") || overview.runs[0]?.[0] || "";
  const rater = params.get("rater") || "", view = params.get("view") || "";
  if (!run) return <p class="card empty">Open a run to rate its dialogues: <code>rlver-gym studio RUN</code></p>;
  return (
    <>
      <div class="title"><h1>Rate</h1>
        <div class="switch" role="tablist">
          <button role="tab" aria-selected={!view} onClick={() => go("rate", { run, rater })}>Replies</button>
          <button role="tab" aria-selected={view === "pairs"} onClick={() => go("rate", { run, rater, view: "pairs" })}>Pairs</button>
          <button role="tab" aria-selected={view === "agreement"} onClick={() => go("rate", { run, rater, view: "agreement" })}>Agreement</button>
        </div>
        {overview.runs.length > 1 && <Select label="run" value={run} options={overview.runs.map(([label]) => label)} onChange={(to) => go("rate", { run: to, rater, view })} />}</div>
      {view === "agreement" ? <><Agreement run={run} rater={rater} /><Tally run={run} rater={rater} /></> : !rater ? <Begin run={run} view={view} />
        : view === "pairs" ? <Pairs key={`pairs ${run} ${rater}`} run={run} rater={rater} /> : <Queue key={`${run} ${rater}`} run={run} rater={rater} />}
    </>
  );
}

function Rubric({ open }) {
  return (
    <details class="card rubric" open={open}>
      <summary>How to rate</summary>
      <p>Be that person: their life, their mood, and the need that they do not name. Say of every reply how it would change how you feel at that moment.</p>
      <dl>
        <div><dt class="up">+7 to +10</dt><dd>it reaches you: just what you needed</dd></div>
        <div><dt class="up">+3 to +6</dt><dd>good</dd></div>
        <div><dt>0 to +2</dt><dd>pleasant, or nothing</dd></div>
        <div><dt class="down">−1 to −4</dt><dd>beside the point, would suit anyone, a little annoying</dd></div>
        <div><dt class="down">−5 to −10</dt><dd>hurts, makes no sense, passes over you, lectures, sounds like a machine</dd></div>
      </dl>
      <p>What counts is what the words mean to you. Wrong facts, your own words given back and the same once more cost, as they would with a friend. What the person says comes from a simple simulator:
        take the facts from it, not whether the reply was good. Use the whole scale; judge each dialogue for itself. You are not told who replies, nor the score.</p>
    </details>
  );
}

function Begin({ run, view }) {
  const [name, setName] = useState(localStorage.getItem("rater") || "");
  const known = useAnswer(() => get("agreement", { run }), run);
  const begin = (to) => { localStorage.setItem("rater", to); go("rate", { run, rater: to, view }); };
  return (
    <>
      <form class="card setup" onSubmit={(event) => { event.preventDefault(); if (name.trim()) begin(name.trim()); }}>
        <p>Several people can rate the same run: each under a name, all in the same order, and each goes on where they stopped.</p>
        <div class="filters"><label class="field"><span>your name, or any sign</span><input value={name} maxLength={60} required onInput={(event) => setName(event.target.value)} /></label><button class="main">Begin</button></div>
        {known.value?.raters.length > 0 && <p class="chips">go on as {known.value.raters.map((one) => <button type="button" key={one.name} onClick={() => begin(one.name)}>{one.name} ({one.replies === 1 ? "1 reply" : `${one.replies} replies`})</button>)}</p>}
        <Problem text={known.problem} />
      </form>
      {view !== "pairs" && <Rubric open />}
    </>
  );
}

function Queue({ run, rater }) {
  const [state, set] = useState(null);
  const action = useAction();
  const load = (name = "") => action.run(() => get("rate", { run, rater, name })).then((found) => found && set(found));
  useEffect(() => { load(); }, [run, rater]);
  const rated = state?.next?.turns.filter((_, at) => state.next.mine[at + 1] !== undefined).length;
  // The next reply waits for its rating: arrow keys and Enter are enough.
  useEffect(() => { if (rated) document.querySelector(`[aria-label="turn ${rated + 1}"] [tabindex="0"]`)?.focus(); }, [rated]);
  const isWhole = state?.next && rated === state.next.turns.length;
  useEffect(() => { if (isWhole) document.getElementById("next")?.scrollIntoView({ block: "end", behavior: "smooth" }); }, [isWhole]);
  if (!state) return action.problem ? <Problem text={action.problem} /> : <Waiting />;
  const one = state.next;
  if (!one) return <section class="card empty"><h2>All {state.total} dialogues are rated.</h2><p><button class="main" onClick={() => go("rate", { run, rater, view: "agreement" })}>See the agreement</button></p></section>;
  // Every rating is kept at once, whole: what was said of a turn before is said again.
  const rate = (turn, said) => {
    const told = { change: one.mine[turn], ...one.told?.[turn], ...said };
    return action.run(() => post("rate", { run, rater, name: one.name, turn, ...told })).then((kept) => {
      const add = (next) => ({ ...next, mine: { ...next.mine, [turn]: told.change }, told: { ...next.told, [turn]: told } });
      if (kept) set((now) => (now.next?.name === one.name ? { ...now, next: add(now.next) } : now));
    });
  };
  return (
    <div class="dialogue">
      <div class="side"><Person person={one.person} need={one.need} shown /><Rubric /></div>
      <div class="turns">
        <p class="progress"><span>{rater}: dialogue {state.done + 1} of {state.total}</span><a href={address("rate", { run })}>change rater</a><progress value={state.done} max={state.total} /></p>
        <Say who="user" name={one.person?.name} text={one.opening} />
        {one.turns.map(([utterance, reply], at) => {
          const turn = at + 1, mine = one.mine[turn];
          if (turn > rated + 1 && mine === undefined) return null;
          return (
            <article key={turn}>
              <Say who="agent" name="supporter" text={utterance} />
              <Scale label={`turn ${turn}`} value={mine} onRate={(change) => rate(turn, { change })} />
              {mine !== undefined && <Why name={`why, turn ${turn}`} told={one.told?.[turn]} say={(why) => rate(turn, why)} />}
              {mine !== undefined && <Say who="user" name={one.person?.name} text={reply} />}
              {mine !== undefined && reply && <p class="fit"><span class="dim">If you like: does this answer the reply?</span>{[[2, "yes"], [1, "partly"], [0, "no"]].map(([fit, title]) => (
                <button key={fit} aria-pressed={one.told?.[turn]?.fit === fit} onClick={() => rate(turn, { fit })}>{title}</button>))}</p>}
            </article>
          );
        })}
        <Problem text={action.problem} />
        {isWhole && <AtTheEnd name={one.person?.name} told={one.told?.[one.turns.length]} say={(said) => rate(one.turns.length, said)} />}
        {isWhole ? <p class="buttons" id="next"><button class="main" onClick={() => load().then(() => scrollTo(0, 0))}>Next dialogue</button></p>
          : <p class="dim">{one.turns.length - rated} to go. What they say next is shown when the reply is rated; each rating is kept at once.</p>}
      </div>
    </div>
  );
}

function AtTheEnd({ name, told = {}, say }) {
  return (
    <div class="card setup">
      <p>If you like: how would you feel now, from 0 to 100 (it began at 40), and how human do {name ? `${name}'s` : "the person's"} own lines read?</p>
      <div class="filters">
        <label class="field"><span>at the end</span><input type="number" min="0" max="100" value={told.final} onChange={(event) => event.target.checkValidity() && event.target.value !== "" && say({ final: event.target.valueAsNumber })} /></label>
        <div class="field"><span>a machine … a human</span><div class="fit">{[1, 2, 3, 4, 5, 6, 7].map((natural) => <button key={natural} aria-pressed={told.natural === natural} onClick={() => say({ natural })}>{natural}</button>)}</div></div>
      </div>
    </div>
  );
}

function Number({ title, value, digits = 2, says }) {
  return <div class="card number"><span class="dim">{title}</span><b>{value === null || value === undefined ? "–" : digits ? fixed(value, digits) : value}</b><span class="dim">{says}</span></div>;
}

// Who is nobody yet is told what nobody may know.
const whose = (run, rater) => (rater ? { run, rater } : { run });
// What a rater must not know before they are done.
const Hidden = ({ what, isNamed }) => <p class="note">{isNamed ? `Agents have names here for a rater who has ${what}.` : `Choose a rater first: agents have names here for one who has ${what}.`}</p>;

function Agreement({ run, rater }) {
  const { value, problem } = useAnswer(() => get("agreement", whose(run, rater)), `${run} ${rater}`);
  if (problem) return <Problem text={problem} />;
  if (!value) return <Waiting />;
  if (!value.replies) return <p class="card empty">Nobody has rated replies of this run yet.</p>;
  const agents = Object.entries(value.agents || {}).sort(([, a], [, b]) => b[1] - a[1]);
  return (
    <>
      <div class="numbers">
        <Number title="replies rated" value={value.replies} digits={0} says={`in ${value.dialogues} dialogues; ${value.shared} by more than one rater`} />
        <Number title="Krippendorff's alpha" value={value.alpha} says="1: raters agree; 0: as by chance. Customary: 0.80, or 0.67 for tentative conclusions" />
        <Number title="ICC(2,1)" value={value.icc} says={`one rater's reliability, over ${value.icc_replies} replies that all have rated`} />
        <Number title="r with the score" value={value.within_dialogue_r} says="mean rating and change, each dialogue's own level taken out" />
      </div>
      <section><h2>Raters</h2>
        <div class="scroll"><table class="board"><thead><tr><th>rater</th><th>replies</th><th>whole dialogues</th><th>mean</th><th>r with the score</th></tr></thead>
          <tbody>{value.raters.map((one) => <tr key={one.name}><th scope="row">{one.name}</th><td>{one.replies}</td><td>{one.dialogues}</td><td>{fixed(one.mean)}</td><td>{fixed(one.within_dialogue_r, 2)}</td></tr>)}</tbody></table></div></section>
      {!value.agents && <Hidden what="rated every dialogue" isNamed={rater} />}
      {agents.length > 0 && <section><h2>Agents</h2><p class="dim">Mean final emotion over the dialogues that somebody rated whole.</p>
        <div class="scroll"><table class="board"><thead><tr><th>agent</th><th>by people</th><th>by the score</th></tr></thead>
          <tbody>{agents.map(([agent, [score, rated]]) => <tr key={agent}><th scope="row">{agent}</th><td>{fixed(rated)}</td><td>{fixed(score)}</td></tr>)}</tbody></table></div></section>}
      <p class="note">Kept in the run's ratings.jsonl, which <code>rlver-gym rescore RUN</code> sets beside the score; <code>rlver-gym export RUN --to corpus</code> writes those that say why in the form of the corpus of rated replies.</p>
    </>
  );
}

const FACTORS = [
  ["understood", "it has understood me", 4], ["about", "it is about me and what happened", 4], ["gives", "it gives what I need", 4],
  ["human", "a person could have said it", 4], ["pressure", "it pushes me", 4], ["false", "it says what is not so", 1],
];

// Why a reply feels so, in the corpus' factors: kept when all are said.
function Why({ name, told = {}, say }) {
  const [factors, setFactors] = useState(told.factors || {});
  const [texts, setTexts] = useState({ thought: told.thought || "", words: told.words || "" });
  const keep = (now, more) => FACTORS.every(([key]) => now[key] !== undefined) && say({ factors: now, ...more });
  const set = (key, level) => { const now = { ...factors, [key]: level }; setFactors(now); keep(now, texts); };
  const field = (key, title) => <label class="field"><span>{title}</span><input value={texts[key]} maxLength={400} onInput={(event) => setTexts({ ...texts, [key]: event.target.value })} onBlur={() => keep(factors, texts)} /></label>;
  return (
    <details class="why"><summary class="dim">why, if you like</summary>
      <dl>{FACTORS.map(([key, title, most]) => (
        <div key={key}><dt>{title}</dt><dd role="radiogroup" aria-label={`${name}: ${title}`}>{Array.from({ length: most + 1 }, (_, level) => (
          <button key={level} type="button" role="radio" aria-checked={factors[key] === level} class={`quiet ${factors[key] === level ? "picked" : ""}`} onClick={() => set(key, level)}>{most === 1 ? ["no", "yes"][level] : level}</button>))}</dd></div>))}</dl>
      {field("thought", "what went through your head")}{factors.false === 1 && field("words", "the false words")}
    </details>
  );
}

// Two dialogues with the same person, side by side: which supporter helped more.
function Pairs({ run, rater }) {
  const [state, set] = useState(null);
  const action = useAction();
  useEffect(() => { action.run(() => get("pair", { run, rater })).then((found) => found && set(found)); }, [run, rater]);
  const prefer = (side) => !action.busy && state?.next && action.run(() => post("prefer", { run, rater, name: state.next.name, side })).then((found) => { if (found) { set(found); scrollTo(0, 0); } });
  const press = (side) => (event) => !event.repeat && prefer(side); // a key that is held decides no pair that nobody has seen
  useKeys({ ArrowLeft: press("left"), ArrowRight: press("right"), "=": press("even") });
  if (!state) return action.problem ? <Problem text={action.problem} /> : <Waiting />;
  const one = state.next;
  if (!one) return <section class="card empty"><h2>{state.total ? `All ${state.total} pairs are compared.` : "No two agents talked with the same person here."}</h2></section>;
  return (
    <>
      <p class="progress"><span>{rater}: pair {state.done + 1} of {state.total}</span><a href={address("rate", { run, view: "pairs" })}>change rater</a><progress value={state.done} max={state.total} aria-label="pairs compared" /></p>
      <Person key={one.name} person={one.person} need={one.need} shown />
      <p>Be that person. Which of the two supporters helped more? Each conversation is a whole one, with the same beginning; you are not told who they are, nor the score.</p>
      <div class="versus">{one.turns.map((turns, side) => (
        <div key={`${one.name} ${side}`}><h2>{side ? "Right" : "Left"}</h2><Say who="user" name={one.person?.name} text={one.openings[side]} />
          {turns.map(([utterance, reply], at) => <article key={at}><Say who="agent" name="supporter" text={utterance} />{reply && <Say who="user" name={one.person?.name} text={reply} />}</article>)}</div>))}</div>
      <Problem text={action.problem} />
      <p class="choice">{[["left", "← The left one"], ["even", "= Neither"], ["right", "The right one →"]].map(([side, title]) => <button key={side} class="main" disabled={action.busy} onClick={() => prefer(side)}>{title}</button>)}</p>
    </>
  );
}

function Tally({ run, rater }) {
  const { value, problem } = useAnswer(() => get("tally", whose(run, rater)), `${run} ${rater}`);
  if (problem) return <Problem text={problem} />;
  if (!value?.pairs) return null;
  return (
    <section><h2>Pairs</h2>
      <div class="numbers">
        <Number title="pairs compared" value={value.pairs} digits={0} says={`by ${value.raters} raters; ${value.shared} by more than one`} />
        <Number title="Krippendorff's alpha" value={value.alpha} says="left 1, neither 0, right −1" />
        <Number title="with the score" value={value.with_score} says={`share of ${value.decided} decided comparisons whose preferred side ended higher; 0.5 by chance`} />
      </div>
      {!value.agents ? <Hidden what="compared every pair" isNamed={rater} /> : <div class="scroll"><table class="board"><thead><tr><th>agent</th><th>preferred</th><th>comparisons</th></tr></thead>
        <tbody>{Object.entries(value.agents).map(([agent, [share, count]]) => <tr key={agent}><th scope="row">{agent}</th><td>{fixed(100 * share, 0)} %</td><td>{count}</td></tr>)}</tbody></table></div>}
      <p class="note">“Neither” counts a half for both. Kept in the run's preferences.jsonl.</p></section>
  );
}
