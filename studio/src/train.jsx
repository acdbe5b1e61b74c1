// Train: learning curves, the reference beside the reward.
import { useState } from "preact/hooks";
import { fixed, get, useAnswer, words } from "./lib.js";
import { Problem, Select, Waiting } from "./ui.jsx";

const FIRST = ["emotion", "eval_score", "reference_score", "reference_reward"];
const TITLES = { emotion: "emotion in training", eval_score: "held-out people", reference_score: "by the reference", reference_reward: "the same dialogues by the reward" };

export function TrainPage({ overview }) {
  const { value, problem, again } = useAnswer(() => get("curves"), "curves");
  const [metric, setMetric] = useState("");
  const [smooth, setSmooth] = useState(0);
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
      <div class="title"><h1>Train</h1><button class="quiet" onClick={again}>Read again</button></div>
      {value.map((run) => run.problem && <p key={run.name} class="problem">{run.name}: {run.problem}</p>)}
      <div class="filters"><Select label="curves" value={metric} all="reward and reference" options={names} onChange={setMetric} />
        <label class="field"><span>smoothing: {smooth}</span><input type="range" min="0" max="20" value={smooth} onInput={(event) => setSmooth(Number(event.target.value))} /></label></div>
      {series.length ? <Chart series={series} /> : <p class="card empty">No such numbers in these runs.</p>}
      <p class="note">Where the reward rises and the reference does not, the policy pleases its reward alone: read its dialogues.</p>
    </>
  );
}

function smoothed(points, width) {
  return points.map(([x], at) => {
    const near = points.slice(Math.max(0, at - width), at + width + 1);
    return [x, near.reduce((sum, [, y]) => sum + y, 0) / near.length];
  });
}

function Chart({ series }) {
  const [at, setAt] = useState(null);
  const isNarrow = matchMedia("(max-width: 860px)").matches;
  const width = isNarrow ? 380 : 900, height = isNarrow ? 260 : 340, left = 44, right = 14, top = 12, bottom = 26;
  const xs = series.flatMap((one) => one.points.map(([x]) => x)), ys = series.flatMap((one) => one.points.map(([, y]) => y));
  const [x0, x1] = [Math.min(...xs), Math.max(...xs)], [low, high] = [Math.min(...ys), Math.max(...ys)];
  const room = (high - low || 1) * 0.06, [y0, y1] = [low - room, high + room];
  const across = (x) => left + ((x - x0) / (x1 - x0 || 1)) * (width - left - right);
  const up = (y) => top + (1 - (y - y0) / (y1 - y0)) * (height - top - bottom);
  const ticks = Array.from({ length: 5 }, (_, number) => low + ((high - low) * number) / 4);
  const move = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    setAt(x0 + ((((event.clientX - box.left) / box.width) * width - left) / (width - left - right)) * (x1 - x0));
  };
  const nearest = (points) => points.reduce((best, one) => (Math.abs(one[0] - at) < Math.abs(best[0] - at) ? one : best), points[0]);
  return (
    <div class="card">
      <svg class="line" viewBox={`0 0 ${width} ${height}`} onMouseMove={move} onMouseLeave={() => setAt(null)} role="img" aria-label="curves">
        {ticks.map((y) => <g key={y}><line class="rule" x1={left} x2={width - right} y1={up(y)} y2={up(y)} /><text x={left - 6} y={up(y) + 3} text-anchor="end">{fixed(y, high - low < 5 ? 2 : 0)}</text></g>)}
        {[x0, (x0 + x1) / 2, x1].map((x) => <text key={x} x={across(x)} y={height - 8} text-anchor="middle">{Math.round(x)}</text>)}
        {series.map((one, number) => one.points.length > 0 && (
          <g key={one.name} class={`of-${number % 6}`}>
            <polyline points={one.points.map(([x, y]) => `${across(x)},${up(y)}`).join(" ")} />
            {at !== null && <circle cx={across(nearest(one.points)[0])} cy={up(nearest(one.points)[1])} r="4" />}
          </g>))}
      </svg>
      <p class="legend">{series.map((one, number) => <span key={one.name} class={`of-${number % 6}`}>{one.name}{at !== null && one.points.length > 0 ? ` ${fixed(nearest(one.points)[1])} at ${nearest(one.points)[0]}` : ""}</span>)}</p>
    </div>
  );
}
