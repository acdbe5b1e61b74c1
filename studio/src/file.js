// The pages as one file (`rlver-gym report`): what a studio would answer is packed inside, and nothing can be changed.
import { sentenceOf } from "./reasons.js";

const packed = document.getElementById("data");
export const isFile = packed !== null;

async function unpack() {
  const bytes = Uint8Array.from(atob(packed.textContent), (char) => char.charCodeAt(0));
  packed.remove();
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}
const held = isFile ? unpack() : null;

const same = (run, id) => (one) => one.run === run && (one.id === id || one.dialogue === id);
const partsOf = (one) => [[[one.id, one.need, one.disposition, one.opening], []], ...one.turns.map((turn) => [[turn.utterance, turn.reply, turn.thought, ...turn.reasons.map(([, , note]) => note)],
  turn.reasons.flatMap(([code, , note]) => [code, code.split(":")[0], sentenceOf(note)])])].map(([texts, codes]) => [texts.join("\n").toLowerCase(), new Set(codes.map((code) => code.toLowerCase()))]);
let texts = null; // made when the first search needs them

const ANSWERS = {
  overview: (data) => data.overview,
  curves: (data) => data.curves,
  strategies: (data) => data.strategies,
  notes: (data, { run }) => data.notes[run] || [],
  branches: (data, { run, dialogue }) => (data.branches[run] || []).filter((one) => one.dialogue === dialogue),
  dialogue(data, { run, dialogue }) {
    const found = data.dialogues.find(same(run, dialogue));
    if (!found) throw new Error(`There is no dialogue ${dialogue} in this file. Open it from the list.`);
    return { ...found, person: Object.hasOwn(data.people, found.person) ? data.people[found.person] : null };
  },
  search(data, { q, reason = "" }) {
    texts ||= data.dialogues.map(partsOf);
    const asked = q.toLowerCase().split(/\s+/).filter(Boolean).map((word) => (word.startsWith("reason:") ? ([, codes]) => codes.has(word.slice(7)) : ([text]) => text.includes(word)));
    if (reason) asked.push(([, codes]) => codes.has(reason.toLowerCase()));
    return texts.flatMap((parts, number) => {
      if (!asked.every((holds) => parts.some(holds))) return [];
      const counts = parts.map((part) => asked.filter((holds) => holds(part)).length);
      return [[number, counts.indexOf(Math.max(...counts))]];
    });
  },
};

export const answerFromFile = async (name, fields) => ANSWERS[name](await held, fields);
