// Talk: be the supporter of a simulated person, or be the one in need and rate each reply as it feels.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { download, get, go, post, signed, tone, useAction, useAnswer, words } from "./lib.js";
import { toMarkdown } from "./markdown.js";
import { Composer, EmotionLine, Ending, Felt, Person, Problem, Say, Scale, Select, Waiting } from "./ui.jsx";

export function TalkPage({ overview, params }) {
  const mode = params.get("as") === "need" ? "need" : "supporter";
  return (
    <>
      <div class="title"><h1>Talk</h1>
        <div class="switch" role="tablist">
          <button role="tab" aria-selected={mode === "supporter"} onClick={() => go("talk")}>I support somebody</button>
          <button role="tab" aria-selected={mode === "need"} onClick={() => go("talk", { as: "need" })}>I need somebody</button>
        </div></div>
      {mode === "need" ? <Need overview={overview} /> : <Support key={params.get("card") || ""} overview={overview} params={params} />}
    </>
  );
}

// A card that was written on the page of people, to be talked to.
export const draft = { card: "" };

function useScroll(what) {
  const end = useRef(null);
  useEffect(() => end.current?.scrollIntoView({ block: "nearest", behavior: "smooth" }), [what]);
  return end;
}

// A talk lasts until it is left, whatever else is looked at meanwhile.
const talks = { support: null, need: null };
function useTalk(side, isNew = false) {
  const [talk, set] = useState(isNew ? null : talks[side]);
  return [talk, (to) => { talks[side] = to; set(to); }];
}

function Support({ overview, params }) {
  const people = useAnswer(() => get("people"), "people");
  const card = params.get("card") ? draft.card : "";
  const [persona, setPersona] = useState(params.get("persona") || "");
  const [env, setEnv] = useState("RLVER-Empathy-v0");
  const [seed, setSeed] = useState(0);
  const [talk, setTalk] = useTalk("support", params.has("persona") || params.has("card"));
  const action = useAction();
  useEffect(() => {
    if (people.value && !persona) setPersona((people.value.find((one) => one.split === "demo") || people.value[0]).id);
  }, [people.value]);
  const titles = useMemo(() => new Map((people.value || []).map((one) => [one.id, `${words(one.person, "-").replace(/^./, (first) => first.toUpperCase())}, ${words(one.situation, "-")}`])), [people.value]);
  const begin = () => action.run(() => post("talk", { env, seed: Number(seed) || 0, ...(card ? { card } : { persona }) })).then((made) => made && setTalk(made));
  if (talk) return <Supporting overview={overview} talk={talk} setTalk={setTalk} end={() => setTalk(null)} />;
  if (!people.value) return people.problem ? <Problem text={people.problem} /> : <Waiting />;
  return (
    <section class="card setup">
      <p>Somebody has something on their mind. You answer, and see how your words land.</p>
      <p class="dim">The embedded user reads words, not meaning: it hears what you say of their story and feelings and answers from its card; what is only meant, and what no card tells, it misses. <a href={overview.limits} rel="noreferrer">What it cannot see</a></p>
      <div class="filters">
        {card ? <p class="field"><span>with</span>{/^name:\s*(.+)$/m.exec(card)?.[1] || "the person of your card"}, of your card</p> : <Select label="with" value={persona} options={people.value.map((one) => one.id)} title={(id) => titles.get(id)} onChange={setPersona} />}
        <button class="main" disabled={action.busy} onClick={begin}>Begin</button>
      </div>
      <details><summary class="dim">More: environment and seed</summary><div class="filters">
        <Select label="environment" value={env} options={overview.envs} onChange={setEnv} />
        <label class="field"><span>seed</span><input type="number" min="0" value={seed} onInput={(event) => setSeed(event.target.value)} /></label>
      </div></details>
      <Problem text={action.problem} />
    </section>
  );
}

function Supporting({ overview, talk, setTalk, end }) {
  const action = useAction();
  const [shows, setShows] = useState(true);
  const [hint, setHint] = useState("");
  const [agent, setAgent] = useState(overview.named[0] || "adaptive");
  const bottom = useScroll(talk.turns.length);
  const [fill, setFill] = useState(null);
  const [saved, setSaved] = useState("");
  const act = (name, fields) => action.run(() => post(name, { talk: talk.id, ...fields })).then((made) => { if (made) { setTalk(made); setHint(""); setFill(null); } return made; });
  const { person } = talk;
  const undo = () => { const { utterance } = talk.turns.at(-1); act("undo").then((made) => made && setFill({ text: utterance })); };
  const keep = (ending, text, type, what) => {
    const name = `talk-${person.id.replaceAll("/", "-")}.${ending}`;
    download(name, text, type);
    setSaved(`Saved as ${name}, where your browser keeps downloads: ${what}.`);
  };
  const save = () => action.run(() => get("record", { talk: talk.id })).then((made) => made && keep("jsonl", `${made.line}\n`, "application/jsonl", "a record, as in a run's episodes.jsonl"));
  const saveText = () => keep("md", toMarkdown({ title: `A talk with ${person.name}`, below: `Hidden need: ${words(person.need)}`, name: person.name, opening: talk.opening,
    columns: [{ title: "you", sub: `${talk.start} → ${talk.emotion}`, from: 1, turns: talk.turns.map((turn) => ({ ...turn, by: "you" })) }] }), "text/markdown", "a text to read");
  return (
    <div class="dialogue">
      <div class="side">
        <Person person={person} />
        {shows && <div class="card"><EmotionLine lines={[{ name: person.name, values: [talk.start, ...talk.turns.map((turn) => turn.emotion)] }]} horizon={talk.horizon} /></div>}
        <div class="card tools">
          <label><input type="checkbox" checked={shows} onChange={(event) => setShows(event.target.checked)} /> show how it lands</label>
          <p class="buttons"><button disabled={action.busy || !talk.turns.length} onClick={undo}>Undo</button><button onClick={save}>Save</button><button onClick={saveText}>Markdown</button><button onClick={end}>Leave</button></p>
          {saved && <p class="dim" role="status">{saved}</p>}
          <div class="or"><select value={agent} aria-label="agent" onChange={(event) => setAgent(event.target.value)}>{overview.agents.map((one) => <option key={one}>{one}</option>)}</select>
            <button disabled={action.busy || talk.outcome} onClick={() => action.run(() => post("hint", { talk: talk.id, agent })).then((made) => made && setHint(made.words))}>What would {agent} say?</button></div>
          {hint && <p class="hint" dir="auto">{hint}</p>}
        </div>
      </div>
      <div class="turns">
        <Say who="user" name={person.name} text={talk.opening} />
        {talk.turns.map((turn, at) => (
          <article key={at}><Say who="agent" name="you" text={turn.utterance} />{shows && <Felt turn={turn} open={at === talk.turns.length - 1} />}{turn.reply && <Say who="user" name={person.name} text={turn.reply} />}</article>
        ))}
        <Ending outcome={talk.outcome} />
        {talk.outcome ? <p>They wanted: <b>{words(person.need)}</b>. <button class="main" onClick={end}>Talk to somebody else</button></p>
          : <Composer busy={action.busy} autofocus placeholder={`turn ${talk.turns.length + 1} of ${talk.horizon}: what do you say?`} fill={fill} onSay={(text) => act("say", { words: text })} />}
        <Problem text={action.problem} />
        <div ref={bottom} />
      </div>
    </div>
  );
}

function Need({ overview }) {
  const { helpers } = overview;
  const [rater, setRater] = useState(localStorage.getItem("rater") || "");
  const [agent, setAgent] = useState(helpers[0] || "");
  const [talk, setTalk] = useTalk("need");
  const [ended, setEnded] = useState("");
  const action = useAction();
  const bottom = useScroll(talk?.replies.length);
  const act = (name, fields) => action.run(() => post(name, fields)).then((made) => { if (made) setTalk(made); return made; });
  const begin = (text) => {
    if (!rater.trim()) return action.run(() => { throw new Error("Give a name first: ratings are kept under it."); });
    localStorage.setItem("rater", rater);
    return act("confide", { rater, agent, words: text });
  };
  if (!talk && !helpers.length)
    return (
      <section class="card empty"><h2>Nobody here could support you.</h2>
        <p>The agents that come with the package answer with set phrases, whatever you say. For one that reads, start the studio with <code>--agent openai:MODEL</code>, <code>--agent MODULE:NAME</code> or <code>--suite FILE</code>.</p></section>
    );
  if (!talk)
    return (
      <section class="card setup">
        {ended && <p class="good" role="status">{ended}</p>}
        <p>Tell what is on your mind. An agent supports you, and you say of each reply how it made you feel, from −10 to +10. Your words and ratings are kept in <code>{overview.out}</code>; {agent.startsWith("hf:") ? "nothing leaves this machine." : `${agent} may send them to a server.`}</p>
        <div class="filters"><label class="field"><span>your name, or any sign</span><input value={rater} maxLength={60} onInput={(event) => setRater(event.target.value)} /></label>
          <Select label="who supports you" value={agent} options={helpers} title={(one) => one} onChange={setAgent} /></div>
        <Composer busy={action.busy} placeholder="What is on your mind?" label="Begin" onSay={begin} />
        <Problem text={action.problem} />
      </section>
    );
  const end = () => {
    setEnded(`Your talk with ${talk.agent} is kept in ${overview.out}: ${talk.changes.length} replies rated, from ${talk.line[0]} to ${talk.line.at(-1)}.`);
    setTalk(null);
  };
  const isRated = talk.changes.length === talk.replies.length;
  return (
    <div class="dialogue">
      <div class="side"><div class="card"><h2>How you feel</h2><EmotionLine lines={[{ name: "you", values: talk.line }]} horizon={Math.max(8, talk.replies.length)} />
        <p class="dim">Kept as you rate, in <code>{overview.out}</code>, under {talk.rater}.</p><button disabled={action.busy} onClick={end}>End this talk</button></div></div>
      <div class="turns">
        {talk.said.map((text, at) => (
          <article key={at}><Say who="user" name="you" text={text} /><Say who="agent" name={talk.agent} text={talk.replies[at]} />
            {talk.changes[at] !== undefined && at < talk.replies.length - 1 && <p class="rated">felt <b class={tone(talk.changes[at])}>{signed(talk.changes[at])}</b></p>}</article>
        ))}
        <div class="card"><p>How did that reply feel?</p><Scale label="how the reply felt" value={talk.changes[talk.replies.length - 1]} onRate={(change) => act("confide-rate", { talk: talk.id, change })} />
          <p class="ends"><span>hurts</span><span>nothing</span><span>reaches me</span></p></div>
        {isRated && <Composer busy={action.busy} autofocus placeholder="And then?" onSay={(text) => act("confide-say", { talk: talk.id, words: text })} />}
        <Problem text={action.problem} />
        <div ref={bottom} />
      </div>
    </div>
  );
}
