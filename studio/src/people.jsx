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

function Card() {
  const [text, setText] = useState(draft.card || localStorage.getItem("card") || "");
  const [problems, setProblems] = useState(null);
  const action = useAction();
  const area = useRef(null);
  useEffect(() => { if (!text) action.run(() => get("template")).then((found) => found && setText(found.card)); }, []);
  useEffect(() => {
    draft.card = text;
    if (!text) return undefined;
    localStorage.setItem("card", text);
    const timer = setTimeout(() => action.run(() => post("check", { card: text })).then((found) => found && setProblems(found)), 500);
    return () => clearTimeout(timer);
  }, [text]);
  const jump = (line) => {
    const lines = text.split("\n");
    const from = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    area.current.focus();
    area.current.setSelectionRange(from, from + (lines[line - 1] || "").length);
    area.current.scrollTop = (line - 4) * parseFloat(getComputedStyle(area.current).lineHeight);
  };
  return (
    <div class="editor">
      <textarea ref={area} class="code" aria-label="the card" spellcheck={false} value={text} onInput={(event) => setText(event.target.value)} />
      <div>
        {problems && (problems.length === 0 ? <p class="good">Nothing is wrong with this card. <a class="button main" href={address("talk", { card: 1 })}>Talk to them</a></p>
          : <><p>{problems.length} to mend:</p><ol class="problems">{problems.map((one, at) => (
            <li key={at}>{one.line ? <button class="link" onClick={() => jump(one.line)}>line {one.line}</button> : null} {one.field && <b>{one.field}</b>} {one.remedy}</li>))}</ol></>)}
        <button class="quiet" onClick={() => download("card.yaml", text, "application/yaml")}>Save as a file</button>
        <Problem text={action.problem} />
      </div>
    </div>
  );
}
