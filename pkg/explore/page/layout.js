// Which rows and columns the matrix has, in which order. Nothing here reads the page.
/** @import {ClusterRow, PlacementRow} from "./types.js" */

/**
 * A Column is a Placement, or, without one, the name of the namespace before its first Placement.
 * number counts the Placements.
 * @typedef {{namespace: string, placement: PlacementRow|null, number: number}} Column
 */

/**
 * A Row is a cluster, with its place in the cells, or the heading of a group.
 * @typedef {{cluster: ClusterRow, place: number, group: null} | {cluster: null, place: -1, group: Group}} Row
 */

/** @typedef {{name: string, title: string, closed: boolean, places: number[]}} Group */
/** @typedef {{group: string, closed: string[], sort: string, scores: Map<string, number>|null, setsNotKnown?: boolean}} Order */

/**
 * columnsOf returns the columns of Placements.
 * @param {PlacementRow[]} placements in order of namespace and name
 * @returns {Column[]}
 */
export function columnsOf(placements) {
  /** @type {Column[]} */
  const columns = [];
  let last = null, number = 0;
  for (const placement of placements) {
    const namespace = placement.placement.split("/")[0];
    if (namespace !== last) columns.push({ namespace, placement: null, number: -1 });
    columns.push({ namespace, placement, number: number++ });
    last = namespace;
  }
  return columns;
}

/**
 * candidates returns those of the clusters that are in a set from which one of the Placements may
 * select. A cluster in no set that some decision has stays: this is a mistake to be seen.
 * @param {ClusterRow[]} clusters
 * @param {PlacementRow[]} placements
 */
export function candidates(clusters, placements) {
  const sets = new Set(placements.flatMap((p) => p.sets || []));
  if (!sets.size && placements.some((p) => !p.sets)) return clusters;
  return clusters.filter((c) => c.sets?.length ? c.sets.some((set) => sets.has(set)) : c.decisions);
}

/**
 * groupKeys returns the keys of labels by which clusters can be grouped, the most useful first:
 * regions and zones, then those with few values on many clusters.
 * @param {ClusterRow[]} clusters
 */
export function groupKeys(clusters) {
  /** @type {Map<string, {values: Set<string>, count: number}>} */
  const keys = new Map();
  for (const cluster of clusters) {
    for (const [key, value] of Object.entries(cluster.labels || {})) {
      const known = keys.get(key) || { values: new Set(), count: 0 };
      known.values.add(value);
      known.count++;
      keys.set(key, known);
    }
  }
  const rank = (/** @type {string} */ key) => {
    const { values, count } = keys.get(key) || { values: new Set(), count: 0 };
    if (/(^|[./-])region$/.test(key)) return 0;
    if (/(^|[./-])zone$/.test(key)) return 1;
    if (values.size < 2 || values.size > 40) return 4;
    return count * 2 > clusters.length ? 2 : 3;
  };
  return [...keys.keys()].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

/**
 * regionKey is the label of the region of clusters; empty if they have none.
 * @param {ClusterRow[]} clusters
 */
export const regionKey = (clusters) => groupKeys(clusters).slice(0, 1).find((key) => /(^|[./-])(region|zone)$/.test(key)) || "";

/**
 * rowsOf returns the rows of clusters: grouped, and sorted within each group.
 * @param {ClusterRow[]} clusters
 * @param {(name: string) => number} placeOf
 * @param {Order} order
 * @returns {Row[]}
 */
export function rowsOf(clusters, placeOf, order) {
  const sorted = sort(clusters, order);
  const row = (/** @type {ClusterRow} */ cluster) => /** @type {Row} */ ({ cluster, place: placeOf(cluster.name), group: null });
  if (order.group === "none") return sorted.map(row);
  /** @type {Map<string, ClusterRow[]>} */
  const groups = new Map();
  for (const cluster of sorted) {
    const name = groupOf(cluster, order.group);
    const members = groups.get(name);
    if (members) members.push(cluster);
    else groups.set(name, [cluster]);
  }
  // The group without a name is the last one.
  const names = [...groups.keys()].sort((a, b) => (a === "" ? 1 : b === "" ? -1 : a < b ? -1 : 1));
  return names.flatMap((name) => {
    const members = (groups.get(name) || []).map(row);
    const closed = order.closed.includes(name);
    /** @type {Row} */
    const heading = { cluster: null, place: -1, group: { name, title: titleOf(name, order.group, order.setsNotKnown), closed, places: members.map((m) => m.place) } };
    return closed ? [heading] : [heading, ...members];
  });
}

/**
 * @param {ClusterRow} cluster
 * @param {string} by
 */
function groupOf(cluster, by) {
  if (by.startsWith("label:")) return cluster.labels?.[by.slice("label:".length)] || "";
  // The exclusive set is the first one; default and global are the last ones.
  return cluster.sets?.[0] || "";
}

/**
 * @param {string} name
 * @param {string} by
 * @param {boolean} [unknown]
 */
function titleOf(name, by, unknown) {
  if (by.startsWith("label:")) return name || "without " + by.slice("label:".length);
  return name || (unknown ? "set not known" : "in no set");
}

/**
 * @param {ClusterRow[]} clusters by name
 * @param {Order} order
 */
function sort(clusters, order) {
  const { scores } = order;
  if (order.sort === "decisions") return [...clusters].sort((a, b) => (b.decisions || 0) - (a.decisions || 0));
  if (order.sort === "score" && scores) {
    const of = (/** @type {ClusterRow} */ c) => scores.get(c.name) ?? -Infinity;
    return [...clusters].sort((a, b) => of(b) === of(a) ? 0 : of(b) > of(a) ? 1 : -1);
  }
  return clusters;
}
