// Charts: lines over a numbered axis, read by hovering, kept as a picture.
import { useRef, useState } from "preact/hooks";
import { fixed } from "./lib.js";

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity", "font-size", "font-family", "text-anchor"];

// The picture as it stands, colours and all, twice as fine; the legend goes below it.
async function savePng(svg, legend, name) {
  const { width, height } = svg.viewBox.baseVal, lines = legend.length * 16 + 6, root = getComputedStyle(document.documentElement);
  const copy = svg.cloneNode(true);
  const [from, to] = [svg, copy].map((one) => [...one.querySelectorAll("*")]);
  to.forEach((one, at) => STYLES.forEach((style) => one.setAttribute(style, getComputedStyle(from[at]).getPropertyValue(style))));
  for (const [key, value] of [["xmlns", "http://www.w3.org/2000/svg"], ["width", width * 2], ["height", height * 2]]) copy.setAttribute(key, value);
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: width * 2, height: (height + lines) * 2 });
  const pen = canvas.getContext("2d");
  pen.fillStyle = root.getPropertyValue("--card");
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.drawImage(image, 0, 0);
  pen.font = "24px sans-serif";
  legend.forEach(([text, colour], at) => { pen.fillStyle = colour; pen.fillText(`● ${text}`, 20, height * 2 + 24 + at * 32); });
  const link = Object.assign(document.createElement("a"), { href: canvas.toDataURL("image/png"), download: name });
  link.click();
}

function ticksOf(low, high, isLog) {
  if (!isLog) return Array.from({ length: 5 }, (_, number) => low + ((high - low) * number) / 4);
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  return Array.from({ length: last - first + 1 }, (_, at) => 10 ** (first + at)).filter((one) => one >= low && one <= high);
}

// `series`: [{name, points: [[x, y]], to}]; `faint` ones have no legend, and lead where `open` goes. Logarithmic axes show what is above 0.
export function Chart({ series, faint = [], open, label, logX, logY, yRange, file = "chart.png" }) {
  const [at, setAt] = useState(null);
  const svg = useRef(null), key = useRef(null);
  const isNarrow = matchMedia("(max-width: 860px)").matches;
  const width = isNarrow ? 380 : 900, height = isNarrow ? 260 : 320, left = 48, right = 14, top = 12, bottom = 26;
  const seen = ([x, y]) => (!logX || x > 0) && (!logY || y > 0);
  const drawn = series.map((one) => ({ ...one, points: one.points.filter(seen) })).filter((one) => one.points.length);
  if (!drawn.length) return <p class="card empty">There is nothing above 0 to draw.</p>;
  const scaleX = logX ? Math.log10 : Number, scaleY = logY ? Math.log10 : Number;
  const xs = drawn.flatMap((one) => one.points.map(([x]) => x)), ys = drawn.flatMap((one) => one.points.map(([, y]) => y));
  const [x0, x1] = [Math.min(...xs), Math.max(...xs)], [low, high] = yRange || [Math.min(...ys), Math.max(...ys)];
  const room = yRange ? 0 : (scaleY(high) - scaleY(low) || 1) * 0.06, [y0, y1] = [scaleY(low) - room, scaleY(high) + room];
  const across = (x) => left + ((scaleX(x) - scaleX(x0)) / (scaleX(x1) - scaleX(x0) || 1)) * (width - left - right);
  const up = (y) => top + (1 - (scaleY(y) - y0) / (y1 - y0)) * (height - top - bottom);
  const line = (points) => points.map(([x, y]) => `${across(x).toFixed(1)},${up(y).toFixed(1)}`).join(" ");
  const move = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    setAt(left + Math.max(0, ((event.clientX - box.left) / box.width) * width - left));
  };
  const nearest = (points) => points.reduce((best, one) => (Math.abs(across(one[0]) - at) < Math.abs(across(best[0]) - at) ? one : best), points[0]);
  const xTicks = logX ? ticksOf(x0, x1, true) : [...new Set([x0, Math.round((x0 + x1) / 2), x1])];
  const save = () => savePng(svg.current, [...key.current.children].map((one) => [one.textContent, getComputedStyle(one).color]), file);
  return (
    <div class="card chart">
      <svg ref={svg} class="line" viewBox={`0 0 ${width} ${height}`} onMouseMove={move} onMouseLeave={() => setAt(null)} role="group" aria-label={label}>
        {ticksOf(low, high, logY).map((y) => <g key={y}><line class="rule" x1={left} x2={width - right} y1={up(y)} y2={up(y)} /><text x={left - 6} y={up(y) + 3} text-anchor="end">{logY ? y : fixed(y, high - low < 5 ? 2 : 0)}</text></g>)}
        {xTicks.map((x) => <text key={x} x={across(x)} y={height - 8} text-anchor="middle">{x}</text>)}
        {faint.map((one) => <polyline key={one.key} class="faint" points={line(one.points)} onClick={() => open(one)}><title>{one.name}</title></polyline>)}
        {drawn.map((one, number) => (
          <g key={one.name} class={`of-${number % 6}`}>
            <polyline points={line(one.points)} stroke-dasharray={number > 5 ? "6 4" : undefined} />
            {at !== null && <circle cx={across(nearest(one.points)[0])} cy={up(nearest(one.points)[1])} r="4" />}
          </g>))}
      </svg>
      <p class="legend" ref={key}>{drawn.map((one, number) => <span key={one.name} class={`of-${number % 6}`}>{one.name}{at !== null ? ` ${fixed(nearest(one.points)[1])} at ${nearest(one.points)[0]}` : ""}</span>)}</p>
      <button class="quiet png" onClick={save}>PNG</button>
    </div>
  );
}
