// The matrix: clusters in rows, Placements in columns. Only what is in sight is in the document:
// elements that leave the sight are filled anew for what comes into it.
/** @import {Column, Row} from "./layout.js" */
/** @import {Part} from "./matrixparts.js" */
import { byId, make, visible } from "./dom.js";
import { candidates, columnsOf, rowsOf } from "./layout.js";
import { drawLegend, mark } from "./marks.js";
import { children, drawGroup, drawHead, drawName, drawNamespace, newLine, sum, write } from "./matrixparts.js";
import { route } from "./route.js";
import { store } from "./store.js";

const ROW = 24, COLUMN = 28, OVERSCAN = 2;
const grid = byId("grid"), space = byId("space");

/** @type {Column[]} */
let columns = [];
/** @type {number[]} the places of Placements in columns */
let places = [];
/** @type {Row[]} */
let rows = [];
/** at is the current cell; -1 is the row of the heads, or the column of names. column counts Placements. */
const at = { row: 0, column: 0 };
let names = 0, heads = 0; // the width of clusters' names and the height of Placements'
let generation = 0; // of what the lines show
/** @type {Map<number, Part>} */
const lines = new Map();
/** @type {Part|null} */
let marked = null;
/** @type {Set<string>} the Placements that have just changed */
let fresh = new Set();

const headLine = newLine("columnheader");
headLine.classList.add("heads");
headLine.setAttribute("aria-rowindex", "1");
const corner = /** @type {Part} */ (headLine.firstElementChild);
corner.classList.add("corner");
const where = make("span", "where");
corner.append(where, "clusters");
corner.setAttribute("aria-colindex", "1");
const crossRow = make("div", "cross"), crossColumn = make("div", "cross down");
for (const cross of [crossRow, crossColumn]) {
  cross.setAttribute("aria-hidden", "true");
  cross.hidden = true;
}
space.append(headLine, crossRow, crossColumn);

// --- what there is

/**
 * lay decides which rows and columns there are. The current cell stays on its names.
 * @param {import("./filter.js").Result} shown
 * @returns {number} how many clusters are hidden because they are no candidates
 */
export function lay(shown) {
  const { all, group, closed, sort, by } = route.get();
  const before = current();
  columns = columnsOf(shown.placements);
  places = columns.flatMap((column, i) => (column.placement ? [i] : []));
  const clusters = all ? shown.clusters : candidates(shown.clusters, shown.placements);
  rows = rowsOf(clusters, store.rowOf, {
    group: group || "set", closed: closed ? closed.split(",") : [], sort, scores: sort === "score" && by && store.placement(by) ? store.scoresOf(by) : null,
    setsNotKnown: store.fleet?.setsNotKnown,
  });
  generation++;
  grid.setAttribute("aria-rowcount", String(rows.length + 1));
  grid.setAttribute("aria-colcount", String(places.length + 1));
  at.row = clamp(before.cluster ? rows.findIndex((r) => r.cluster?.name === before.cluster) : at.row, rows.length, at.row);
  at.column = clamp(before.placement ? places.findIndex((p) => columns[p].placement?.placement === before.placement) : at.column, places.length, at.column);
  if (at.row < 0 && at.column < 0) Object.assign(at, { row: 0, column: 0 });
  measure();
  resize();
  drawSoon();
  return shown.clusters.length - clusters.length;
}

/**
 * @param {number} found
 * @param {number} count
 * @param {number} instead
 */
function clamp(found, count, instead) {
  return Math.max(-1, Math.min(count - 1, found < 0 ? instead : found));
}

/** current returns the names of the current cell; empty for none. */
export function current() {
  return { cluster: rows[at.row]?.cluster?.name || "", placement: columns[places[at.column]]?.placement?.placement || "" };
}

/**
 * select makes a cell the current one, and scrolls to it if it is another.
 * @param {string} placement
 * @param {string} cluster
 */
export function select(placement, cluster) {
  const now = current();
  if ((!placement || now.placement === placement) && (!cluster || now.cluster === cluster)) return;
  const column = placement ? places.findIndex((p) => columns[p].placement?.placement === placement) : -1;
  const row = cluster ? rows.findIndex((r) => r.cluster?.name === cluster) : -1;
  if ((!placement || column >= 0) && (!cluster || row >= 0)) move(row, column);
}

/** @param {Set<string>} placements */
export function highlight(placements) {
  fresh = placements;
  generation++;
  drawSoon();
}

// --- drawing

/**
 * @param {number} offset
 * @param {number} size
 * @param {number} unit
 * @param {number} all
 */
function inSight(offset, size, unit, all) {
  const first = Math.max(0, Math.min(all, Math.floor(offset / unit)) - OVERSCAN);
  return { first, last: Math.min(all, Math.ceil((offset + size) / unit) + OVERSCAN) };
}

export function draw() {
  if (!grid.clientWidth) return;
  const across = inSight(grid.scrollLeft, grid.clientWidth - names, COLUMN, columns.length);
  const down = inSight(grid.scrollTop, grid.clientHeight - heads, ROW, rows.length);
  const cells = columns.slice(across.first, across.last).map((c) => (c.placement ? store.column(c.placement.placement) : undefined));
  const drawn = [generation, across.first, across.last].join();
  if (headLine.drawn !== drawn) drawHeads(across);
  headLine.drawn = drawn;
  const free = [];
  for (const [r, line] of lines) {
    if (r >= down.first && r < down.last) continue;
    lines.delete(r);
    free.push(line);
  }
  // From the last to the first, so that the order in the document is the one that is seen.
  /** @type {Element|null} */
  let next = crossRow;
  for (let r = down.last - 1; r >= down.first; r--) {
    const line = lines.get(r) || free.shift() || newLine("rowheader");
    lines.set(r, line);
    if (!line.parentElement || line.nextElementSibling !== next) space.insertBefore(line, next);
    next = line;
    if (line.drawn !== drawn + "," + r) drawLine(line, r, across, cells);
    line.drawn = drawn + "," + r;
  }
  for (const line of free) line.remove();
  markCurrent(across);
  cross(at.row, at.column);
  drawWhere();
}

/** drawWhere says in the corner which namespace and group are in sight when their own names are not. */
function drawWhere() {
  const first = columns[Math.floor(grid.scrollLeft / COLUMN)];
  const parts = grid.scrollLeft > 0 && first ? ["Namespace " + first.namespace] : [];
  let r = Math.min(rows.length - 1, Math.floor(grid.scrollTop / ROW));
  while (r > 0 && !rows[r].group) r--;
  const group = rows[r]?.group;
  if (grid.scrollTop > 0 && group) parts.push(group.title);
  const text = visible(parts.join("\n"));
  if (where.textContent !== text) where.textContent = text;
}

/** resize gives the grid the size of all cells: without it there is nowhere to scroll to. */
function resize() {
  headLine.style.width = space.style.width = names + columns.length * COLUMN + "px";
  space.style.height = heads + rows.length * ROW + "px";
}

/** @param {{first: number, last: number}} across */
function drawHeads(across) {
  resize();
  children(headLine, across.last - across.first);
  for (let c = across.first; c < across.last; c++) {
    const element = /** @type {Part} */ (headLine.children[c - across.first + 1]);
    const { placement, namespace } = columns[c];
    place(element, -1, c, "columnheader");
    if (placement) drawHead(element, placement, fresh.has(placement.placement), heads);
    else drawNamespace(element, namespace, heads);
  }
}

/**
 * @param {Part} line
 * @param {number} r
 * @param {{first: number, last: number}} across
 * @param {(string|undefined)[]} cells of the columns in sight
 */
function drawLine(line, r, across, cells) {
  const row = rows[r];
  line.style.top = heads + r * ROW + "px";
  line.style.width = headLine.style.width;
  line.setAttribute("aria-rowindex", String(r + 2));
  const name = /** @type {Part} */ (line.firstElementChild);
  name.row = r;
  name.column = -1;
  name.setAttribute("aria-colindex", "1");
  if (row.group) drawGroup(line, name, row.group, names);
  else drawName(line, name, row.cluster, names);
  children(line, across.last - across.first);
  /** @type {Part} */
  let cell = name;
  for (let c = across.first; c < across.last; c++) {
    cell = /** @type {Part} */ (cell.nextElementSibling);
    const placement = columns[c].placement, column = cells[c - across.first];
    place(cell, r, c, "gridcell");
    if (!placement) write(cell, "gap", "", "");
    else if (row.group) {
      const [text, said] = sum(column, row.group.places);
      write(cell, "cell sum", text, row.group.title + ", " + placement.placement + ": " + said);
    } else {
      const m = mark(column?.[row.place]);
      write(cell, m.style, m.text, row.cluster.name + ", " + placement.placement + ": " + m.said);
    }
  }
}

/**
 * place puts an element into a column. The column of a namespace is not part of the grid that is
 * told: the heads of Placements have it in their label.
 * @param {Part} element
 * @param {number} r
 * @param {number} c
 * @param {string} role
 */
function place(element, r, c, role) {
  const { number } = columns[c];
  element.row = r;
  if (element.column === c && element.getAttribute("role") === (number < 0 ? null : role)) return;
  element.column = c;
  element.style.left = names + c * COLUMN + "px";
  if (number < 0) {
    for (const name of ["role", "aria-colindex", "aria-label", "title"]) element.removeAttribute(name);
    element.setAttribute("aria-hidden", "true");
    return;
  }
  element.removeAttribute("aria-hidden");
  element.setAttribute("role", role);
  element.setAttribute("aria-colindex", String(number + 2));
}

/** @param {{first: number, last: number}} across */
function markCurrent(across) {
  marked?.classList.remove("current");
  marked?.removeAttribute("id");
  const line = at.row < 0 ? headLine : lines.get(at.row);
  const c = at.column < 0 || (rows[at.row]?.group) ? -1 : places[at.column];
  const inReach = c < 0 || (c >= across.first && c < across.last);
  marked = /** @type {Part|null} */ ((line && inReach && line.children[c < 0 ? 0 : c - across.first + 1]) || null);
  // Without a cell in sight there is no element to name.
  if (!marked) return grid.removeAttribute("aria-activedescendant");
  grid.setAttribute("aria-activedescendant", "current");
  marked.classList.add("current");
  marked.id = "current";
}

/**
 * cross shows the row and the column of a cell.
 * @param {number} r
 * @param {number} number of the Placement
 */
function cross(r, number) {
  // A line under the names of clusters or Placements would be seen through them.
  crossRow.hidden = r < 0 || r >= rows.length || r * ROW < grid.scrollTop;
  crossColumn.hidden = !(number in places) || places[number] * COLUMN < grid.scrollLeft;
  crossRow.style.top = heads + r * ROW + "px";
  crossColumn.style.left = names + places[number] * COLUMN + "px";
}

function measure() {
  const style = getComputedStyle(document.documentElement);
  const read = (/** @type {string} */ name) => parseInt(style.getPropertyValue(name), 10);
  const [newNames, newHeads] = [read("--names"), read("--heads")];
  if (newNames !== names) for (const line of [headLine, ...lines.values()]) for (const cell of line.children) /** @type {Part} */ (cell).column = undefined;
  [names, heads] = [newNames, newHeads];
}

let due = 0;
function drawSoon() {
  drawLegend(byId("legend"));
  if (!due) due = requestAnimationFrame(() => { due = 0; draw(); });
}

/** refresh draws again what has been read since. */
export function refresh() {
  generation++;
  drawSoon();
}

// --- moving

/**
 * @param {number} row
 * @param {number} column
 */
function move(row, column) {
  at.row = Math.max(-1, Math.min(rows.length - 1, row));
  at.column = Math.max(-1, Math.min(places.length - 1, column));
  if (at.row < 0 && at.column < 0) at.column = places.length ? 0 : -1;
  if (at.row >= 0) grid.scrollTop = within(grid.scrollTop, at.row * ROW, ROW, grid.clientHeight - heads);
  if (at.column >= 0) grid.scrollLeft = within(grid.scrollLeft, places[at.column] * COLUMN, COLUMN, grid.clientWidth - names);
  draw();
}

/**
 * @param {number} offset
 * @param {number} start
 * @param {number} size
 * @param {number} seen
 */
function within(offset, start, size, seen) {
  return Math.max(Math.min(offset, start), start + size - seen);
}

/** @param {KeyboardEvent} event */
function onKey(event) {
  const page = Math.max(1, Math.floor((grid.clientHeight - heads) / ROW) - 1);
  const far = event.ctrlKey || event.metaKey;
  /** @type {Object<string, [number, number]>} */
  const steps = {
    ArrowUp: [at.row - 1, at.column], ArrowDown: [at.row + 1, at.column], ArrowLeft: [at.row, at.column - 1], ArrowRight: [at.row, at.column + 1],
    PageUp: [Math.max(0, at.row - page), at.column], PageDown: [at.row + page, at.column],
    Home: [far ? 0 : at.row, 0], End: [far ? rows.length - 1 : at.row, places.length - 1],
  };
  if (steps[event.key]) move(...steps[event.key]);
  else if (event.key === "Enter" || event.key === " ") show();
  else return;
  event.preventDefault();
}

/** show opens the details of the current cell, or closes and opens a group. */
function show() {
  const group = rows[at.row]?.group, { cluster, placement } = current();
  if (group) toggle(group.name);
  else if (cluster && placement) route.go({ view: "cell", placement, cluster });
  else if (placement) route.go({ view: "placement", placement });
  else if (cluster) route.go({ view: "cluster", cluster });
}

/** @param {string} name */
function toggle(name) {
  const closed = new Set(route.get().closed.split(",").filter(Boolean));
  if (!closed.delete(name)) closed.add(name);
  route.replace({ closed: [...closed].join(",") });
}

/** @param {EventTarget|null} target */
function partOf(target) {
  const part = /** @type {Part|null} */ (target instanceof Element ? target.closest(".head, .cell, .gap, .name:not(.corner)") : null);
  return part && part.row !== undefined && part.column !== undefined ? { row: part.row, column: part.column, part } : null;
}

grid.addEventListener("scroll", drawSoon, { passive: true });
grid.addEventListener("keydown", onKey);
grid.addEventListener("mouseover", (event) => {
  const hit = partOf(event.target);
  if (!hit) return;
  if (hit.part.classList.contains("cell")) hit.part.title = hit.part.getAttribute("aria-label") || "";
  cross(hit.row, hit.column < 0 ? -1 : columns[hit.column].number);
});
grid.addEventListener("mouseleave", () => cross(at.row, at.column));
grid.addEventListener("click", (event) => {
  const hit = partOf(event.target);
  if (!hit) return;
  const column = hit.column < 0 ? null : columns[hit.column];
  if (column && !column.placement) {
    if (hit.row < 0) route.go({ filter: "ns:" + column.namespace });
    return;
  }
  move(hit.row, column ? column.number : -1);
  show();
});
new ResizeObserver(() => {
  measure();
  // Details that open beside the matrix must not hide their cell.
  if (route.get().view === "cell") move(at.row, at.column);
  refresh();
}).observe(grid);
