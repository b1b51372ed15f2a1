package recording

import (
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Format is the version of the format that this package writes. A reader skips types and fields
// that it does not know.
const Format = 1

// The types of entries, beside the kinds of inventory.Input.
const (
	// TypeHeader is the first entry of a segment.
	TypeHeader = "header"
	// TypeGap says that entries were lost before this segment.
	TypeGap = "gap"
	// TypeCheckpoint is followed by Checkpoint.Inputs inputs, which lead to the contents at this
	// time.
	TypeCheckpoint = "checkpoint"
	// TypeCounts has the counts of plugins that differ from those of the decision before.
	TypeCounts = "counts"
	// TypeDecision is one decision.
	TypeDecision = "decision"
	// TypeStatus is a new status of an object, whose labels, owners and spec are those of its last
	// entry.
	TypeStatus = "status"
	// TypeEnd is the last entry of a complete segment.
	TypeEnd = "end"
)

// Entry is one line of a segment. Each type uses the fields that it needs.
type Entry struct {
	Type string `json:"type"`
	// Number is that of the input, and of the last one in a checkpoint.
	Number int64 `json:"number,omitempty"`
	// Time is when the entry was recorded.
	Time time.Time `json:"time,omitzero"`

	// Kind, Namespace, Name and Object describe an object after a change. Kind, Namespace, Name and
	// UID name a deleted one. Reduced is true if Object has only what decisions about Placements of
	// other shares read.
	Kind      string          `json:"kind,omitempty"`
	Object    json.RawMessage `json:"object,omitempty"`
	Namespace string          `json:"namespace,omitempty"`
	Name      string          `json:"name,omitempty"`
	UID       types.UID       `json:"uid,omitempty"`
	Reduced   bool            `json:"reduced,omitempty"`
	// Version, Generation, Annotations and Status are those of an object with a new status.
	Version     string            `json:"version,omitempty"`
	Generation  int64             `json:"generation,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Status      json.RawMessage   `json:"status,omitempty"`
	TaintTimes  []time.Time       `json:"taintTimes,omitempty"`
	// Hash identifies the content of a page in Published.Pages of the same run.
	Hash uint64 `json:"hash,omitempty"`

	// Namespace and Name are also those of the Placement of these.
	Published   *Published `json:"published,omitempty"`
	Clusters    []string   `json:"clusters,omitempty"`
	KeepsLanded bool       `json:"keepsLanded,omitempty"`
	Unpermitted bool       `json:"unpermitted,omitempty"`

	Readiness *inventory.ReadinessInput `json:"readiness,omitempty"`

	Header     *Header                    `json:"header,omitempty"`
	Gap        *Gap                       `json:"gap,omitempty"`
	Checkpoint *Checkpoint                `json:"checkpoint,omitempty"`
	Counts     map[string]json.RawMessage `json:"counts,omitempty"`
	Decision   *Decision                  `json:"decision,omitempty"`

	// Size is that of the text that was read, in bytes.
	Size int `json:"-"`
}

// Header describes the program that wrote a segment.
type Header struct {
	Format int `json:"format"`
	// Run identifies one start of the program. Segment counts its segments from 1, Part the files
	// of the segment from 0. Only the first one has a checkpoint.
	Run     string `json:"run"`
	Segment int    `json:"segment"`
	Part    int    `json:"part,omitempty"`
	// NoDecisions are the shares whose decisions were removed from this file, NoInputs those whose
	// inputs were, too. ShareOf describes shares.
	NoDecisions []string `json:"noDecisions,omitempty"`
	NoInputs    []string `json:"noInputs,omitempty"`
	Version     string   `json:"version"`
	Commit      string   `json:"commit,omitempty"`
	// Config is the scheduler's configuration file; empty for the default profile.
	Config json.RawMessage `json:"config,omitempty"`
}

// Gap is a stretch of entries that were lost.
type Gap struct {
	// Since and Until bound it. Lost is the number of entries.
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
	Lost  int64     `json:"lost"`
	// Why is the error of the disk; empty if it was too slow.
	Why string `json:"why,omitempty"`
}

// Checkpoint is followed by a number of inputs.
type Checkpoint struct {
	Inputs int `json:"inputs"`
}

// Published is a change of the decision that Berth published last for a Placement. Names and scores
// are relative to the decision before, if Changes is true.
type Published struct {
	Changes  bool             `json:"changes,omitempty"`
	Added    []string         `json:"added,omitempty"`
	Removed  []string         `json:"removed,omitempty"`
	Scores   map[string]int64 `json:"scores,omitempty"`
	NoScores []string         `json:"noScores,omitempty"`
	// Pages are the contents of the pages, by name: the hashes of their entries.
	Pages      map[string]uint64 `json:"pages,omitempty"`
	Generation int64             `json:"generation,omitempty"`
	Profile    string            `json:"profile,omitempty"`
	ScoresAt   time.Time         `json:"scoresAt,omitzero"`
	Revision   int64             `json:"revision,omitempty"`
	RecordDue  bool              `json:"recordDue,omitempty"`
	Queue      string            `json:"queue,omitempty"`
	Extra      int               `json:"extra,omitempty"`
	Restored   bool              `json:"restored,omitempty"`
	SinceStart bool              `json:"sinceStart,omitempty"`
}

// Decision is one decision of the controller: what it depended on beside the inputs, and the
// result.
type Decision struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid,omitempty"`
	// Input is the number of the last input in the Snapshot, Now its time.
	Input int64     `json:"input"`
	Now   time.Time `json:"now"`
	// Queue is what the Placement's queue allowed. Timers and Answers are the memory of earlier
	// attempts.
	Queue   *framework.QueueAdmission `json:"queue,omitempty"`
	Timers  framework.Timers          `json:"timers,omitzero"`
	Answers *framework.Answers        `json:"answers,omitempty"`

	Cause   string `json:"cause,omitempty"`
	Profile string `json:"profile,omitempty"`
	Outcome string `json:"outcome"`
	// Failure is why nothing was selected; empty if something was.
	Failure string `json:"failure,omitempty"`
	// EndedEarly is true if the decision ended because of its time limit. That depends on the speed
	// of the machine, so replay does not compare it.
	EndedEarly bool `json:"endedEarly,omitempty"`
	// Target is the digest of the selected clusters, Step that of the clusters that were to be
	// published now. Each is empty if there was none. Selected is the number of selected clusters.
	Target   string `json:"target,omitempty"`
	Step     string `json:"step,omitempty"`
	Selected int    `json:"selected,omitempty"`
	// Revision, Added and Removed are those of the change.
	Revision int64    `json:"revision,omitempty"`
	Added    []string `json:"added,omitempty"`
	Removed  []string `json:"removed,omitempty"`
}

// Key is the Placement's namespace and name.
func (d *Decision) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: d.Namespace, Name: d.Name}
}
