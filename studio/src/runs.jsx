// Runs: who leaves people better, and the list of dialogues behind it.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { address, download, fixed, get, go, OUTCOMES, shown, signed, toCsv, tone, useAnswer, useKeys, words } from "./lib.js";
import { Chart } from "./chart.jsx";
import { reasons } from "./reasons.js";
import { MeanBar, Select, Spark, Waiting } from "./ui.jsx";

const FIELDS = ["agent", "need", "disposition", "outcome", "persona", "run"];
const PER_PAGE = 40; // more take too long to be drawn anew with each filter

const overlaps = (score) => score.to_best && score.to_best[1] <= 0 && score.to_best[2] >= 0;
const COLUMNS = [
  ["agent", "agent", (score) => score.agent],
  ["final emotion", "final", (score) => score.final[0] ?? -1],
  ["95 %", null, null],
  ["to the best", "best", (score) => score.to_best?.[0] ?? 0],
  ["content", "content", (score) => score.content],
  ["left", "left", (score) => score.left],
  ["turns", "turns", (score) => score.turns],
  ["dialogues", "episodes", (score) => score.episodes],
];

export function RunsPage({ overview, params }) {
  if (!overview.runs.length) return <Nothing trainings={overview.trainings} />;
  return <Lists overview={overview} params={params} />;
}

function Nothing({ trainings }) {
  return (
    <section class="card empty">
      <h1>No run is open</h1>
      <p>Open one with <code>rlver-gym studio RUN</code>; make one with <code>rlver-gym bench</code>.</p>
      <p>Without a run you can <a href={address("talk")}>talk</a>{trainings.length ? <>, see the <a href={address("train")}>curves</a></> : null} and
        meet <a href={address("people")}>the people</a>.</p>
    </section>
  );
}

function Lists({ overview, params }) {
  const best = overview.tables[0].scores.find((score) => !score.privileged)?.agent ?? "";
  const fields = Object.fromEntries(params);
  // A fresh page opens on the best competitor.
  const filter = params.size ? fields : { agent: best };
  const set = (changes) => go("runs", { any: "1", ...filter, ...changes }, { replace: true });
  // What is chosen in a table changes the list below, which may be off screen.
  const list = (changes) => {
    set(changes);
    const dialogues = document.getElementById("dialogues");
    if (dialogues.getBoundingClientRect().top > innerHeight * 0.7) dialogues.scrollIntoView({ behavior: "smooth" });
  };
  const asked = { q: (filter.q || "").trim(), reason: filter.reason || "" };
  const query = asked.q || asked.reason ? JSON.stringify(asked) : "";
  const found = useAnswer(() => get("search", asked), query || null);
  const hits = useRef([]); // the last ones stay until the next are found
  if (!query || found.value) hits.current = found.value;
  const rows = useMemo(() => select(overview.dialogues, filter, hits.current), [overview, JSON.stringify(filter), hits.current]);
  return (
    <>
      {overview.verdicts.map((one) => <p key={one.text} class={one.is_alarm ? "problem" : "note"}>{one.text}</p>)}
      {overview.tables.map((table, number) => <Board key={number} number={number} table={table} filter={filter} set={list} several={overview.tables.length > 1} differs={overview.differs} />)}
      {overview.shift && <Spread {...overview.shift} open />}
      {overview.omitted > 0 && <p class="note">{overview.dialogues.length.toLocaleString("en")} of {(overview.dialogues.length + overview.omitted).toLocaleString("en")} dialogues are in this file, lower seeds first; all are in the runs' episodes.jsonl.</p>}
      <Moved rows={rows} all={overview.dialogues} agents={[...new Set(overview.tables.flatMap((table) => table.scores.map((score) => score.agent)))]} agent={filter.agent} />
      <Dialogues all={overview.dialogues} rows={rows} filter={filter} set={set} isSearching={query && !found.value && !found.problem} problem={found.problem} />
    </>
  );
}

// `found`: [number, turn] of what was searched for; a row of it opens at that turn.
function select(dialogues, filter, found) {
  const hits = found ? found.map(([number, turn]) => ({ ...dialogues[number], turn: turn || null })) : dialogues;
  const rows = hits.filter((one) => FIELDS.every((name) => !filter[name] || one[name] === filter[name]));
  const [name, way] = (filter.sort || "final up").split(" ");
  const value = name === "turns" ? (one) => one.line.length : (one) => one[name];
  const order = way === "down" ? -1 : 1;
  return rows.sort((a, b) => order * (value(a) > value(b) ? 1 : value(a) < value(b) ? -1 : 0));
}

function Head({ title, name, sort, onSort, first = "up", wide }) {
  const [by, way] = sort.split(" ");
  const next = by === name ? (way === "up" ? "down" : "up") : first;
  return (
    <th class={wide ? "wide" : ""} aria-sort={by === name ? (way === "up" ? "ascending" : "descending") : undefined}>
      {name ? <button class="head" onClick={() => onSort(`${name} ${next}`)}>{title}{by === name ? (way === "up" ? " ↑" : " ↓") : ""}</button> : title}
    </th>
  );
}

function Board({ number, table, filter, set, several, differs }) {
  const [sort, setSort] = useState("final down");
  const [name, way] = sort.split(" ");
  const value = COLUMNS.find((column) => column[1] === name)[2];
  const order = way === "down" ? -1 : 1;
  const sorted = (scores) => [...scores].sort((a, b) => order * (value(a) > value(b) ? 1 : value(a) < value(b) ? -1 : 0));
  const better = table.scores.filter((score) => !score.privileged && score.final[1] !== null && score.final[1] > table.start);
  const isWhole = table.scores.every((score) => !score.failed && !score.missing);
  const needs = [...new Set(table.scores.flatMap((score) => Object.keys(score.needs)))].sort();
  const told = table.scores.filter((score) => score.privileged);
  const row = (score) => <Row key={score.agent} score={score} table={table} filter={filter} set={set} isWhole={isWhole} />;
  const rows = sorted(table.scores.filter((score) => !score.privileged));
  return (
    <section>
      <div class="title"><h1>{several ? table.title : "Who leaves people better than they came"}</h1>
        <button class="quiet" onClick={() => download("scores.csv", toCsv([["agent", "final", "low", "high", "content", "left", "turns"], ...rows.map((s) => [s.agent, ...s.final, s.content, s.left, s.turns])]), "text/csv")}>CSV</button></div>
      <p>{better.length ? `People leave better than they came, with the whole interval above the start (${table.start}), from ${better.map((score) => score.agent).join(", ")}.` : `No agent leaves people better than they came for certain: no interval is wholly above the start (${table.start}).`}</p>
      {table.limit && <p>{table.limit}</p>}
      <p class="dim">{several ? `The tables differ in ${differs}: agents are not to be ranked across them. Here: ${table.runs.join(", ")}` : table.title}</p>
      <div class="scroll">
        <table class="board">
          <thead><tr>{COLUMNS.map(([title, key]) => <Head key={title} title={title} name={key} sort={sort} onSort={setSort} first={key === "agent" ? "up" : "down"} wide={["95 %", "turns", "episodes"].includes(key ?? title)} />)}
            {!isWhole && ["at worst", "failed by agent", "failed by user", "missing"].map((one) => <th key={one}>{one}</th>)}</tr></thead>
          <tbody>{rows.map(row)}</tbody>
          {told.length > 0 && <tbody class="told"><tr><th colSpan={12}>Told what no agent can know: the theoretical top, no competitor</th></tr>{told.map(row)}</tbody>}
        </table>
      </div>
      <p class="note">Mean over people with its 95 % bootstrap interval; the thin mark is the start, {table.start}. “To the best” is the paired difference over the same people to the best competitor, with its interval.
        Where its interval holds 0, the two are not separable here. {isWhole ? "" : "At worst: 0 for every dialogue that failed or is missing."}</p>
      <details>
        <summary>By hidden need</summary>
        <div class="scroll"><table class="heat"><thead><tr><td />{needs.map((need) => <th key={need}>{words(need)}</th>)}</tr></thead>
          <tbody>{[...rows, ...told].map((score) => (
            <tr key={score.agent}><th>{score.agent}</th>{needs.map((need) => {
              const mean = score.needs[need];
              return <td key={need}>{mean !== undefined && mean !== null && (
                <button class={mean < table.start ? "low" : "high"} style={{ "--much": `${Math.min(48, 10 + Math.abs(mean - table.start) * 0.9)}%` }}
                  onClick={() => set({ agent: score.agent, need })} title={`the dialogues of ${score.agent} with ${words(need)}`}>{fixed(mean, 0)}</button>)}</td>;
            })}</tr>))}</tbody></table></div>
      </details>
      {table.scores.flatMap((score) => score.flags.map(([says, ...evidence]) => (
        <div key={`${score.agent} ${says}`} class="problem flag"><b>{score.agent}</b> {says}{evidence.map((one) => <p key={one} class="dim">{one}</p>)}</div>)))}
      {table.noise && <Spread {...table.noise} />}
      <Strategies number={number} />
      <details class="made"><summary>How it was made</summary>{table.made.map((text) => <p key={text} class="dim">{text}</p>)}</details>
    </section>
  );
}

function Row({ score, table, filter, set, isWhole }) {
  const is = filter.agent === score.agent;
  const toggle = () => set({ agent: is ? "" : score.agent });
  return (
    <tr class={is ? "picked" : ""} onClick={toggle}>
      <th scope="row"><button class="link" aria-pressed={is} title="only this agent's dialogues" onClick={(event) => { event.stopPropagation(); toggle(); }}>{score.agent}</button>
        {score.flags.length > 0 && <span class="badge" title={score.flags.map(([says]) => says).join("; ")}>look closer</span>}</th>
      <td><div class="score"><b>{fixed(score.final[0])}</b><MeanBar interval={score.final} start={table.start} /></div></td>
      <td class="wide dim">{fixed(score.final[1])} to {fixed(score.final[2])}</td>
      <td>{!score.to_best ? <span class="dim">{score.privileged ? "" : "best"}</span> : <>{overlaps(score) ? <span class="badge">not separable</span> : fixed(score.to_best[0])}
        <span class="wide dim"> {overlaps(score) ? fixed(score.to_best[0]) : ""} [{fixed(score.to_best[1])} to {fixed(score.to_best[2])}]</span></>}</td>
      <td>{fixed(score.content, 0)} %</td><td>{fixed(score.left, 0)} %</td><td class="wide">{fixed(score.turns)}</td><td class="wide">{score.episodes}</td>
      {!isWhole && <><td>{fixed(score.at_worst[0])}</td><td>{score.failed_by_agent}</td><td>{score.failed_by_user}</td><td>{score.missing}</td></>}
    </tr>
  );
}

// A small table that Python has made: its heading first, agents in front.
function Spread({ title, rows: [heading, ...rows], says, open }) {
  return (
    <details open={open} class="spread">
      <summary>{title[0].toUpperCase() + title.slice(1)}</summary>
      <div class="scroll" tabIndex={0} role="region" aria-label={title}><table class="board"><thead><tr>{heading.map((one) => <th key={one}>{one}</th>)}</tr></thead>
        <tbody>{rows.map(([agent, ...cells], at) => <tr key={at}><th scope="row">{agent}</th>{cells.map((one, number) => <td key={number}>{one}</td>)}</tr>)}</tbody></table></div>
      {says.map((text) => <p key={text} class="note">{text}</p>)}
    </details>
  );
}

// Reading every turn takes a while: only when somebody wants to know.
function Strategies({ number }) {
  const [isOpen, setOpen] = useState(false);
  const { value, problem } = useAnswer(() => get("strategies"), isOpen ? "strategies" : null);
  return (
    <details class="spread" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>What the agents do</summary>
      {problem && <p class="problem">{problem}</p>}
      {isOpen && !value && !problem && <p class="dim">reading the turns…</p>}
      {value && (value[number].length ? value[number].map((one) => <Spread key={one.title} {...one} open />) : <p class="dim">No turn is English.</p>)}
    </details>
  );
}

const MOST_LINES = 200;

// The mean emotion by turn, an ended dialogue keeping its last score: of each agent, or of one with a line for each dialogue.
function Moved({ rows, all, agents, agent }) {
  const [isOpen, setOpen] = useState(false);
  const longest = all.reduce((most, one) => Math.max(most, one.line.length), 0);
  const mean = (name) => {
    const lines = all.filter((one) => one.agent === name && one.outcome !== "failed").map((one) => one.line);
    return { name, points: Array.from({ length: lines.length && longest }, (_, turn) => [turn, lines.reduce((sum, line) => sum + (line[turn] ?? line[line.length - 1]), 0) / lines.length]) };
  };
  const named = agent ? [agent] : agents.slice(0, 12);
  const faint = agent ? rows.slice(0, MOST_LINES).map((one) => ({ ...one, key: `${one.run} ${one.id}`, name: `${one.persona}, seed ${one.seed}: ${one.final}`, points: one.line.map((value, turn) => [turn, value]) })) : [];
  return (
    <details class="spread" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>How the emotion moved</summary>
      {isOpen && <Chart series={named.map(mean)} faint={faint} open={(one) => go("dialogue", { run: one.run, id: one.id })} yRange={[0, 100]} label="emotion by turn" file="emotion.png" />}
      {isOpen && <p class="note">Emotion after each turn: the mean, an ended dialogue keeping its last score. {agent ? "Each thin line is a dialogue; a click opens it." : "Choose an agent for a line for each dialogue."}</p>}
    </details>
  );
}

function Dialogues({ all, rows, filter, set, isSearching, problem }) {
  const [place, setPlace] = useState({});
  // Where one stands, and how much is shown, is of this list: another one begins anew.
  const { at, count } = place.rows === rows ? place : { at: rows.findIndex((one) => `${one.run} ${one.id}` === shown.last), count: PER_PAGE };
  const setAt = (to) => setPlace({ rows, count, at: to });
  const sort = filter.sort || "final up";
  shown.rows = rows;
  useEffect(() => document.querySelector("tr.at")?.scrollIntoView({ block: "nearest" }), [at]);
  // Who comes from a reason sees first what is searched for.
  useEffect(() => { if (at < 0 && (filter.reason || filter.q)) document.getElementById("dialogues").scrollIntoView(); }, []);
  const placeOf = (one) => ({ run: one.run, id: one.id, turn: one.turn });
  const open = (one) => go("dialogue", placeOf(one));
  useKeys({
    j: () => setAt(Math.min(rows.length - 1, at + 1)),
    k: () => setAt(Math.max(0, at - 1)),
    ...(rows[at] ? { Enter: () => open(rows[at]) } : {}),
  });
  const choices = useMemo(() => Object.fromEntries(FIELDS.map((name) => [name, [...new Set(all.map((one) => one[name]))].sort()])), [all]);
  const isFiltered = [...FIELDS, "reason"].some((name) => filter[name]);
  const csv = () => toCsv([["run", "id", "agent", "persona", "seed", "need", "disposition", "start", "final", "outcome"], ...rows.map((r) => [r.run, r.id, r.agent, r.persona, r.seed, r.need, r.disposition, r.start, r.final, r.outcome])]);
  const head = (title, name, wide, first) => <Head key={name} title={title} name={name} sort={sort} wide={wide} first={first} onSort={(to) => set({ sort: to })} />;
  return (
    <section id="dialogues">
      <div class="title"><h2>{rows.length.toLocaleString("en")} dialogues{filter.agent ? ` of ${filter.agent}` : ""}</h2>
        {isFiltered && <button class="quiet" onClick={() => set(Object.fromEntries([...FIELDS, "reason"].map((name) => [name, ""])))}>Clear filters</button>}
        <button class="quiet" onClick={() => download("dialogues.csv", csv(), "text/csv")}>CSV</button></div>
      <div class="filters">
        <label class="field grow"><span>search in what was said</span>
          <input id="search" type="search" value={filter.q || ""} placeholder="words" onInput={(event) => set({ q: event.target.value })} /></label>
        {FIELDS.filter((name) => name !== "run" || choices.run.length > 1).map((name) => <Select key={name} label={name === "persona" ? "person" : name} value={filter[name] || ""} options={choices[name]} all="all" onChange={(value) => set({ [name]: value })} />)}
        <Select label="reason" value={filter.reason || ""} options={reasons.all} all="all" title={String} onChange={(reason) => set({ reason })} />
      </div>
      {problem && <p class="problem">{problem}</p>}
      {isSearching && <Waiting text="searching…" />}
      {rows.length === 0 ? !isSearching && <p class="card empty">No dialogue is like that. Clear the filters, or search for other words.</p> : (
        <table class="list">
          <thead><tr><th>emotion</th>{head("final", "final")}{head("agent", "agent")}{head("person", "persona")}{head("need", "need", true)}{head("disposition", "disposition", true)}{head("outcome", "outcome", true)}{head("turns", "turns", true)}{head("seed", "seed", true)}</tr></thead>
          <tbody>{rows.slice(0, Math.max(count, at + 1)).map((one, number) => (
            <tr key={number} class={number === at ? "at" : ""} onClick={() => open(one)}>
              <td><Spark values={one.line} /></td><td><b class={tone(one.final - one.start)}>{one.final}</b></td><td>{one.agent}</td>
              <td><a href={address("dialogue", placeOf(one))} onClick={(event) => event.stopPropagation()}>{one.persona.replaceAll("-", " ")}</a></td>
              <td class="wide">{words(one.need)}</td><td class="wide">{one.disposition}</td><td class="wide">{OUTCOMES[one.outcome]}</td><td class="wide">{one.line.length - 1}</td><td class="wide">{one.seed}</td>
            </tr>))}</tbody>
        </table>
      )}
      {rows.length > count && <button onClick={() => setPlace({ rows, at, count: count + PER_PAGE })}>Show {Math.min(PER_PAGE, rows.length - count)} more</button>}
    </section>
  );
}
