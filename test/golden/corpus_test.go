package golden

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// scenario is one recorded history.
type scenario struct {
	ID    string   `json:"id"`
	Tags  []string `json:"tags"`
	Steps []step   `json:"steps"`
}

type step struct {
	Now     time.Time `json:"now"`
	Objects struct {
		Items []json.RawMessage `json:"items"`
	} `json:"objects"`
	Expected []expected `json:"expected"`
}

// celMayBeBad is true if some CEL expression does not compile. The reference does not report that
// without candidates.
func (s *scenario) celMayBeBad() bool {
	return slices.Contains(s.Tags, "cel-invalid") || strings.Contains(s.ID, "cel-bad")
}

// costly is true if some CEL expression exceeds its cost limit.
func (s *scenario) costly() bool { return slices.Contains(s.Tags, "cel-cost-exceeded") }

// expected is the recorded result of one attempt for one Placement.
type expected struct {
	answer
	SyncError      bool `json:"syncError"`
	ScheduleStatus *struct {
		Code   string `json:"code"`
		Plugin string `json:"plugin"`
	} `json:"scheduleStatus"`
}

func (e *expected) code() string {
	if e.ScheduleStatus == nil {
		return ""
	}
	return e.ScheduleStatus.Code
}

// answer has the fields of a result that Berth and the reference have in common, in the form of
// `berth simulate -o json`.
type answer struct {
	Placement                string                         `json:"placement"`
	Skipped                  string                         `json:"skipped"`
	AvailableClusters        []string                       `json:"availableClusters"`
	FilterResults            []filterResult                 `json:"filterResults"`
	PrioritizerScores        map[string]part                `json:"prioritizerScores"`
	Scores                   map[string]int64               `json:"scores"`
	Ranking                  []string                       `json:"ranking"`
	Decisions                []page                         `json:"decisions"`
	GroupStatus              []v1alpha1.DecisionGroupStatus `json:"groupStatus"`
	NumberOfSelectedClusters int                            `json:"numberOfSelectedClusters"`
	Conditions               []condition                    `json:"conditions"`
	Events                   []event                        `json:"events"`
	RequeueAfterSeconds      *float64                       `json:"requeueAfterSeconds"`
}

type filterResult struct {
	Name     string   `json:"name"`
	Clusters []string `json:"clusters"`
}

// part is the score of one prioritizer.
type part struct {
	Weight int64            `json:"weight"`
	Scores map[string]int64 `json:"scores"`
}

type page struct {
	Name     string            `json:"name"`
	Labels   map[string]string `json:"labels"`
	Clusters []string          `json:"clusters"`
}

func (p page) group() string { return p.Labels[v1alpha1.DecisionGroupNameLabel] }

// condition is a recorded condition. If the reference's message varies between runs, it has all
// variants, or a mark that only the presence counts.
type condition struct {
	Type         string `json:"type"`
	Status       string `json:"status"`
	Reason       string `json:"reason"`
	Message      string `json:"message"`
	MessageLoose bool   `json:"messageLoose"`
}

type event struct {
	Type      string   `json:"type"`
	Reason    string   `json:"reason"`
	Action    string   `json:"action"`
	Related   string   `json:"related"`
	Note      string   `json:"note"`
	NoteAnyOf []string `json:"noteAnyOf"`
}

func (a *answer) condition(kind string) condition {
	for _, c := range a.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return condition{}
}

// clusters are the decided clusters in page order.
func (a *answer) clusters() []string {
	var all []string
	for _, d := range a.Decisions {
		all = append(all, d.Clusters...)
	}
	return all
}

// corpusFiles are the recordings beside this file.
func corpusFiles() ([]string, error) {
	files, err := filepath.Glob("*.json.gz")
	if err == nil && len(files) == 0 {
		err = errors.New("no recordings")
	}
	return files, err
}

func readScenarios(file string) ([]scenario, error) {
	zipped, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = zipped.Close() }() // Only read from.
	text, err := gzip.NewReader(zipped)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var content struct {
		Scenarios []scenario `json:"scenarios"`
	}
	if err := json.NewDecoder(text).Decode(&content); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return content.Scenarios, nil
}

// world is one snapshot, decoded without the simulator.
type world struct {
	now        time.Time
	placements map[types.NamespacedName]*v1alpha1.Placement
	pages      []*v1alpha1.PlacementDecision
	clusters   map[string]*v1alpha1.ManagedCluster
	sets       map[string]*v1alpha1.ManagedClusterSet
	bindings   []*v1alpha1.ManagedClusterSetBinding
	scores     map[types.NamespacedName]*v1alpha1.AddOnPlacementScore
}

func newWorld(s *step) (*world, error) {
	w := &world{
		now:        s.Now,
		placements: map[types.NamespacedName]*v1alpha1.Placement{},
		clusters:   map[string]*v1alpha1.ManagedCluster{},
		sets:       map[string]*v1alpha1.ManagedClusterSet{},
		scores:     map[types.NamespacedName]*v1alpha1.AddOnPlacementScore{},
	}
	for _, text := range s.Objects.Items {
		var head struct {
			Kind string `json:"kind"`
		}
		if err := json.Unmarshal(text, &head); err != nil {
			return nil, err
		}
		if err := w.add(head.Kind, text); err != nil {
			return nil, fmt.Errorf("reading a %s: %w", head.Kind, err)
		}
	}
	return w, nil
}

func (w *world) add(kind string, text json.RawMessage) error {
	switch kind {
	case "Placement":
		o, err := read[v1alpha1.Placement](text)
		w.placements[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = o
		return err
	case "PlacementDecision":
		o, err := read[v1alpha1.PlacementDecision](text)
		w.pages = append(w.pages, o)
		return err
	case "ManagedCluster":
		o, err := read[v1alpha1.ManagedCluster](text)
		w.clusters[o.Name] = o
		return err
	case "ManagedClusterSet":
		o, err := read[v1alpha1.ManagedClusterSet](text)
		w.sets[o.Name] = o
		return err
	case "ManagedClusterSetBinding":
		o, err := read[v1alpha1.ManagedClusterSetBinding](text)
		w.bindings = append(w.bindings, o)
		return err
	case "AddOnPlacementScore":
		o, err := read[v1alpha1.AddOnPlacementScore](text)
		w.scores[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = o
		return err
	}
	return fmt.Errorf("kind %s is not in the recordings", kind)
}

func read[T any](text json.RawMessage) (*T, error) {
	o := new(T)
	return o, json.Unmarshal(text, o)
}

// placementOf splits the "namespace/name" of a result.
func placementOf(text string) types.NamespacedName {
	namespace, name, _ := strings.Cut(text, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}
