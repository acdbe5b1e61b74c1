// Small parts that several pages are made of.
import { useEffect, useRef, useState } from "preact/hooks";
import { address, ENDINGS, shown, signed, tone, words } from "./lib.js";
import { searchFor } from "./reasons.js";

export const Problem = ({ text }) => (text ? <p class="problem" role="alert">{text}</p> : null);
export const Waiting = ({ text = "one moment…" }) => <p class="dim waiting">{text}</p>;

export function Select({ label, value, options, onChange, all, title = words }) {
  return (
    <label class="field">
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.target.value)}>
        {all && <option value="">{all}</option>}
        {options.map((one) => <option key={one} value={one}>{title(one)}</option>)}
      </select>
    </label>
  );
}

// The emotion after each turn; its points lead to the turns.
export function EmotionLine({ lines, horizon, picked, onPick }) {
  const width = 330, height = 170, left = 26, right = 10, top = 8, bottom = 20;
  const across = (at) => left + (at / Math.max(1, horizon)) * (width - left - right);
  const up = (emotion) => top + (1 - emotion / 100) * (height - top - bottom);
  return (
    <svg class="line" viewBox={`0 0 ${width} ${height}`} role="group" aria-label="emotion after each turn">
      {[0, 10, 40, 70, 100].map((level) => (
        <g key={level}>
          <line class="rule" x1={left} x2={width - right} y1={up(level)} y2={up(level)} />
          <text x={left - 6} y={up(level) + 3} text-anchor="end">{level}</text>
        </g>
      ))}
      {Array.from({ length: horizon }, (_, at) => <text key={at} x={across(at + 1)} y={height - 4} text-anchor="middle">{at + 1}</text>)}
      {lines.map(({ name, values, from = 0 }, number) => (
        <g key={number} class={`of-${number}`}>
          <polyline points={values.map((value, at) => `${across(from + at)},${up(value)}`).join(" ")} />
          {values.map((value, at) => {
            const turn = from + at, is = turn > 0 && turn === picked;
            const act = turn > 0 && onPick ? () => onPick(turn) : undefined;
            const text = turn ? `${name}, turn ${turn}: ${value}` : `start: ${value}`;
            return (
              <circle key={at} cx={across(turn)} cy={up(value)} r={is ? 6 : 4} class={is ? "picked" : ""} onClick={act}
                role={act && "button"} tabIndex={act ? 0 : undefined} aria-label={act && text}
                onKeyDown={(event) => event.key === "Enter" && act?.()}><title>{text}</title></circle>
            );
          })}
        </g>
      ))}
    </svg>
  );
}

export function Spark({ values }) {
  const last = values[values.length - 1];
  const at = (number) => 3 + (number / Math.max(1, values.length - 1)) * 74;
  const up = (value) => 3 + (1 - value / 100) * 18;
  return (
    <svg class={`spark ${tone(last - values[0])}`} viewBox="0 0 80 24" aria-hidden="true">
      <line x1="3" x2="77" y1={up(values[0])} y2={up(values[0])} />
      <polyline points={values.map((value, number) => `${at(number)},${up(value)}`).join(" ")} />
      <circle cx={at(values.length - 1)} cy={up(last)} r="2.6" />
    </svg>
  );
}

export function MeanBar({ interval, start }) {
  const [mean, low, high] = interval;
  if (mean === null) return null;
  return (
    <svg class="mean" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      <rect class="track" x="0" y="3" width="100" height="4" /><rect class="fill" x="0" y="3" width={mean} height="4" />
      <line class="start" x1={start} x2={start} y1="0" y2="10" /><line class="interval" x1={low} x2={high} y1="5" y2="5" />
    </svg>
  );
}

// What an utterance did: the change, the new emotion, the thought, and on request why.
export function Felt({ turn, open = false }) {
  return (
    <details class="felt" open={open}>
      <summary>
        <b class={`change ${tone(turn.change)}`}>{signed(turn.change)}</b>
        <span class="meter" title={`${turn.emotion} of 100`}><i style={{ width: `${turn.emotion}%` }} /></span>
        <span class="now">{turn.emotion}</span>
        <q dir="auto">{turn.thought}</q>
      </summary>
      <ul>
        {turn.reasons.filter(([code]) => code !== "rounding").map(([code, points, note], at) => (
          <li key={at}><b class={tone(points)}>{signed(points)}</b>
            <a dir="auto" href={address("runs", { any: 1, ...searchFor(code, note) })} title="all dialogues in which this reason occurs" onClick={(event) => { event.stopPropagation(); shown.last = ""; }}>{note}</a></li>
        ))}
        {turn.reasons.filter(([code]) => code === "rounding").map(([, points, note]) => <li key={note} class="rounding"><b>{signed(points)}</b><span>{note}</span></li>)}
      </ul>
    </details>
  );
}

// The words that reasons quote, marked where the utterance has them.
function marked(text, reasons) {
  const quoted = reasons.flatMap(([, points, note]) => [...note.matchAll(/“([^”]{2,})”/g)].map(([, words]) => [text.toLowerCase().indexOf(words.toLowerCase().replace(/…$/, "")), words.replace(/…$/, "").length, points, note]));
  const parts = [];
  let from = 0;
  for (const [at, length, points, note] of quoted.filter(([at]) => at >= 0).sort((a, b) => a[0] - b[0])) {
    if (at < from) continue;
    parts.push(text.slice(from, at), <mark class={tone(points)} title={`${signed(points)}: ${note}`}>{text.slice(at, at + length)}</mark>);
    from = at + length;
  }
  return [...parts, text.slice(from)];
}

export function Say({ who, text, name, reasons = [] }) {
  return (
    <div class={`say ${who}`}>
      {name && <span class="name">{name}</span>}
      <p dir="auto" class={text ? "" : "silence"}>{text ? marked(text, reasons) : "says nothing"}</p>
    </div>
  );
}

export const Ending = ({ outcome }) => (outcome ? <p class="ending">{ENDINGS[outcome]}</p> : null);

export function Person({ person, need, note, shown = false, story = false }) {
  if (!person) return <aside class="card person"><p class="dim">{note || "Their card is not here."}</p>{need && <Need need={need} shown={shown} />}</aside>;
  return (
    <aside class="card person">
      <h2>{person.name}, {person.age}</h2>
      <p>{person.work}.</p>
      <p class="chips">{[person.disposition, ...person.traits].map((one) => <span key={one}>{one}</span>)}</p>
      <Need need={person.need} hints={person.hints} shown={shown} />
      <details open={story}>
        <summary>{person.title}</summary>
        <p dir="auto">{person.cause}</p>
        <ol>{person.timeline.map(([when, what, felt], at) => <li key={at}><b>{when}</b> {what} <i>{felt}</i></li>)}</ol>
        <p dir="auto"><b>Now.</b> {person.now}</p>
      </details>
      <details><summary>How they are</summary><p>{person.habits}</p><p>{person.speaks}</p></details>
    </aside>
  );
}

function Need({ need, hints = [], shown }) {
  return (
    <details class="need" open={shown}>
      <summary>Hidden need</summary>
      <p><b>{words(need)}</b></p>
      {hints.length > 0 && <details><summary class="dim">how it shows</summary>{hints.map((one) => <p key={one} class="dim">“{one}”</p>)}</details>}
    </details>
  );
}

// Words to say, or an agent who says some.
export function Composer({ agents, named = [], onSay, onAgent, busy, placeholder, label = "Say it", autofocus, fill }) {
  const [text, setText] = useState("");
  // `fill`: words that come back into the box, before what is in it.
  useEffect(() => { if (fill) setText((now) => [fill.text, now].filter(Boolean).join("\n")); }, [fill]);
  const [agent, setAgent] = useState(named[0] || "listener");
  const [toTheEnd, setToTheEnd] = useState(false);
  const area = useRef(null);
  useEffect(() => { if (autofocus && !busy) area.current.focus(); }, [busy]);
  const say = async () => { if (await onSay(text)) setText(""); }; // what was refused stays to be mended
  return (
    <form class="composer" onSubmit={(event) => { event.preventDefault(); say(); }}>
      <textarea ref={area} rows={2} value={text} placeholder={placeholder} aria-label={placeholder} dir="auto" disabled={busy}
        onInput={(event) => setText(event.target.value)}
        onKeyDown={(event) => { if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); say(); } }} />
      <button class="main" disabled={busy}>{label}</button>
      {onAgent && (
        <div class="or"><span class="dim">or let</span>
          <select value={agent} aria-label="agent" onChange={(event) => setAgent(event.target.value)}>{agents.map((one) => <option key={one}>{one}</option>)}</select>
          <label><input type="checkbox" checked={toTheEnd} onChange={(event) => setToTheEnd(event.target.checked)} /> to the end</label>
          <button type="button" disabled={busy} onClick={() => onAgent(agent, toTheEnd)}>speak</button></div>
      )}
    </form>
  );
}

// How a reply feels: 21 steps, also by typing.
export function Scale({ value, onRate, label }) {
  const box = useRef(null);
  const move = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(20, [...box.current.children].indexOf(event.target) + by));
    box.current.children[next].focus();
  };
  return (
    <div class="scale" ref={box} role="radiogroup" aria-label={label} onKeyDown={move}>
      {Array.from({ length: 21 }, (_, at) => at - 10).map((step) => (
        <button key={step} type="button" role="radio" aria-checked={value === step} class={`${tone(step)} ${value === step ? "picked" : ""}`}
          tabIndex={value === step || (value === undefined && step === 0) ? 0 : -1} onClick={() => onRate(step)}>{step > 0 ? `+${step}` : step < 0 ? `−${-step}` : 0}</button>
      ))}
    </div>
  );
}
