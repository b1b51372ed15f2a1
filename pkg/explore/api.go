package explore

import (
	"time"

	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/simulator"
)

// Session is what the page needs to know before anything else: GET api/session.
type Session struct {
	// User is the name of the viewer, as the hub knows it; empty if the hub does not say.
	User string `json:"user,omitempty"`
	// Hub is the address of the hub; empty with a recording only. Context is the kubeconfig's.
	Hub     string `json:"hub,omitempty"`
	Context string `json:"context,omitempty"`
	// CSRF must be sent as header X-Berth-CSRF with each POST.
	CSRF string `json:"csrf"`
	// Live is false if there is no hub, only a recording.
	Live bool `json:"live"`
	// Recording is true if GET api/time answers.
	Recording bool `json:"recording"`
	// Resilience is the key of --domains; empty if none was given.
	Resilience string `json:"resilience,omitempty"`
	// NoStream says why api/events refuses one more page of the viewer now; empty if it does not.
	NoStream string `json:"noStream,omitempty"`
}

// Fleet is one state of the hub, without the cells of the matrix: GET api/fleet?world=W.
type Fleet struct {
	// Version counts the changes of this Fleet. Pass it to api/events.
	Version int64 `json:"version"`
	// At is the time of the state.
	At  time.Time `json:"at"`
	Hub HubState  `json:"hub"`
	// Namespace is the only one that the viewer sees, because the viewer may not list Placements in
	// all of them; empty for all.
	Namespace string `json:"namespace,omitempty"`
	// Missing are the permissions that the viewer lacks, in words, such as "list managedclusters".
	Missing []string `json:"missing,omitempty"`
	// SetsNotKnown is true if the viewer may not list cluster sets or clusters.
	SetsNotKnown bool `json:"setsNotKnown,omitempty"`
	// Rows counts the changes of the names of clusters. Cells with the same number are in the order
	// of Clusters.
	Rows       int64          `json:"rows"`
	Clusters   []ClusterRow   `json:"clusters"`
	Placements []PlacementRow `json:"placements"`
	// Changes are the newest changes of all Placements, newest first, at most 50.
	Changes []ChangeRow `json:"changes"`
}

// HubState is the connection to the hub.
type HubState struct {
	// State is Connecting, Connected, or Lost. It is empty for a state in the past or a what-if.
	State string `json:"state,omitempty"`
	// Synced is true if all objects have been listed. Until then there are none.
	Synced bool `json:"synced,omitempty"`
	// Since is the time since the hub has this state.
	Since time.Time `json:"since,omitzero"`
	// Problem is why the connection is lost, or why a kind cannot be watched.
	Problem string `json:"problem,omitempty"`
}

// The states of the connection to the hub.
const (
	Connecting = "Connecting"
	Connected  = "Connected"
	Lost       = "Lost"
)

// ClusterRow is one cluster.
type ClusterRow struct {
	Name string `json:"name"`
	// Sets are the cluster sets that have the cluster: first the exclusive one, then those with a
	// selector, then default and global.
	Sets   []string          `json:"sets,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// Available is the status of the condition ManagedClusterConditionAvailable: True, False or
	// Unknown; empty if it is not set.
	Available string `json:"available,omitempty"`
	Drained   bool   `json:"drained,omitempty"`
	Taints    int    `json:"taints,omitempty"`
	// Decisions is the number of Placements whose published decision has the cluster.
	Decisions int    `json:"decisions,omitempty"`
	Version   string `json:"version,omitempty"`
	// Usage is CPU and memory, without the capacity.
	Usage []Resource `json:"usage,omitempty"`
}

// PlacementRow is one Placement.
type PlacementRow struct {
	Placement string `json:"placement"`
	// Wanted is numberOfClusters; null for all clusters that qualify.
	Wanted *int32 `json:"wanted"`
	// Selected is the number of clusters in the published decision; that in the status of the
	// Placement if the viewer may not list PlacementDecisions.
	Selected int `json:"selected"`
	// States are the states of the Placement, of changes.StateTable, the most urgent first.
	States []changes.StateName `json:"states"`
	// Message says why, in one sentence, for the most urgent state.
	Message string `json:"message,omitempty"`
	// Sets are the cluster sets that the Placement may select from. They are not known if the
	// viewer may not list the bindings of its namespace.
	Sets []string `json:"sets,omitempty"`
	// Since is when the most urgent state began, if it is known.
	Since time.Time `json:"since,omitzero"`
	// Change is the open change.
	Change *ChangeRow `json:"change,omitempty"`
}

// ChangeRow is one PlacementChange.
type ChangeRow struct {
	Placement string    `json:"placement"`
	Name      string    `json:"name"`
	Revision  int64     `json:"revision"`
	Time      time.Time `json:"time"`
	Phase     string    `json:"phase"`
	Added     int32     `json:"added"`
	Removed   int32     `json:"removed"`
	// Cause is what led to the change, Message what it waits for or how it ended.
	Cause   string `json:"cause,omitempty"`
	Message string `json:"message,omitempty"`
	// RemainingAdded and RemainingRemoved are left of a change in steps.
	RemainingAdded   *int32 `json:"remainingAdded,omitempty"`
	RemainingRemoved *int32 `json:"remainingRemoved,omitempty"`
}

// Update is one server-sent event of GET api/events?since=VERSION: what changed in the Fleet since
// the event before. The event "reload" has no data: the client must read api/fleet again.
type Update struct {
	Version int64     `json:"version"`
	At      time.Time `json:"at"`
	Hub     HubState  `json:"hub"`
	// Rows is as in Fleet. If it changed, Clusters has new ones or GoneClusters is not empty, and
	// all cells must be read again.
	Rows           int64          `json:"rows"`
	Clusters       []ClusterRow   `json:"clusters,omitempty"`
	GoneClusters   []string       `json:"goneClusters,omitempty"`
	Placements     []PlacementRow `json:"placements,omitempty"`
	GonePlacements []string       `json:"gonePlacements,omitempty"`
	// Columns are Placements whose cells must be read again; AllColumns means all.
	Columns    []string `json:"columns,omitempty"`
	AllColumns bool     `json:"allColumns,omitempty"`
	// Changes replaces Fleet.Changes, unless it is null.
	Changes []ChangeRow `json:"changes,omitempty"`
}

// Columns are cells of the matrix: GET api/columns?world=W&placement=NS/NAME&placement=…, at most
// 100 Placements.
type Columns struct {
	Rows int64 `json:"rows"`
	// Plugins are those that excluded a cluster: the cell 'A' means the first one.
	Plugins []string `json:"plugins"`
	Columns []Column `json:"columns"`
}

// Column are the cells of one Placement.
type Column struct {
	Placement string `json:"placement"`
	// Cells has one character for each cluster, in the order of the clusters' names: see the
	// constants below.
	Cells string `json:"cells"`
	// Note says why the cells are not known in full: the Placement is not decided.
	Note string `json:"note,omitempty"`
}

// Values of a cell. From firstPlugin on, the plugin of that number excluded the cluster.
const (
	noCandidate = '0'
	selected    = '1'
	feasible    = '2'
	// addition and removal: an open change, or the what-if, would add or remove the cluster.
	addition = '3'
	removal  = '4'
	// excluded is a candidate that no known filter excluded; unknown may be a candidate.
	excluded    = '5'
	unknown     = '6'
	firstPlugin = 'A'
)

// Scores has the result of scoring for one Placement: GET api/scores?world=W&placement=NS/NAME.
type Scores struct {
	Placement string           `json:"placement"`
	Scores    map[string]int64 `json:"scores"`
}

// Action is something that the viewer could do: approve, reject, evict, drain, undrain, suspend,
// resume, undo, pin or unpin.
type Action struct {
	Verb string `json:"verb"`
	// Change and Revision are those to send in ActRequest.
	Change   string `json:"change,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	// Command is the same on the command line.
	Command string `json:"command"`
	// Missing is the permission that the viewer lacks, such as "create placementevictions in
	// namespace shop"; empty if the viewer may act.
	Missing string `json:"missing,omitempty"`
}

// ActRequest is the body of POST api/act.
type ActRequest struct {
	Verb string `json:"verb"`
	// Placement is NS/NAME; Cluster is a name. evict has both, drain and undrain a cluster only.
	Placement string `json:"placement,omitempty"`
	Cluster   string `json:"cluster,omitempty"`
	// Change is the name of the PlacementChange to approve or reject, as the viewer saw it.
	Change string `json:"change,omitempty"`
	// Revision is that to which undo returns or pin pins, 0 for the default of the command.
	Revision int64 `json:"revision,omitempty"`
	// Comment is why, at most 1,024 characters.
	Comment string `json:"comment,omitempty"`
	// Confirmed is false to ask what would change, true to do it.
	Confirmed bool `json:"confirmed"`
}

// ActAnswer answers POST api/act.
type ActAnswer struct {
	// Question is what to confirm. Diff is what would change, Note why that is not known.
	Question string                `json:"question,omitempty"`
	Diff     *simulator.Comparison `json:"diff,omitempty"`
	Note     string                `json:"note,omitempty"`
	// Spec are the changes of the Placement's spec. Refused is why the action cannot be done.
	Spec    []string `json:"spec,omitempty"`
	Refused string   `json:"refused,omitempty"`
	// Done says what was done.
	Done string `json:"done,omitempty"`
}

// WhatIfRequest is the body of POST api/what-if: what to change. Nothing is written to the hub.
type WhatIfRequest struct {
	// Edits are applied in their order.
	Edits []simulator.Edit `json:"edits"`
}

// WhatIf is the result of a what-if: the answer to POST api/what-if, and to GET
// api/what-if?id=ID until Done.
type WhatIf struct {
	// ID is the world of the state after the edits, once Done: "what-if-" and a random text.
	ID   string `json:"id"`
	Done bool   `json:"done"`
	// Decided is the number of Placements decided so far, All of those that the edits affect.
	Decided int `json:"decided"`
	All     int `json:"all"`
	// HasWorld is true if the state after the edits can be shown.
	HasWorld bool `json:"hasWorld,omitempty"`
	// Comparison is the result.
	Comparison *simulator.Comparison `json:"comparison,omitempty"`
	Error      string                `json:"error,omitempty"`
}

// Timeline says what a recording has: GET api/time, until Done.
type Timeline struct {
	Done bool `json:"done"`
	// First and Last are the times of the first and last entries. A world "at-2026-11-20T08:00:00Z"
	// is the state at a time between them.
	First time.Time `json:"first,omitzero"`
	Last  time.Time `json:"last,omitzero"`
	// Ticks are the published changes, oldest first. If there are too many, those within the same
	// part of the time are joined.
	Ticks []Tick `json:"ticks"`
	Error string `json:"error,omitempty"`
}

// Tick is one change in a recording, or several ones close to each other.
type Tick struct {
	Time time.Time `json:"time"`
	// Placement is that of the change; empty for several ones. Changes is their number.
	Placement string `json:"placement,omitempty"`
	Changes   int    `json:"changes"`
	Added     int    `json:"added"`
	Removed   int    `json:"removed"`
	Cause     string `json:"cause,omitempty"`
}
