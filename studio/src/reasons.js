// Reasons as sentences: what a note says without the words that it quotes, as the studio's search has it.
export const sentenceOf = (note) => note.replace(/:?\s*“.*/s, "");

// The sentences to choose from, and the fields of a search for a note's reason: by its code where there are too many.
export const reasons = { all: [] };
export const searchFor = (code, note) => (reasons.all.includes(sentenceOf(note)) ? { reason: sentenceOf(note) } : { q: `reason:${code}` });
