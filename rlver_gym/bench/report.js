"use strict";
// Reads the embedded episodes and shows one. Every text is set with textContent, never as markup.
const embedded = JSON.parse(document.getElementById("episodes").textContent);
const text = (number) => embedded.texts[number];
const episodes = embedded.episodes.map((one) => ({
  ...one, agent: text(one.agent), persona: text(one.persona), need: text(one.need), disposition: text(one.disposition), opening: text(one.opening),
}));
const pick = (id) => document.getElementById(id);
const make = (tag, className, content) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (content !== undefined) node.textContent = content;
  return node;
};
const endings = {
  content: "Content, and says goodbye.",
  left: "Left.",
  out_of_turns: "Out of turns.",
  failed: "The simulated user failed.",
};
const band = (emotion) => (emotion >= 100 ? "S" : emotion >= 70 ? "A" : emotion >= 40 ? "B" : emotion >= 10 ? "C" : "F");
const signed = (points) => (points > 0 ? "+" : points < 0 ? "−" : "±") + Math.abs(points);

function fill(select, values) {
  const kept = select.value;
  select.replaceChildren(...values.map((value) => { const option = make("option", "", value); option.value = value; return option; }));
  if (values.map(String).includes(kept)) select.value = kept;
}

const distinct = (field, among) => [...new Set(among.map((episode) => episode[field]))];

function choices() {
  fill(pick("agent"), distinct("agent", episodes));
  fill(pick("persona"), distinct("persona", episodes.filter((one) => one.agent === pick("agent").value)));
  fill(pick("seed"), distinct("seed", episodes.filter((one) => one.agent === pick("agent").value && one.persona === pick("persona").value)));
}

function current() {
  return episodes.findIndex((one) => one.agent === pick("agent").value && one.persona === pick("persona").value && String(one.seed) === pick("seed").value);
}

function bubble(who, words) {
  const said = make("div", "say " + who + (words ? "" : " silence"), words || "(silence)");
  said.dir = "auto";
  return said;
}

function felt([, change, emotion, thought, reasons]) {
  const box = make("div", "felt");
  box.append(make("span", "change " + (change > 0 ? "up" : change < 0 ? "down" : ""), signed(change)));
  const meter = make("div", "meter");
  const level = make("i");
  level.style.width = emotion + "%";
  meter.append(level);
  meter.title = emotion + " of 100, band " + band(emotion);
  box.append(meter);
  const details = make("details");
  details.append(make("summary", "", emotion + " " + band(emotion) + " · “" + text(thought) + "”"));
  const list = make("ul");
  for (const [points, note] of reasons) {
    const item = make("li");
    item.append(make("b", points > 0 ? "up" : "down", signed(points)), make("span", "", text(note)));
    list.append(item);
  }
  details.append(list);
  box.append(details);
  return box;
}

function show() {
  const episode = episodes[current()];
  if (!episode) return;
  const last = episode.turns.length ? episode.turns[episode.turns.length - 1][2] : episode.start;
  const parts = [make("p", "summary", episode.disposition + " · hidden need: " + episode.need.replaceAll("_", " ") + " · " + episode.start + " → " + last + " in " + episode.turns.length + " turns")];
  parts.push(bubble("user", episode.opening));
  for (const turn of episode.turns) parts.push(bubble("agent", text(turn[0])), felt(turn), bubble("user", text(turn[5])));
  parts.push(make("p", "ending", endings[episode.outcome] || ""));
  pick("dialogue").replaceChildren(...parts);
}

function choose(episode) {
  pick("agent").value = episode.agent;
  choices();
  pick("persona").value = episode.persona;
  choices();
  pick("seed").value = String(episode.seed);
  show();
}

function step(by) {
  if (episodes.length) choose(episodes[(current() + by + episodes.length) % episodes.length]);
}

// #AGENT/PERSONA/SEED, as the Markdown report links to dialogues.
function follow() {
  let key;
  try { key = decodeURIComponent(location.hash.slice(1)); } catch { return; }
  const episode = episodes.find((one) => one.agent + "/" + one.persona + "/" + one.seed === key);
  if (!episode) return;
  choose(episode);
  pick("dialogue").scrollIntoView();
}

for (const id of ["agent", "persona", "seed"]) pick(id).addEventListener("change", () => { choices(); show(); });
pick("previous").addEventListener("click", () => step(-1));
pick("next").addEventListener("click", () => step(1));
addEventListener("hashchange", follow);
choices();
show();
follow();
