package filters_test

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/filters"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

type scenario struct {
	ID    string `json:"id"`
	Steps []struct {
		Now     time.Time `json:"now"`
		Objects struct {
			Items []json.RawMessage `json:"items"`
		} `json:"objects"`
		Expected []expected `json:"expected"`
	} `json:"steps"`
}

type expected struct {
	Placement      string `json:"placement"`
	ScheduleStatus struct {
		Code, Plugin, Message string
	} `json:"scheduleStatus"`
	AvailableClusters []string `json:"availableClusters"`
	FilterResults     []struct {
		Name     string   `json:"name"`
		Clusters []string `json:"clusters"`
	} `json:"filterResults"`
}

// TestPredicateAgainstCorpus holds the plugin to what the reference let through.
func TestPredicateAgainstCorpus(t *testing.T) {
	files, err := filepath.Glob("../../test/golden/*.json.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	compared, refused := 0, 0
	for _, file := range files {
		for _, s := range scenarios(t, file) {
			for i, step := range s.Steps {
				inv := inventory.New(inventory.Options{})
				for _, raw := range step.Objects.Items {
					if object := decode(t, raw); object != nil {
						inv.Update(object)
					}
				}
				for _, want := range step.Expected {
					namespace, name, _ := strings.Cut(want.Placement, "/")
					snapshot := inv.Snapshot(inventory.Key{Namespace: namespace, Name: name}, step.Now, nil)
					got, status := admitted(t, snapshot, want.AvailableClusters)
					if !want.isRefused(status) {
						t.Errorf("%s step %d %s: got %v, want %q", s.ID, i, want.Placement, status, want.ScheduleStatus.Message)
					}
					if len(want.AvailableClusters) == 0 {
						continue
					}
					if len(want.FilterResults) == 0 || neverMatches.MatchString(status.Reason()) {
						refused++
						continue
					}
					compared++
					if diff := cmp.Diff(want.FilterResults[0].Clusters, got, cmpopts.EquateEmpty()); diff != "" {
						t.Errorf("%s step %d %s: %v (-want +got)\n%s", s.ID, i, want.Placement, status, diff)
					}
				}
			}
		}
	}
	t.Logf("%d answers compared, %d without", compared, refused)
	if compared < 500 {
		t.Error("these are too few")
	}
}

// isRefused is false when the plugin should have refused the Placement, with the path of the
// field, and has not.
func (e *expected) isRefused(status *framework.Status) bool {
	if e.ScheduleStatus.Plugin != filters.PredicateName || e.ScheduleStatus.Code != "Misconfigured" {
		return true
	}
	return status.Code() == framework.UnschedulableAndUnresolvable && strings.HasPrefix(status.Reason(), "spec.predicates[")
}

// neverMatches are the errors of expressions that the reference compiles, although they match no
// cluster.
var neverMatches = regexp.MustCompile(`has no field|the result must be a boolean|is compared with|a boolean is required`)

// admitted are those of the clusters that the plugin lets through, by name.
func admitted(t *testing.T, snapshot *framework.Snapshot, available []string) ([]string, *framework.Status) {
	t.Helper()
	plugin, err := filters.NewPredicate(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	result, status := plugin.(framework.PreFilterPlugin).PreFilter(t.Context(), framework.NewCycleState(snapshot), snapshot.Subject.Placement)
	if result == nil {
		if status.Code() == framework.Skip {
			return available, status
		}
		return nil, status
	}
	var names []string
	for i := range snapshot.Clusters.Len() {
		if c := snapshot.Clusters.Get(i); c != nil && result.Clusters.Has(i) && slices.Contains(available, c.Name) {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names, status
}

func scenarios(t *testing.T, file string) []scenario {
	t.Helper()
	zipped, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer zipped.Close()
	text, err := gzip.NewReader(zipped)
	if err != nil {
		t.Fatal(err)
	}
	var content struct {
		Scenarios []scenario `json:"scenarios"`
	}
	if err := json.NewDecoder(text).Decode(&content); err != nil {
		t.Fatal(err)
	}
	return content.Scenarios
}

func decode(t *testing.T, raw json.RawMessage) client.Object {
	t.Helper()
	var kind struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(raw, &kind); err != nil {
		t.Fatal(err)
	}
	objects := map[string]client.Object{
		"ManagedCluster": &v1alpha1.ManagedCluster{}, "ManagedClusterSet": &v1alpha1.ManagedClusterSet{},
		"ManagedClusterSetBinding": &v1alpha1.ManagedClusterSetBinding{}, "AddOnPlacementScore": &v1alpha1.AddOnPlacementScore{},
		"Placement": &v1alpha1.Placement{}, "PlacementDecision": &v1alpha1.PlacementDecision{},
	}
	object := objects[kind.Kind]
	if object == nil {
		return nil
	}
	if err := json.Unmarshal(raw, object); err != nil {
		t.Fatal(err)
	}
	return object
}
