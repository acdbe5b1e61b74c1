// Train: learning curves, the reference beside the reward.
import { useState } from "preact/hooks";
import { get, OUTCOMES, useAnswer, words } from "./lib.js";
import { Chart } from "./chart.jsx";
import { Problem, Say, Select, Waiting } from "./ui.jsx";

const FIRST = ["emotion", "eval_score", "reference_score", "reference_reward"];
const TITLES = { emotion: "emotion in training", eval_score: "held-out people", reference_score: "by the reference", reference_reward: "the same dialogues by the reward" };

export function TrainPage({ overview }) {
  const { value, problem, again } = useAnswer(() => get("curves"), "curves");
  const [metric, setMetric] = useState("");
  const [smooth, setSmooth] = useState(0);
  const [log, setLog] = useState({});
  if (!overview.trainings.length) return <p class="card empty">Open the folder of a training run: <code>rlver-gym studio RUN</code></p>;
  if (!value) return problem ? <Problem text={problem} /> : <Waiting />;
  const names = [...new Set(value.flatMap((run) => Object.keys(run.columns)))];
  const chosen = metric ? [metric] : FIRST;
  const series = value.flatMap((run) => chosen.filter((name) => run.columns[name]).map((name) => ({
    name: `${value.length > 1 ? `${run.name}: ` : ""}${TITLES[name] || words(name)}`,
    points: smoothed(run.iteration.map((at, row) => [at, run.columns[name][row]]).filter(([, y]) => y !== null && y !== undefined), smooth),
  })));
  return (
    <>
      <div class="title"><h1>Train</h1>{!overview.still && <button class="quiet" onClick={again}>Read again</button>}</div>
      {value.map((run) => run.problem && <p key={run.name} class="problem">{run.name}: {run.problem}</p>)}
      <div class="filters"><Select label="curves" value={metric} all="main curves" options={names} onChange={setMetric} />
        <label class="field"><span>smoothing: {smooth}</span><input type="range" min="0" max="20" value={smooth} onInput={(event) => setSmooth(Number(event.target.value))} /></label>
        {["x", "y"].map((axis) => <label key={axis}><input type="checkbox" checked={log[axis]} onChange={(event) => setLog({ ...log, [axis]: event.target.checked })} /> log {axis}</label>)}</div>
      {series.length ? <Chart series={series} logX={log.x} logY={log.y} label="curves" file="curves.png" /> : <p class="card empty">No such numbers in these runs.</p>}
      <p class="note">Where the reward rises and the reference does not, the policy pleases its reward alone: read its dialogues.</p>
      {value.map((run) => run.samples.length > 0 && <Samples key={run.name} run={run} several={value.length > 1} />)}
    </>
  );
}

function smoothed(points, width) {
  return points.map(([x], at) => {
    const near = points.slice(Math.max(0, at - width), at + width + 1);
    return [x, near.reduce((sum, [, y]) => sum + y, 0) / near.length];
  });
}

// Held-out dialogues, the same people at each evaluation: what the policy says after so many iterations.
function Samples({ run, several }) {
  const people = [...new Set(run.samples.map((one) => `${one.persona} ${one.seed}`))];
  const [who, setWho] = useState(people[0]);
  const found = run.samples.filter((one) => `${one.persona} ${one.seed}` === who);
  const [at, setAt] = useState(found.length - 1);
  const one = found[Math.min(at, found.length - 1)];
  return (
    <section>
      <h2>Dialogues{several ? ` of ${run.name}` : ""}</h2>
      <div class="filters">
        <label class="field"><span>with (held out)</span><select value={who} onChange={(event) => setWho(event.target.value)}>{people.map((each) => <option key={each} value={each}>{each.replaceAll("-", " ")}</option>)}</select></label>
        <label class="field grow"><span>after iteration {one.iteration}: {one.score === null ? "no score" : `score ${one.score}`}, {OUTCOMES[one.outcome] || "goes on"}</span>
          <input type="range" min="0" max={found.length - 1} value={at} aria-label="iteration" onInput={(event) => setAt(Number(event.target.value))} /></label>
      </div>
      <div class="turns">{one.lines.map(([speaker, text, thought], number) => (
        <div key={number}><Say who={speaker === "agent" ? "agent" : "user"} name={speaker === "agent" ? "policy" : "person"} text={text} />
          {thought && <p class="dim thought"><i>{thought}</i></p>}</div>))}</div>
    </section>
  );
}
