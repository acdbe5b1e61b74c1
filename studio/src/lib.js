// What all pages share and shows nothing: requests, addresses, words.
import { options } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { answerFromFile, isFile } from "./file.js";

async function answer(response) {
  const value = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(value.problem || value.detail || `the studio answered ${response.status}.`);
  return value;
}

export const get = (name, fields = {}) => isFile ? answerFromFile(name, fields) : fetch(`/api/${name}?${new URLSearchParams(fields)}`).then(answer);

export const post = (name, fields) =>
  fetch(`/api/${name}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(fields) }).then(answer);

// What an answer holds, and what to do when it is needed again. `key` null: nothing is asked.
export function useAnswer(ask, key) {
  const [found, set] = useState({});
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (key === null) return undefined;
    let isOurs = true;
    ask().then((value) => isOurs && set({ key, value }), (error) => isOurs && set({ key, problem: error.message }));
    return () => { isOurs = false; };
  }, [key, round]);
  return { ...(found.key === key ? found : {}), again: () => setRound(round + 1) };
}

// A function that runs one request at a time, and what went wrong in the last one.
export function useAction() {
  const [state, set] = useState({ busy: false, problem: "" });
  const run = async (work) => {
    set({ busy: true, problem: "" });
    try {
      const value = await work();
      set({ busy: false, problem: "" });
      return value;
    } catch (error) {
      set({ busy: false, problem: error.message });
      return null;
    }
  };
  return { ...state, run };
}

// The address is "#/page?fields": all that a page needs to show the same again.
export function readAddress() {
  const [page, fields] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { page: page || "runs", params: new URLSearchParams(fields || "") };
}

export function address(page, fields = {}) {
  const kept = Object.entries(fields).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const query = new URLSearchParams(kept).toString();
  return `#/${page}${query ? `?${query}` : ""}`;
}

export function go(page, fields, { replace = false } = {}) {
  const to = address(page, fields);
  if (replace) {
    history.replaceState(null, "", to);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = to;
}

// The list as it was shown last, which the dialogue page goes through with n and p, and the dialogue that was open last.
export const shown = { rows: [], last: "" };

const isTyping = (target) => target.closest("input, textarea, select, [contenteditable]");

// Keys of a page; none while something is typed or held down with them.
export function useKeys(keys) {
  const now = useRef(keys);
  now.current = keys; // a key that follows at once finds what the last one made
  useLayoutEffect(() => {
    const listen = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const act = now.current[event.key];
      if (act) {
        event.preventDefault();
        act(event);
      }
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}

export function download(name, text, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const cell = (value) => {
  const text = String(value ?? "");
  const safe = /^[=+\-@\t]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
  return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};
export const toCsv = (rows) => rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";

export const words = (code, between = "_") => (code || "").replaceAll(between, " ");
export const signed = (points) => (points > 0 ? "+" : points < 0 ? "−" : "±") + Math.abs(points);
// As Python rounds, so that a terminal shows the same: an exact half goes to the even digit.
export function fixed(value, digits = 1) {
  if (value === null || value === undefined) return "–";
  const text = value.toFixed(digits), isHalf = /50{29}$/.test(value.toFixed(digits + 30));
  const rounded = isHalf && text.at(-1) % 2 ? (Number(text) - Math.sign(value) * 10 ** -digits).toFixed(digits) : text;
  return rounded.replace("-", "−");
}
export const tone = (change) => (change > 0 ? "up" : change < 0 ? "down" : "level");
export const OUTCOMES = { content: "content", left: "left", out_of_turns: "out of turns", failed: "failed" };
export const ENDINGS = {
  content: "They have what they came for, and say goodbye.",
  left: "They walk away.",
  out_of_turns: "The turns are used up.",
  failed: "The dialogue failed: there is no score.",
};

// Text of models and cards is shown, never obeyed: markup cannot come about in text nodes, and what turns the
// direction of writing or hides in it is replaced in every element.
const OBEYED = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;
export const printable = (value) =>
  typeof value === "string" ? value.replace(OBEYED, "\ufffd") : Array.isArray(value) ? value.map(printable) : value;
const before = options.vnode;
options.vnode = (vnode) => {
  if (typeof vnode.type === "string")
    for (const name of ["children", "title", "aria-label"]) if (name in vnode.props) vnode.props[name] = printable(vnode.props[name]);
  before?.(vnode);
};
