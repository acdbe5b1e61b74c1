// People: browse and search them, and write a lean card that is checked while you write.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { address, download, get, go, post, useAction, useAnswer, words } from "./lib.js";
import { Person, Problem, Select, Waiting } from "./ui.jsx";
import { draft } from "./talk.jsx";

export function PeoplePage({ params }) {
  const writes = params.get("write");
  return (
    <>
      <div class="title"><h1>People</h1>
        <div class="switch" role="tablist">
          <button role="tab" aria-selected={!writes} onClick={() => go("people")}>Browse</button>
          <button role="tab" aria-selected={Boolean(writes)} onClick={() => go("people", { write: 1 })}>Write a card</button>
        </div></div>
      {writes ? <Card /> : <Browse params={params} />}
    </>
  );
}

function Browse({ params }) {
  const people = useAnswer(() => get("people"), "people");
  const fields = Object.fromEntries(params);
  const set = (changes) => go("people", { ...fields, ...changes }, { replace: true });
  const found = useMemo(() => (people.value || []).filter((one) =>
    (fields.q || "").toLowerCase().split(/\s+/).every((word) => one.id.includes(word)) && ["need", "split"].every((name) => !fields[name] || one[name] === fields[name])), [people.value, JSON.stringify(fields)]);
  const who = fields.id || found[0]?.id || "";
  const person = useAnswer(() => get("person", { persona: who }), who || null);
  if (!people.value) return people.problem ? <Problem text={people.problem} /> : <Waiting />;
  const choices = (name) => [...new Set(people.value.map((one) => one[name]))].sort();
  return (
    <>
      <div class="filters">
        <label class="field grow"><span>search</span><input id="search" type="search" value={fields.q || ""} onInput={(event) => set({ q: event.target.value, id: "" })} /></label>
        <Select label="need" value={fields.need || ""} all="all" options={choices("need")} onChange={(need) => set({ need, id: "" })} />
        <Select label="split" value={fields.split || ""} all="all" options={choices("split")} onChange={(split) => set({ split, id: "" })} />
      </div>
      <div class="dialogue">
        <ul class="side names card">{found.slice(0, 300).map((one) => (
          <li key={one.id}><a href={address("people", { ...fields, id: one.id })} aria-current={one.id === who ? "true" : undefined}>{one.id.replaceAll("-", " ")} <span class="dim">{one.split}</span></a></li>))}
          {!found.length && <li class="dim">Nobody is like that.</li>}</ul>
        <div class="turns">
          <Problem text={person.problem} />
          {person.value && <><p class="buttons"><a class="button main" href={address("talk", { persona: who })}>Talk to {person.value.name}</a></p><Person key={who} person={person.value} story />
            <details class="card"><summary>What a good answer could touch</summary><ul class="plain">{person.value.anchors.map(([kind, text], at) => <li key={at}><span class="dim">{words(kind)}</span> {text}</li>)}</ul></details></>}
        </div>
      </div>
    </>
  );
}

// A field of a complaint in words: "facts.0" is the first of the facts.
const placeOf = (field) => field.replace(/\.(\d+)$/, (_, at) => ` ${Number(at) + 1}`).replace(".", ": ");

// What is wrong is said of lines that were written here, and of all on demand.
function Card() {
  const [text, setText] = useState(draft.card || localStorage.getItem("card") || "");
  const [begun, setBegun] = useState(null); // the lines of the card from which this one began
  const [before, setBefore] = useState("");
  const [problems, setProblems] = useState(null);
  const [wantsAll, setWantsAll] = useState(false);
  const people = useAnswer(() => get("people"), "people");
  const action = useAction();
  const area = useRef(null), gutter = useRef(null);
  const lines = text.split("\n");
  const begin = (persona, isAnew) => action.run(() => get("template", { persona })).then((found) => {
    if (!found) return;
    setBegun(new Set(found.card.split("\n")));
    if (isAnew || !text) { setBefore(text); setText(found.card); setWantsAll(false); }
  });
  useEffect(() => { begin(""); }, []);
  useEffect(() => {
    draft.card = text;
    if (!text) return undefined;
    localStorage.setItem("card", text);
    const timer = setTimeout(() => action.run(() => post("check", { card: text })).then((found) => found && setProblems(found)), problems ? 500 : 0);
    return () => clearTimeout(timer);
  }, [text]);
  const jump = (line) => {
    const from = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    area.current.focus();
    area.current.setSelectionRange(from, from + (lines[line - 1] || "").length);
    area.current.scrollTop = (line - 4) * parseFloat(getComputedStyle(area.current).lineHeight);
  };
  const told = (problems || []).filter((one) => wantsAll || (begun && one.line && !begun.has(lines[one.line - 1])));
  const rest = (problems || []).length - told.length;
  return (
    <div class="editor">
      <div class="lined"><pre ref={gutter} class="code" aria-hidden="true">{lines.map((_, at) => at + 1).join("\n")}</pre>
        <textarea ref={area} class="code" aria-label="the card" wrap="off" spellcheck={false} value={text} onInput={(event) => setText(event.target.value)} onScroll={() => { gutter.current.scrollTop = area.current.scrollTop; }} /></div>
      <div>
        <p>Fill in where &lt;…&gt; stands, or change somebody's card.</p>
        <div class="filters"><Select label="begin from" value="" all="choose…" options={["an empty card", ...(people.value || []).map((one) => one.id)]} title={(id) => words(id, "-")} onChange={(id) => id && begin(id === "an empty card" ? "" : id, true)} />
          {before && <button onClick={() => { setText(before); setBefore(""); }}>Back to the card before</button>}</div>
        {problems && (problems.length === 0 ? <p class="good">Nothing is wrong with this card. <a class="button main" href={address("talk", { card: 1 })}>Talk to them</a></p>
          : <>{told.length > 0 && <><p>{told.length} to mend:</p><ol class="problems">{told.map((one, at) => (
            <li key={at}>{one.line ? <button class="link" onClick={() => jump(one.line)}>line {one.line}</button> : null} {one.field && <b>{placeOf(one.field)}</b>} {one.remedy}</li>))}</ol></>}
            {rest > 0 && <p>{rest} {told.length ? "more" : "to write or to mend"}. <button onClick={() => setWantsAll(true)}>Check all</button></p>}</>)}
        <button class="quiet" onClick={() => download("card.yaml", text, "application/yaml")}>Save as a file</button>
        <Problem text={action.problem} />
      </div>
    </div>
  );
}
