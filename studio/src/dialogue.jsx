// One dialogue: who this is, what was said and felt, another reply from any turn, and two side by side.
import { useEffect, useState } from "preact/hooks";
import { address, download, fixed, get, go, OUTCOMES, post, readAddress, shown, useAction, useAnswer, useKeys, words } from "./lib.js";
import { toMarkdown } from "./markdown.js";
import { Composer, EmotionLine, Ending, Felt, Person, Problem, Say, Waiting } from "./ui.jsx";

export function DialoguePage({ overview, params }) {
  const run = params.get("run") || "", id = params.get("id") || "";
  const beside = params.get("beside") || "", besideRun = params.get("in") || run, branchId = params.get("branch") || "";
  const main = useAnswer(() => get("dialogue", { run, dialogue: id }), `${run} ${id}`);
  const branches = useAnswer(() => get("branches", { run, dialogue: id }), `${run} ${id}`);
  const other = useAnswer(() => get("dialogue", { run: besideRun, dialogue: beside }), beside ? `${besideRun} ${beside}` : null);
  if (main.problem) return <Problem text={main.problem} />;
  if (!main.value) return <Waiting />;
  const branch = branches.value?.find((one) => one.id === branchId);
  const right = beside ? other.value && columnOf(other.value) : branch ? columnOfBranch(main.value, branch) : null;
  return (
    <View key={`${run} ${id}`} overview={overview} params={params} dialogue={main.value} branches={branches.value || []} branch={beside ? null : branch}
      right={right} again={branches.again} problem={branches.problem || other.problem} />
  );
}

const columnOf = (one) => ({ title: one.agent, sub: ending(one), turns: one.turns.map((turn, at) => ({ ...turn, by: one.agent, uses: one.strategies?.[at] })), from: 1, line: one.line, outcome: one.outcome });
const ending = (one) => `${one.start} → ${one.final}, ${OUTCOMES[one.outcome] || "goes on"}`;

function columnOfBranch(main, branch) {
  const turns = branch.turns.map((turn, at) => ({ ...turn, by: branch.by[at] }));
  const last = turns[turns.length - 1];
  const line = [main.line[branch.turn - 1], ...turns.map((turn) => turn.emotion)];
  return { title: `another reply at turn ${branch.turn}`, sub: `${line[0]} → ${last.emotion}, ${OUTCOMES[last.outcome] || "goes on"}`, turns, from: branch.turn, line, lineFrom: branch.turn - 1, outcome: last.outcome, opening: main.opening };
}

function View({ overview, params, dialogue, branches, branch, right, again, problem }) {
  const [writing, setWriting] = useState(0);
  const action = useAction();
  const { run, id } = dialogue;
  const notes = useAnswer(() => get("notes", { run }), run);
  useEffect(() => { shown.last = `${run} ${id}`; }, [run, id]);
  const fields = Object.fromEntries(params);
  const turn = Number(fields.turn) || 0;
  const left = columnOf(dialogue);
  const rows = Math.max(left.turns.length, right ? right.from - 1 + right.turns.length : 0);
  const next = branch && right && !right.outcome && !overview.still ? right.from + right.turns.length : 0; // where the branch may go on
  const set = (changes) => go("dialogue", { ...fields, ...changes }, { replace: true });
  const pick = (to) => set({ turn: Math.max(1, Math.min(rows, to)) });
  useEffect(() => document.getElementById(`turn-${turn}`)?.scrollIntoView({ block: "center", behavior: "smooth" }), [turn, run, id]);
  const siblings = overview.dialogues.filter((one) => one.persona === dialogue.persona && one.seed === dialogue.seed && !(one.id === id && one.run === run));
  const list = shown.rows.some((one) => one.id === id && one.run === run) ? shown.rows : overview.dialogues.filter((one) => one.agent === dialogue.agent);
  const at = list.findIndex((one) => one.id === id && one.run === run);
  const step = (by) => { const to = list[(at + by + list.length) % list.length]; go("dialogue", { run: to.run, id: to.id, turn: to.turn }); };
  useKeys({ j: () => pick(turn + 1), k: () => pick(turn - 1), n: () => step(1), p: () => step(-1), ...(overview.still ? {} : { b: () => setWriting(turn || 1) }), u: () => history.back() });
  const keep = (work) => action.run(work).then((made) => {
    if (!made) return made;
    setWriting(0);
    again();
    const now = readAddress();
    if (now.page === "dialogue" && now.params.get("run") === run && now.params.get("id") === id) set({ branch: made.id, beside: "", in: "", turn: made.turn + made.turns.length - 1 });
    return made;
  });
  const begin = (what) => keep(() => post("branch", { run, dialogue: id, turn: writing, ...what }));
  const goOn = (what) => keep(() => post("branch-on", { run, branch: branch.id, ...what }));
  const lines = [{ name: left.title, values: left.line }, ...(right ? [{ name: right.title, values: right.line, from: right.lineFrom }] : [])];
  const name = dialogue.person?.name;
  const markdown = () => toMarkdown({ title: `${dialogue.persona.replaceAll("-", " ")}, seed ${dialogue.seed}`, below: `Hidden need: ${words(dialogue.need)}`, name: name || dialogue.persona,
    opening: dialogue.opening, columns: right ? [left, right] : [left] });
  const said = (notes.value || []).filter((one) => one.dialogue === id);
  const noteOf = (at, isOpen) => {
    const place = `${run} ${id} ${at}`, text = said.find((one) => one.turn === at)?.text || "";
    return (text || drafts.has(place) || (isOpen && !overview.still)) && <Note key={`${place} ${text}`} text={text} place={place} label={at ? `note on turn ${at}` : "note on this dialogue"} still={overview.still}
      keep={(now) => action.run(() => post("note", { run, dialogue: id, turn: at, text: now })).then((made) => { if (made) { drafts.delete(place); notes.again(); } })} />;
  };
  return (
    <>
      <div class="crumbs"><h1><a href={address("runs", { any: 1, agent: dialogue.agent })}>{dialogue.agent}</a> with {dialogue.persona.replaceAll("-", " ")}, seed {dialogue.seed}</h1>
        <span class="steps"><button class="quiet" onClick={() => step(-1)} title="p">← previous</button><span class="dim">{at + 1} of {list.length}</span><button class="quiet" onClick={() => step(1)} title="n">next →</button></span></div>
      {overview.verdicts.filter((one) => one.is_alarm && one.run === run).map((one) => <p key={one.text} class="problem">{one.text}</p>)}
      <div class="dialogue">
        <div class="side">
          <Person person={dialogue.person} need={dialogue.need} note={dialogue.note} />
          <div class="card">
            <EmotionLine lines={lines} horizon={rows} picked={turn} onPick={pick} />
            <p class="legend"><span class="of-0">{left.title}</span>{right && <span class="of-1">{right.title}</span>}</p>
          </div>
          <div class="card tools">
            <label class="field"><span>beside it, the same person with</span>
              <select value={fields.beside ? `${fields.in || run}\n${fields.beside}` : ""} onChange={(event) => { const [inRun, key] = event.target.value.split("\n"); set({ beside: key || "", in: key ? inRun : "", branch: "" }); }}>
                <option value="">nobody</option>
                {siblings.map((one) => <option key={`${one.run} ${one.id}`} value={`${one.run}\n${one.id}`}>{one.agent} ({one.final})</option>)}
              </select></label>
            {branches.length > 0 && (
              <div><span class="dim">other replies that were tried</span>
                <ul class="branches">{branches.map((one) => (
                  <li key={one.id}><button class={one.id === branch?.id ? "picked" : ""} onClick={() => set({ branch: one.id === branch?.id ? "" : one.id, beside: "", in: "" })}>
                    turn {one.turn}: {[...new Set(one.by)].join(", ")} → {one.turns[one.turns.length - 1].emotion}</button></li>))}</ul></div>)}
            {dialogue.capabilities && <p class="chips marks">{Object.entries(dialogue.capabilities).map(([name, mark]) => <span key={name} title="by the judge, 1 to 5">{words(name)} <b>{fixed(mark)}</b></span>)}</p>}
            {noteOf(0, true)}
            <p><button class="quiet" onClick={() => download("dialogue.md", markdown(), "text/markdown")}>Markdown</button>
              <button class="quiet" onClick={() => download("dialogue.json", JSON.stringify(dialogue, null, 1), "application/json")}>JSON</button></p>
          </div>
        </div>
        <div class={right ? "turns two" : "turns"}>
          <Problem text={problem || notes.problem || (!writing && !branch && action.problem)} />
          <div class="row heads"><ColumnHead column={left} />{right && <ColumnHead column={right} second />}</div>
          <div class="row"><Say who="user" name={name} text={dialogue.opening} />{right && <div class="say-space" />}</div>
          {Array.from({ length: Math.max(rows, next) }, (_, index) => index + 1).map((number) => (
            <div key={number} id={`turn-${number}`} class={`row ${number === turn ? "picked" : ""}`}>
              <Cell turn={left.turns[number - 1]} number={number} name={name} isPicked={number === turn} pick={() => pick(number)} note={noteOf(number, number === turn)} write={overview.still ? null : () => { setWriting(number); pick(number); }} />
              {right && (number < right.from ? <p class="dim same">as recorded</p> : number === next ? (
                <div><Composer agents={overview.agents} named={overview.named} busy={action.busy} placeholder="And then?" onSay={(text) => goOn({ words: text })} onAgent={(agent, end) => goOn({ agent, to_the_end: end })} /><Problem text={!writing && action.problem} /></div>
              ) : <Cell turn={right.turns[number - right.from]} number={number} name={name} isPicked={number === turn} pick={() => pick(number)} second />)}
              {writing === number && (
                <div class="card writing">
                  <h3>Another reply at turn {number}</h3>
                  <p class="dim">The person hears it in place of what was said, and the dialogue goes on from there. {dialogue.user !== "embedded" && `The record was made with the user ${dialogue.user}; here the embedded one answers.`}</p>
                  <Composer agents={overview.agents} named={overview.named} busy={action.busy} placeholder="What would you say here?" autofocus onSay={(text) => begin({ words: text })} onAgent={(agent, end) => begin({ agent, to_the_end: end })} />
                  <Problem text={action.problem} /><button class="quiet" onClick={() => setWriting(0)}>Cancel</button>
                </div>)}
            </div>
          ))}
          <div class="row"><Ending outcome={left.outcome} />{right && <Ending outcome={right.outcome} />}</div>
        </div>
      </div>
    </>
  );
}

// What is typed into notes and not kept yet, by place: the disk may be full.
const drafts = new Map();

// Kept when one leaves the field.
function Note({ text, place, label, keep, still }) {
  const [now, setNow] = useState(drafts.get(place) ?? text);
  if (still) return <p class="note-text" dir="auto">{text}</p>;
  return <textarea class="note-text" rows={now ? 2 : 1} value={now} placeholder={label} aria-label={label} dir="auto" onClick={(event) => event.stopPropagation()}
    onInput={(event) => { drafts.set(place, event.target.value); setNow(event.target.value); }} onBlur={() => now !== text && keep(now)} />;
}

const ColumnHead = ({ column, second }) => <div class={second ? "column of-1" : "column of-0"}><b>{column.title}</b> <span class="dim">{column.sub}</span></div>;

function Cell({ turn, number, name, isPicked, pick, write, second, note }) {
  if (!turn) return <p class="dim same" />;
  return (
    <article class={second ? "second" : ""} onClick={isPicked ? undefined : (event) => { if (event.target.closest("summary")) event.preventDefault(); pick(); }}>
      <Say who="agent" name={turn.by} text={turn.utterance} reasons={turn.reasons} />
      {turn.uses?.length > 0 && <p class="chips uses">{turn.uses.map((one) => <span key={one}>{one}</span>)}</p>}
      <Felt turn={turn} open={isPicked} />
      {turn.reply && <Say who="user" name={name} text={turn.reply} />}
      {note}
      {!second && <p class="act"><span class="dim">turn {number}</span>{write && <button class="quiet" onClick={(event) => { event.stopPropagation(); write(); }}>another reply</button>}</p>}
    </article>
  );
}
