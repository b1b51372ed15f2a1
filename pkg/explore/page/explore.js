// The page of berth explore. What comes from the hub enters the document as text only, with its control characters visible, and a
// command as words that a shell takes literally. The matrix is drawn anew for what is in sight.
"use strict";

const ROW = 24, COLUMN = 26, OVERSCAN = 2;
const STATES = {
  0: ["", "no candidate"], 1: ["✓", "selected"], 2: ["○", "fits, not selected"],
  3: ["+", "held: would be added"], 4: ["−", "held: would be removed"], 5: ["?", "excluded"],
};

const byId = (id) => document.getElementById(id);
const grid = byId("grid"), space = byId("space"), details = byId("details");

let matrix = { clusters: [], plugins: [], placements: [] };
let letters = []; // one for each plugin
let NAMES, HEADS; // the width of clusters' names and the height of Placements', which are less in a narrow window
let resilience = { by: "", done: true }; // of api/resilience
let rows = [], columns = []; // indexes of what the searches leave
let at = { row: 0, column: 0 }; // -1 is the row of Placements' names, or the column of clusters'
let asked = 0; // the last question; answers to others come too late

// visible shows control characters as \uXXXX: those of direction, or without width, would make a name look like another.
function visible(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => (c === "\n" ? c : "\\u" + c.codePointAt(0).toString(16).padStart(4, "0")));
}

// shellQuote makes a text one word of a POSIX shell, whatever it has.
function shellQuote(text) {
  return /^[\w./:=@%+,-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'";
}

function make(tag, className, ...content) {
  const element = document.createElement(tag);
  element.className = className;
  element.append(...content.map((part) => (typeof part === "string" ? visible(part) : part)));
  return element;
}

async function get(path, parameters) {
  const response = await fetch(path + "?" + new URLSearchParams(parameters || {}));
  const text = await response.text();
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    throw new Error(text.trim() || response.statusText);
  }
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

function problem(error) {
  const unreachable = error && error.name === "TypeError";
  byId("problem").textContent = unreachable ? "berth explore does not answer: is it still running?" : error ? visible(error.message) : "";
  byId("problem").hidden = !error;
}

// --- the marks

function lettersOf(plugins) {
  const taken = new Set();
  return plugins.map((plugin) => {
    const candidates = plugin.replace(/[^A-Z]/g, "") + plugin.toUpperCase() + "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    const letter = [...candidates].find((c) => /[A-Z0-9]/.test(c) && !taken.has(c)) || "?";
    taken.add(letter);
    return letter;
  });
}

const marks = new Map();
function mark(state) {
  if (!marks.has(state)) {
    const plugin = state.charCodeAt(0) - 65;
    marks.set(state, plugin < 0
      ? { text: STATES[state][0], said: STATES[state][1], style: "cell mark m" + state }
      : { text: letters[plugin], said: "excluded by " + matrix.plugins[plugin], style: "cell mark p" + (plugin % 6) });
  }
  return marks.get(state);
}

function count(cells) {
  const counts = {};
  for (const state of cells) counts[state] = (counts[state] || 0) + 1;
  return counts;
}

function drawLegend() {
  const states = ["1", "2", "3", "4", ...matrix.plugins.map((_, i) => String.fromCharCode(65 + i)), "0"];
  byId("legend").replaceChildren(...states.map((state) => {
    const m = mark(state);
    const sign = make("span", m.style.replace("cell ", ""), m.text);
    sign.setAttribute("aria-hidden", "true");
    return make("li", "", sign, m.said);
  }));
}

// --- the matrix: lines that leave the sight are filled anew for those that come into it

const heads = make("div", "row heads");
heads.setAttribute("role", "row");
heads.setAttribute("aria-rowindex", "1");
const corner = make("div", "name corner", "cluster \\ Placement");
corner.setAttribute("role", "columnheader");
corner.setAttribute("aria-colindex", "1");
heads.append(corner);
space.append(heads);
const lines = new Map(); // by row
let generation = 0; // of what the lines show
let marked = null; // the current element

function newLine() {
  const line = make("div", "row", make("div", "name", ""));
  line.setAttribute("role", "row");
  line.firstElementChild.setAttribute("role", "rowheader");
  return line;
}

// children has a line hold as many elements as wanted after its name.
function children(line, wanted, role) {
  while (line.childElementCount - 1 > wanted) line.lastElementChild.remove();
  while (line.childElementCount - 1 < wanted) {
    const child = make("div", "", "");
    child.setAttribute("role", role);
    line.append(child);
  }
}

function fill(element, row, column, className, rawText, rawLabel) {
  const [text, label] = [visible(rawText), visible(rawLabel)];
  if (!element.firstChild) element.append("");
  if (element.firstChild.data !== text) element.firstChild.data = text;
  if (element.className !== className) element.className = className;
  element.setAttribute("aria-label", label);
  if (element.column !== column) element.setAttribute("aria-colindex", column + 2);
  if (column >= 0) element.style.left = NAMES + column * COLUMN + "px";
  element.row = row;
  element.column = column;
}

function inSight(offset, size, unit, all) {
  const first = Math.max(0, Math.min(all, Math.floor(offset / unit)) - OVERSCAN);
  return { first, last: Math.min(all, Math.ceil((offset + size) / unit) + OVERSCAN) };
}

function draw() {
  const across = inSight(grid.scrollLeft, grid.clientWidth - NAMES, COLUMN, columns.length);
  const down = inSight(grid.scrollTop, grid.clientHeight - HEADS, ROW, rows.length);
  const drawn = [generation, across.first, across.last].join();
  if (heads.drawn !== drawn) drawHeads(across);
  heads.drawn = drawn;
  const free = [];
  for (const [r, line] of lines) {
    if (r >= down.first && r < down.last) continue;
    lines.delete(r);
    free.push(line);
  }
  // From the last to the first, so that the order in the document is the one that is seen.
  for (let r = down.last - 1, next = null; r >= down.first; r--) {
    const line = lines.get(r) || free.shift() || newLine();
    lines.set(r, line);
    if (!line.parentElement || line.nextElementSibling !== next) space.insertBefore(line, next);
    next = line;
    if (line.drawn !== drawn + "," + r) drawLine(line, r, across);
    line.drawn = drawn + "," + r;
  }
  for (const line of free) line.remove();
  markCurrent(across);
}

function drawHeads(across) {
  heads.style.width = space.style.width = NAMES + columns.length * COLUMN + "px";
  space.style.height = HEADS + rows.length * ROW + "px";
  children(heads, across.last - across.first, "columnheader");
  for (let c = across.first; c < across.last; c++) {
    const p = matrix.placements[columns[c]];
    const critical = resilience.done && (resilience.placements || {})[p.placement]?.critical;
    const state = (p.held ? " waits" : p.skipped || p.error ? " left" : "") + (critical ? " critical" : "");
    const label = p.placement + (critical ? ", " + survivalOf(p.placement) : "") + (p.held ? ", a change is held" : p.skipped ? ", " + p.skipped : p.error ? ", not decided" : "");
    fill(heads.children[c - across.first + 1], -1, c, "head" + state, p.placement, label);
  }
}

function drawLine(line, r, across) {
  const cluster = matrix.clusters[rows[r]];
  line.style.top = HEADS + r * ROW + "px";
  line.style.width = heads.style.width;
  line.setAttribute("aria-rowindex", r + 2);
  fill(line.firstElementChild, r, -1, "name", cluster, cluster);
  children(line, across.last - across.first, "gridcell");
  let cell = line.firstElementChild;
  for (let c = across.first; c < across.last; c++) {
    cell = cell.nextElementSibling;
    const p = matrix.placements[columns[c]];
    const m = mark(p.cells[rows[r]]);
    fill(cell, r, c, m.style, m.text, cluster + ", " + p.placement + ": " + m.said);
  }
}

function markCurrent(across) {
  marked?.classList.remove("current");
  marked?.removeAttribute("id");
  const line = at.row < 0 ? heads : lines.get(at.row);
  const inReach = at.column < 0 || (at.column >= across.first && at.column < across.last);
  marked = (line && inReach && line.children[at.column < 0 ? 0 : at.column - across.first + 1]) || null;
  if (marked) {
    marked.classList.add("current");
    marked.id = "current";
  }
}

function measure() {
  const style = getComputedStyle(document.documentElement);
  [NAMES, HEADS] = ["--names", "--heads"].map((name) => parseInt(style.getPropertyValue(name), 10));
}

function resized() {
  measure();
  generation++;
  drawSoon();
}

let due = 0;
function drawSoon() {
  if (!due) due = requestAnimationFrame(() => { due = 0; draw(); });
}

function search() {
  const part = (id) => byId(id).value.trim().toLowerCase();
  const matching = (names, text) => names.flatMap((name, i) => (name.toLowerCase().includes(text) ? [i] : []));
  generation++;
  rows = matching(matrix.clusters, part("find-cluster"));
  columns = matching(matrix.placements.map((p) => p.placement), part("find-placement"));
  grid.setAttribute("aria-rowcount", rows.length + 1);
  grid.setAttribute("aria-colcount", columns.length + 1);
  move(at.row, at.column);
}

function move(row, column) {
  at.row = Math.max(-1, Math.min(rows.length - 1, row));
  at.column = Math.max(-1, Math.min(columns.length - 1, column));
  if (at.row < 0 && at.column < 0) at.column = columns.length ? 0 : -1;
  if (at.row >= 0) grid.scrollTop = within(grid.scrollTop, at.row * ROW, ROW, grid.clientHeight - HEADS);
  if (at.column >= 0) grid.scrollLeft = within(grid.scrollLeft, at.column * COLUMN, COLUMN, grid.clientWidth - NAMES);
  draw();
}

function within(offset, start, size, seen) {
  return Math.max(Math.min(offset, start), start + size - seen);
}

function onKey(event) {
  const page = Math.max(1, Math.floor((grid.clientHeight - HEADS) / ROW) - 1);
  const far = event.ctrlKey || event.metaKey;
  const steps = {
    ArrowUp: [at.row - 1, at.column], ArrowDown: [at.row + 1, at.column], ArrowLeft: [at.row, at.column - 1], ArrowRight: [at.row, at.column + 1],
    PageUp: [Math.max(0, at.row - page), at.column], PageDown: [at.row + page, at.column],
    Home: [far ? 0 : at.row, 0], End: [far ? rows.length - 1 : at.row, columns.length - 1],
  };
  if (steps[event.key]) move(...steps[event.key]);
  else if (event.key === "Enter" || event.key === " ") show();
  else return;
  event.preventDefault();
}

// --- the details

function describe(title, ...content) {
  details.replaceChildren(make("h2", "", title), ...content);
  details.scrollTop = 0;
}

async function ask(title, question, tell) {
  const mine = ++asked;
  describe(title, make("p", "quiet", "Deciding…"));
  try {
    const answer = await question();
    if (mine === asked) describe(title, ...tell(answer));
  } catch (error) {
    if (mine !== asked) return;
    describe(title, make("p", "removed", "No answer: " + error.message));
  }
}

function show() {
  const cluster = at.row < 0 ? "" : matrix.clusters[rows[at.row]];
  const placement = at.column < 0 ? null : matrix.placements[columns[at.column]];
  if (cluster && placement) {
    const names = { placement: placement.placement, cluster };
    return ask(cluster + " for " + placement.placement, () => get("api/cell", names), tellCell);
  }
  if (placement) return showPlacement(placement);
  if (cluster) showCluster(cluster, rows[at.row]);
}

function tellCell(cell) {
  if (new Date(cell.at).getTime() !== new Date(matrix.at).getTime()) problem(new Error("The hub has been read again since: read it again here, too."));
  const content = [];
  const v = cell.verdict;
  if (cell.pending) content.push(make("p", "waits-for", "A change to this is not published: " + cell.pending));
  if (!v) return [...content, make("p", "verdict", cell.note)];
  content.push(make("p", "verdict", v.plugin ? "Not selected: excluded by " + v.plugin : v.selected ? "Selected" : "Not selected, though it fits"));
  if (v.reason) content.push(make("p", "", v.reason));
  if (v.selectedWith) content.push(make("p", "hint", "Would be selected with: " + v.selectedWith));
  if (v.score === undefined) return content;
  content.push(make("h3", "", "Score " + v.score), ...scoreBars(v.scores || {}, cell.weights || {}));
  if (v.distance !== undefined) content.push(make("p", "", distance(v)));
  return content;
}

function distance(v) {
  const other = v.selected ? "the best cluster that was left out" : "the last cluster that was selected";
  if (v.distance === 0) return "As much as " + other;
  return Math.abs(v.distance) + (v.distance > 0 ? " more than " : " less than ") + other;
}

function scoreBars(scores, weights) {
  const parts = Object.keys(scores).sort().map((plugin) => ({ plugin, score: scores[plugin], weight: weights[plugin] || 0 }));
  const scale = Math.max(1, ...parts.map((p) => Math.abs(p.score * p.weight)));
  const signed = parts.some((p) => p.score * p.weight < 0);
  return parts.map(({ plugin, score, weight }) => {
    const part = score * weight;
    const fill = make("div", part < 0 ? "fill negative" : "fill");
    const width = (Math.abs(part) / scale) * (signed ? 50 : 100);
    fill.style.width = width + "%";
    fill.style.left = (signed ? 50 : 0) - (part < 0 ? width : 0) + "%";
    const bar = make("div", "bar", fill);
    bar.setAttribute("aria-hidden", "true");
    return make("div", "score", make("div", "line", make("span", "", plugin), make("span", "", score + " × " + weight + " = " + part)), bar);
  });
}

function showPlacement(column) {
  return ask(column.placement, () => get("api/placement", { placement: column.placement }), (placement) => {
    const content = [];
    if (placement.skipped) content.push(make("p", "verdict", "Left alone: " + placement.skipped));
    if (placement.error) content.push(make("p", "removed", "Not decided: " + placement.error));
    if (placement.pending) content.push(...tellHeld(placement.placement, placement.pending));
    if (resilience.by) content.push(make("h3", "", "Resilience by " + resilience.by), make("p", "", survivalOf(placement.placement)));
    content.push(make("h3", "", "Clusters"), tallies(column.cells));
    if (placement.conditions) {
      content.push(make("h3", "", placement.pending ? "Conditions meanwhile" : "Conditions"), make("dl", "", ...placement.conditions.flatMap((c) =>
        [make("dt", "", c.type + "=" + c.status + " " + c.reason), make("dd", "", c.message)])));
    }
    for (const intent of placement.intents || []) content.push(make("p", "hint", intent.note || ""));
    return content;
  });
}

// survivalOf says which domains a Placement can lose.
function survivalOf(placement) {
  if (!resilience.done) return "Still deciding without each domain…";
  return resilience.error || (resilience.placements[placement] || { message: "" }).message;
}

function tallies(cells) {
  const counts = count(cells);
  return make("dl", "", ...Object.keys(counts).sort().flatMap((state) => [make("dt", "", mark(state).said), make("dd", "", String(counts[state]))]));
}

function tellHeld(placement, pending) {
  const lines = (sign, names) => names.map((name) => sign + " " + name).join("\n");
  const [namespace, name] = placement.split("/");
  const answer = make("pre", "command", "kubectl placement approve " + shellQuote(name) + " -n " + shellQuote(namespace));
  return [
    make("p", "waits-for", pending.reason + ": " + pending.message),
    ...(pending.reason === "Held" ? [answer] : []),
    make("h3", "", "What would change: " + pending.added.length + " added, " + pending.removed.length + " removed"),
    make("pre", "added", lines("+", pending.added)), make("pre", "removed", lines("−", pending.removed)),
  ];
}

function showCluster(cluster, row) {
  asked++;
  const cells = matrix.placements.map((p) => p.cells[row]);
  const names = matrix.placements.filter((p) => p.cells[row] === "1" || p.cells[row] === "4").map((p) => p.placement);
  describe(cluster, make("h3", "", "Placements"), tallies(cells), make("h3", "", "Selected for"), make("pre", "", names.join("\n") || "none"));
}

function showHeld() {
  asked++;
  const held = matrix.placements.filter((p) => p.held);
  const list = make("ul", "list", ...held.map((column) => {
    const counts = count(column.cells);
    const [added, removed] = [counts[3] || 0, counts[4] || 0];
    const button = make("button", "", make("span", "", column.placement), make("span", "added", "+" + added), make("span", "removed", "−" + removed));
    button.setAttribute("aria-label", visible(column.placement) + ": " + added + " to be added, " + removed + " to be removed");
    button.type = "button";
    button.addEventListener("click", () => { showPlacement(column); details.focus(); });
    return make("li", "", button);
  }));
  describe("Held changes", make("p", "", "What is published stays until these are approved or no longer wanted."), list);
  list.querySelector("button")?.focus();
}

// --- loading

// loadResilience asks until the domains that Placements can lose are known.
async function loadResilience(of) {
  try {
    resilience = await get("api/resilience");
  } catch (error) {
    resilience = { by: "", done: true, error: error.message };
  }
  if (of !== matrix.at) return;
  if (resilience.done) drawSoon();
  else setTimeout(() => loadResilience(of), 500);
}

async function load() {
  byId("reload").disabled = true;
  byId("summary").textContent = "Reading the hub and deciding…";
  try {
    matrix = await get("api/matrix");
    problem(null);
  } catch (error) {
    problem(error);
  }
  byId("reload").disabled = false;
  letters = lettersOf(matrix.plugins);
  marks.clear();
  const held = matrix.placements.filter((p) => p.held).length;
  const when = matrix.at ? ", as of " + new Date(matrix.at).toLocaleTimeString() : "";
  byId("summary").textContent = matrix.clusters.length + " clusters, " + matrix.placements.length + " Placements" + when;
  byId("held").textContent = "Held changes: " + held;
  byId("held").disabled = held === 0;
  byId("held").className = held ? "some" : "";
  drawLegend();
  search();
  document.body.dataset.loaded = matrix.at || "";
  loadResilience(matrix.at);
}

grid.addEventListener("scroll", drawSoon, { passive: true });
grid.addEventListener("keydown", onKey);
grid.addEventListener("mouseover", (event) => { event.target.title = event.target.getAttribute("aria-label") || ""; });
grid.addEventListener("click", (event) => {
  const target = event.target;
  if (target.row === undefined) return;
  move(target.row, target.column);
  show();
});
new ResizeObserver(resized).observe(grid);
for (const id of ["find-cluster", "find-placement"]) byId(id).addEventListener("input", search);
byId("held").addEventListener("click", showHeld);
byId("reload").addEventListener("click", load);
measure();
load();
