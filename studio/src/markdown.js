// Dialogues as Markdown, to read and to send. Their words are text in it, not marks.
import { printable, signed } from "./lib.js";

const plain = (text) => printable(text || "(silence)").replaceAll(/\s+/g, " ").replaceAll(/[\\`*_[\]<>#|~]/g, "\\$&");

const turnLines = (turn, number, name) => [
  `**${plain(turn.by)}** (turn ${number}): ${plain(turn.utterance)}`,
  `*${signed(turn.change)}, now ${turn.emotion}: ${plain(turn.thought)}*`,
  turn.reasons.map(([, points, note]) => `- ${signed(points)} ${plain(note)}`).join("\n"),
  `**${plain(name)}**: ${plain(turn.reply)}`,
];

// `columns`: [{title, sub, turns, from}]: dialogues with one person, from the same opening.
export function toMarkdown({ title, below, name, opening, columns }) {
  const told = columns.flatMap((one) => [`## ${plain(one.title)}: ${plain(one.sub)}`, ...one.turns.flatMap((turn, at) => turnLines(turn, one.from + at, name))]);
  return [`# ${plain(title)}`, plain(below), `**${plain(name)}**: ${plain(opening)}`, ...told].filter(Boolean).join("\n\n") + "\n";
}
