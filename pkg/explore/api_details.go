package explore

import (
	"time"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
)

// Condition is a condition, in words.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Text is the condition in words, such as "Configuration: ok". Bad is true if it is a problem.
	Text  string    `json:"text"`
	Bad   bool      `json:"bad,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// ObjectYAML is GET api/yaml?world=W&kind=KIND&name=NAME, or NS/NAME: one object of the hub.
type ObjectYAML struct {
	Text string `json:"text"`
}

// PlacementDetails is GET api/placement?world=W&placement=NS/NAME.
type PlacementDetails struct {
	PlacementRow
	Labels     map[string]string `json:"labels,omitempty"`
	Generation int64             `json:"generation"`
	Conditions []Condition       `json:"conditions"`
	// Groups are the published clusters by decision group, each with its pages.
	Groups []Group `json:"groups"`
	// Counts are the numbers of candidates by reason, as berth explain shows them. Note says why
	// there are none.
	Counts []ReasonCount `json:"counts,omitempty"`
	Note   string        `json:"note,omitempty"`
	// Pending is the change that is not published, or not in full.
	Pending *simulator.Pending `json:"pending,omitempty"`
	// Holds are the gates that the open change waits for.
	Holds []Hold `json:"holds,omitempty"`
	// History are the records of the Placement, newest first.
	History []ChangeRow `json:"history"`
	// Events are the newest events regarding the Placement; EventsNote says why they are not known.
	Events     []Event  `json:"events"`
	EventsNote string   `json:"eventsNote,omitempty"`
	Policies   []Policy `json:"policies"`
	// Intents are what plugins report about a selection that is not as asked for.
	Intents []framework.Intent `json:"intents,omitempty"`
	// Actions are what the viewer can do, or may not.
	Actions []Action `json:"actions,omitempty"`
}

// Group is one decision group.
type Group struct {
	Name  string `json:"name"`
	Index string `json:"index"`
	Pages []Page `json:"pages"`
}

// Page is one PlacementDecision.
type Page struct {
	Name     string   `json:"name"`
	Revision string   `json:"revision,omitempty"`
	Clusters []string `json:"clusters"`
}

// ReasonCount is a number of candidates with the same result.
type ReasonCount struct {
	Text  string `json:"text"`
	Count int    `json:"count"`
}

// Hold is a gate that a change waits for.
type Hold struct {
	Plugin string    `json:"plugin"`
	Reason string    `json:"reason"`
	Until  time.Time `json:"until,omitzero"`
}

// Event is one event regarding a Placement.
type Event struct {
	Time   time.Time `json:"time"`
	Type   string    `json:"type"`
	Reason string    `json:"reason"`
	Note   string    `json:"note"`
	Count  int32     `json:"count,omitempty"`
}

// Policy is a DisruptionPolicy or SelectionPolicy for a Placement.
type Policy struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Spec is the spec as YAML.
	Spec       string      `json:"spec"`
	Conditions []Condition `json:"conditions,omitempty"`
}

// ClusterDetails is GET api/cluster?world=W&cluster=NAME.
type ClusterDetails struct {
	ClusterRow
	Claims     []Claim     `json:"claims,omitempty"`
	TaintList  []Taint     `json:"taintList,omitempty"`
	Resources  []Resource  `json:"resources,omitempty"`
	Conditions []Condition `json:"conditions,omitempty"`
	// SelectedBy are the Placements that have the cluster, OpenChanges those whose open change adds
	// or removes it.
	SelectedBy  []string       `json:"selectedBy"`
	OpenChanges []ClusterMove  `json:"openChanges,omitempty"`
	Actions     []Action       `json:"actions,omitempty"`
	Evictions   []EvictionInfo `json:"evictions,omitempty"`
	// Note says what is not known, because the viewer may not read the cluster.
	Note string `json:"note,omitempty"`
}

// ClusterMove is a cluster's part in an open change.
type ClusterMove struct {
	Placement string `json:"placement"`
	Added     bool   `json:"added"`
	State     string `json:"state,omitempty"`
}

// EvictionInfo is an eviction of a cluster.
type EvictionInfo struct {
	Placement string `json:"placement"`
	Name      string `json:"name"`
	Text      string `json:"text"`
}

// Claim is a claim of a cluster.
type Claim struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Taint is a taint of a cluster.
type Taint struct {
	Text  string    `json:"text"`
	Since time.Time `json:"since,omitzero"`
}

// Resource is a resource of a cluster. Requested is what the SelectionPolicies of the Placements
// that have the cluster request of it.
type Resource struct {
	Name        string `json:"name"`
	Capacity    string `json:"capacity,omitempty"`
	Allocatable string `json:"allocatable,omitempty"`
	Requested   string `json:"requested,omitempty"`
}

// Cell is why one cluster was, or was not, selected for one Placement: GET
// api/cell?world=W&placement=NS/NAME&cluster=NAME.
type Cell struct {
	Placement string `json:"placement"`
	Cluster   string `json:"cluster"`
	// Verdict is missing if there was no decision; then Note is the reason.
	Verdict *framework.ClusterVerdict `json:"verdict,omitempty"`
	Note    string                    `json:"note,omitempty"`
	// Published is true if the published decision has the cluster.
	Published bool `json:"published"`
	// Weights are the weights of the prioritizers in Verdict.
	Weights map[string]int64 `json:"weights,omitempty"`
	// Pending is why a change of this cell is not published yet.
	Pending string `json:"pending,omitempty"`
	// Spread are the numbers of selected clusters by domain, for each spread constraint.
	Spread  []Spread `json:"spread,omitempty"`
	Actions []Action `json:"actions,omitempty"`
}

// Spread is the result of one spread constraint. Mine is the domain of the cell's cluster.
type Spread struct {
	Constraint string        `json:"constraint"`
	Mine       string        `json:"mine,omitempty"`
	Domains    []DomainCount `json:"domains"`
}

// DomainCount is the number of selected clusters, and of candidates, in a domain.
type DomainCount struct {
	Domain     string `json:"domain"`
	Selected   int    `json:"selected"`
	Candidates int    `json:"candidates"`
}
