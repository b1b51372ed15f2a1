// The types of what the server answers, as in pkg/explore/api.go, for the type checker. Nothing here
// runs. A list that Go leaves empty can be null or missing.

/** @typedef {{user?: string, csrf: string, live: boolean, recording: boolean, resilience?: string, noStream?: string}} Session */

/**
 * @typedef {object} Fleet
 * @property {number} version
 * @property {string} at
 * @property {HubState} hub
 * @property {string} [namespace]
 * @property {string[]} [missing]
 * @property {number} rows
 * @property {ClusterRow[]} clusters
 * @property {PlacementRow[]} placements
 * @property {ChangeRow[]} changes
 */

/** @typedef {{state?: string, synced?: boolean, since?: string, problem?: string}} HubState */

/**
 * @typedef {object} ClusterRow
 * @property {string} name
 * @property {string[]} [sets]
 * @property {Object<string, string>} [labels]
 * @property {string} [available]
 * @property {boolean} [drained]
 * @property {number} [taints]
 * @property {number} [decisions]
 */

/**
 * @typedef {object} PlacementRow
 * @property {string} placement
 * @property {number|null} wanted
 * @property {number} selected
 * @property {string[]} states
 * @property {string} [message]
 * @property {string[]} [sets]
 * @property {string} [since]
 * @property {ChangeRow} [change]
 */

/**
 * @typedef {object} ChangeRow
 * @property {string} placement
 * @property {string} name
 * @property {number} revision
 * @property {string} time
 * @property {string} phase
 * @property {number} added
 * @property {number} removed
 * @property {string} [cause]
 * @property {string} [message]
 * @property {number} [remainingAdded]
 * @property {number} [remainingRemoved]
 */

/**
 * @typedef {object} Update
 * @property {number} version
 * @property {string} at
 * @property {HubState} hub
 * @property {number} rows
 * @property {ClusterRow[]} [clusters]
 * @property {string[]} [goneClusters]
 * @property {PlacementRow[]} [placements]
 * @property {string[]} [gonePlacements]
 * @property {string[]} [columns]
 * @property {boolean} [allColumns]
 * @property {ChangeRow[]|null} [changes]
 */

/** @typedef {{rows: number, plugins: string[], columns: Column[]|null}} Columns */
/** @typedef {{placement: string, cells: string, note?: string}} Column */
/** @typedef {{placement: string, scores: Object<string, number>}} Scores */

/**
 * @typedef {object} Condition
 * @property {string} type
 * @property {string} status
 * @property {string} reason
 * @property {string} message
 * @property {string} text
 * @property {boolean} [bad]
 * @property {string} [since]
 */

/**
 * @typedef {object} PlacementDetailsOnly
 * @property {string} spec
 * @property {Object<string, string>} [labels]
 * @property {number} generation
 * @property {Condition[]|null} conditions
 * @property {Group[]|null} groups
 * @property {ReasonCount[]} [counts]
 * @property {string} [note]
 * @property {Pending} [pending]
 * @property {Hold[]} [holds]
 * @property {ChangeRow[]|null} history
 * @property {HubEvent[]|null} events
 * @property {string} [eventsNote]
 * @property {Policy[]|null} policies
 * @property {Intent[]} [intents]
 * @property {Action[]} [actions]
 */
/** @typedef {PlacementRow & PlacementDetailsOnly} PlacementDetails */

/** @typedef {{name: string, index: string, pages: Page[]|null}} Group */
/** @typedef {{name: string, revision?: string, clusters: string[]|null}} Page */
/** @typedef {{text: string, count: number}} ReasonCount */
/** @typedef {{plugin: string, reason: string, until?: string}} Hold */
/** @typedef {{time: string, type: string, reason: string, note: string, count?: number}} HubEvent */
/** @typedef {{kind: string, name: string, spec: string, conditions?: Condition[]}} Policy */
/** @typedef {{plugin: string, reason: string, note: string}} Intent */
/** @typedef {{cluster: string, state: string}} MovingCluster */
/** @typedef {{reason: string, message: string, added: string[]|null, removed: string[]|null, moving?: MovingCluster[]}} Pending */

/**
 * @typedef {object} ClusterDetailsOnly
 * @property {Claim[]} [claims]
 * @property {Taint[]} [taintList]
 * @property {Resource[]} [resources]
 * @property {Condition[]} [conditions]
 * @property {string} [version]
 * @property {string[]|null} selectedBy
 * @property {ClusterMove[]} [openChanges]
 * @property {Action[]} [actions]
 * @property {EvictionInfo[]} [evictions]
 * @property {string} [note]
 */
/** @typedef {ClusterRow & ClusterDetailsOnly} ClusterDetails */

/** @typedef {{placement: string, added: boolean, state?: string}} ClusterMove */
/** @typedef {{placement: string, name: string, text: string}} EvictionInfo */
/** @typedef {{name: string, value: string}} Claim */
/** @typedef {{text: string, since?: string}} Taint */
/** @typedef {{name: string, capacity?: string, allocatable?: string, requested?: string}} Resource */

/**
 * @typedef {object} Cell
 * @property {string} placement
 * @property {string} cluster
 * @property {Verdict} [verdict]
 * @property {string} [note]
 * @property {boolean} published
 * @property {Object<string, number>} [weights]
 * @property {string} [pending]
 * @property {Spread[]} [spread]
 * @property {Action[]} [actions]
 */

/**
 * @typedef {object} Verdict
 * @property {string} cluster
 * @property {boolean} selected
 * @property {string} [plugin]
 * @property {string} [reason]
 * @property {number} [rank]
 * @property {number} [score]
 * @property {Object<string, number>} [scores]
 * @property {number} [distance]
 * @property {string} [selectedWith]
 */

/** @typedef {{constraint: string, mine?: string, domains: DomainCount[]|null}} Spread */
/** @typedef {{domain: string, selected: number, candidates: number}} DomainCount */
/** @typedef {{verb: string, command: string, change?: string, revision?: number, missing?: string}} Action */

/**
 * @typedef {object} ActRequest
 * @property {string} verb
 * @property {string} [placement]
 * @property {string} [cluster]
 * @property {string} [change]
 * @property {number} [revision]
 * @property {string} [comment]
 * @property {boolean} confirmed
 */
/** @typedef {{question?: string, diff?: Comparison, note?: string, spec?: string[], refused?: string, done?: string}} ActAnswer */

/**
 * @typedef {object} Edit
 * @property {string} kind taint, drain, label, lose or number
 * @property {string} [cluster]
 * @property {string} [key]
 * @property {string} [value]
 * @property {string} [effect]
 * @property {boolean} [remove]
 * @property {string} [placement]
 * @property {number|null} [number]
 */
/** @typedef {{id: string, done: boolean, decided: number, all: number, comparison?: Comparison, error?: string}} WhatIf */

/**
 * @typedef {object} Comparison
 * @property {{placements: number, changed: number, added: number, removed: number, pages: number}} summary
 * @property {Change[]|null} changes
 * @property {{placement: string, held: boolean}[]|null} outOfDate
 * @property {{placement: string, message: string, before: boolean}[]} [misconfigured]
 */
/**
 * @typedef {object} Change
 * @property {string} placement
 * @property {string} operation
 * @property {number} before
 * @property {number} after
 * @property {string[]|null} added
 * @property {string[]|null} removed
 * @property {{name: string, operation: string}[]|null} pages
 * @property {ConditionChange[]|null} conditions
 * @property {boolean} [needsApproval]
 */
/** @typedef {{type: string, status: string, reason: string, message: string}} PlainCondition */
/** @typedef {{type: string, before: PlainCondition|null, after: PlainCondition|null}} ConditionChange */

/** @typedef {{done: boolean, first?: string, last?: string, ticks: Tick[]|null, error?: string}} Timeline */
/** @typedef {{time: string, placement?: string, changes: number, added: number, removed: number, cause?: string}} Tick */

/** @typedef {{critical?: boolean, message: string}} Survival */
/** @typedef {{by: string, done: boolean, at?: string, error?: string, placements?: Object<string, Survival>}} Resilience */

export {};
