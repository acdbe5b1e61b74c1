// The pages as one file (`rlver-gym report`): what a studio would answer is packed inside, and nothing can be changed.
const packed = document.getElementById("data");
export const isFile = packed !== null;

async function unpack() {
  const bytes = Uint8Array.from(atob(packed.textContent), (char) => char.charCodeAt(0));
  packed.remove();
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}
const held = isFile ? unpack() : null;

const same = (run, id) => (one) => one.run === run && (one.id === id || one.dialogue === id);
const textOf = (one) => [one.id, one.need, one.disposition, one.opening, ...one.turns.flatMap((turn) => [turn.utterance, turn.reply, turn.thought, ...turn.reasons.map(([, , note]) => note)])].join("\n").toLowerCase();
const codesOf = (one) => new Set(one.turns.flatMap((turn) => turn.reasons.flatMap(([code]) => [code.toLowerCase(), code.toLowerCase().split(":")[0]])));
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
  search(data, { q }) {
    texts ||= data.dialogues.map((one) => [textOf(one), codesOf(one)]);
    const asked = q.toLowerCase().split(/\s+/).filter(Boolean);
    const holds = ([text, codes], word) => (word.startsWith("reason:") ? codes.has(word.slice(7)) : text.includes(word));
    return texts.flatMap((one, number) => (asked.every((word) => holds(one, word)) ? [number] : []));
  },
};

export const answerFromFile = async (name, fields) => ANSWERS[name](await held, fields);
