package caches

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

const root = "../.."

// metadataLimit is the largest sum of annotations that the API server accepts.
const metadataLimit = 256 << 10

// roles are the files with the permissions of each process.
var roles = map[Process][]string{
	Controller: {"config/rbac/role.yaml"},
	Generator:  {"config/generator/role.yaml", "config/generator-argocd/role.yaml"},
	Reporter:   {"config/reporter/role.yaml"},
}

// TestEveryCachedKindIsInTheTable: an informer needs the permission to watch.
func TestEveryCachedKindIsInTheTable(t *testing.T) {
	for process, files := range roles {
		for _, file := range files {
			text, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				t.Fatal(err)
			}
			for document := range strings.SplitSeq(string(text), "\n---\n") {
				var role rbacv1.ClusterRole
				if err := yaml.Unmarshal([]byte(document), &role); err != nil {
					t.Fatal(err)
				}
				for _, rule := range role.Rules {
					for _, resource := range rule.Resources {
						if slices.Contains(rule.Verbs, "watch") && !hasRow(process, resource) {
							t.Errorf("%s may watch %s, which is not in the table", process, resource)
						}
					}
				}
			}
		}
	}
	for _, kind := range kinds.All() {
		if !hasRow(Explorer, kind.Plural) || !hasRow(Controller, kind.Plural) {
			t.Errorf("%s are not in the table of the processes that decide", kind.Plural)
		}
	}
}

func hasRow(process Process, plural string) bool {
	return slices.ContainsFunc(Table(), func(r Row) bool { return r.Plural == plural && slices.Contains(r.Processes, process) })
}

// TestNoOtherCaches: only files that use the table, or that read objects in a way of their own,
// have informers or reflectors.
func TestNoOtherCaches(t *testing.T) {
	marks := []string{"cache.New(", "NewReflector", "NewSharedInformerFactory", "NewSharedIndexInformer", "view.New(", "cache.Options{", "NewFilteredDynamic", "NewDynamicShared"}
	own := []string{
		"controllers/housekeeping/profile_views.go", "controllers/readiness.go", // rows without trim
		"pkg/client/follower.go", "pkg/client/view/view.go", // the library for the programs of others
	}
	for _, folder := range []string{"controllers", "cmd", "pkg"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			name, _ := filepath.Rel(root, path)
			for _, mark := range marks {
				if strings.Contains(string(text), mark) && !strings.Contains(string(text), "caches.") && !slices.Contains(own, name) && !strings.HasPrefix(name, "pkg/caches/") {
					t.Errorf("%s has %q and does not use the table of caches", name, mark)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// large returns text for a value, which no other value shares.
func large(bytes int) string { return strings.Repeat("x", bytes) }

// fillMeta fills the metadata to what an API server stores.
func fillMeta(object metav1.Object) {
	object.SetNamespace(large(63))
	object.SetName(large(253))
	object.SetUID("b5a1e9e6-8a5e-4c1a-9d3f-000000000000")
	object.SetResourceVersion("123456789012")
	object.SetGeneration(1 << 40)
	object.SetCreationTimestamp(metav1.NewTime(fixture.Now))
	object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(`{"f:` + large(100<<10) + `":{}}`)}})
	object.SetAnnotations(map[string]string{"example.com/a": large(metadataLimit / 2), corev1.LastAppliedConfigAnnotation: large(metadataLimit / 2)})
	labels := map[string]string{}
	for i := range 1000 {
		labels[fmt.Sprintf("example.com/%d", i)] = large(63)
	}
	object.SetLabels(labels)
	object.SetFinalizers([]string{"example.com/" + large(63)})
	object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: large(253), UID: "u"}})
}

// fullScore is an AddOnPlacementScore with long names, as other CRDs than Berth's allow.
func fullScore() *v1alpha1.AddOnPlacementScore {
	s := &v1alpha1.AddOnPlacementScore{}
	for i := range 4000 {
		s.Status.Scores = append(s.Status.Scores, v1alpha1.AddOnPlacementScoreItem{Name: fmt.Sprintf("%04d%s", i, large(61)), Value: -100})
	}
	s.Status.ValidUntil = new(metav1.NewTime(fixture.Now))
	for i := range 100 {
		s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: fmt.Sprint("T", i), Message: large(1 << 10)})
	}
	return s
}

func fullExplanation() *berthv1alpha1.PlacementExplanation {
	e := &berthv1alpha1.PlacementExplanation{}
	e.Spec.Placement = large(253)
	e.Status.Conditions = []metav1.Condition{
		{Type: berthv1alpha1.ExplanationExplained, Status: "False", Reason: large(100), Message: large(1 << 10)},
		{Type: berthv1alpha1.ExplanationThrottled, Status: "True", Reason: large(100), Message: large(1 << 10)},
	}
	e.Status.Candidates = 3
	return e
}

func metadataOf(kind string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind}}
}

// full returns an object of a row as a hostile writer makes it; nil for rows without trim.
func full(t *testing.T, r Row) metav1.Object {
	t.Helper()
	if r.Kind == "Placement" && r.Processes[0] == Generator {
		return metadataOf(r.Kind)
	}
	for _, kind := range kinds.All() {
		if kind.Name == r.Kind && r.Kind != "AddOnPlacementScore" {
			return kind.New()
		}
	}
	switch r.Kind {
	case "AddOnPlacementScore":
		return fullScore()
	case "PlacementExplanation":
		return fullExplanation()
	case "Lease":
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: new(large(1 << 20)), RenewTime: new(metav1.NewMicroTime(fixture.Now))}}
	case "Namespace":
		return metadataOf(r.Kind)
	case "ConfigMap":
		return &corev1.ConfigMap{Data: map[string]string{"queues.yaml": large(1000 << 10)}}
	case "Secret":
		return &corev1.Secret{Data: map[string][]byte{"name": []byte("n"), "server": []byte("https://s"), "kubeconfig": []byte(large(500 << 10))}}
	}
	if r.trim != nil {
		t.Fatalf("no object of kind %s", r.Kind)
	}
	return nil
}

// TestObjectsAreCutToTheBound: what is kept of an object that its writer filled is no larger than
// the table says.
func TestObjectsAreCutToTheBound(t *testing.T) {
	for _, r := range Table() {
		t.Run(fmt.Sprint(r.Kind, r.Processes), func(t *testing.T) {
			object := full(t, r)
			if object == nil {
				return
			}
			fillMeta(object)
			for _, process := range r.Processes {
				kept, err := Transform(process)(reflect.ValueOf(object).Interface())
				if err != nil {
					t.Fatal(err)
				}
				text, err := json.Marshal(kept)
				if err != nil {
					t.Fatal(err)
				}
				if len(text) > r.Bytes {
					t.Errorf("%s keeps %d bytes, more than %d", process, len(text), r.Bytes)
				}
				if strings.Contains(string(text), "fieldsV1") {
					t.Errorf("%s keeps managed fields", process)
				}
				if copied := strings.Contains(string(text), corev1.LastAppliedConfigAnnotation); copied && !slices.Contains([]string{"ManagedCluster", "PlacementDecision", "PlacementChange"}, r.Kind) {
					t.Errorf("%s keeps kubectl's copy", process)
				}
			}
		})
	}
}

// TestPluginsCanReadMetadata: plugins share the controller's informers. They select objects by
// label, and read the annotations of Namespaces.
func TestPluginsCanReadMetadata(t *testing.T) {
	for _, kind := range kinds.All() {
		if kind.Name == "AddOnPlacementScore" || kind.Name == "PlacementExplanation" {
			continue // Others than administrators and authors write them, in any number.
		}
		object := kind.New()
		fillMeta(object)
		if _, err := Transform(Controller)(object); err != nil || len(object.GetLabels()) == 0 {
			t.Errorf("%s: %d labels, %v", kind.Name, len(object.GetLabels()), err)
		}
	}
	namespace := metadataOf("Namespace")
	fillMeta(namespace)
	annotations := map[string]string{"yunikorn.apache.org/parentqueue": "v", "example.com/freeze": "w"}
	namespace.SetAnnotations(maps.Clone(annotations))
	if _, err := Transform(Controller)(namespace); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(annotations, namespace.GetAnnotations()); diff != "" || len(namespace.GetLabels()) == 0 {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

// TestTrimKeepsWhatIsRead: by kind and process, the fields that the process reads.
func TestTrimKeepsWhatIsRead(t *testing.T) {
	annotated := func(o metav1.Object, key string) metav1.Object {
		fillMeta(o)
		o.SetAnnotations(map[string]string{key: "v", "other": "w"})
		return o
	}
	for name, tc := range map[string]struct {
		process Process
		object  metav1.Object
		key     string
	}{
		"set":    {Controller, annotated(&v1alpha1.ManagedClusterSet{}, v1alpha1.AutoUpdateAnnotation), v1alpha1.AutoUpdateAnnotation},
		"policy": {Generator, annotated(&berthv1alpha1.SelectionPolicy{}, berthv1alpha1.FailbackRequestedAnnotation), berthv1alpha1.FailbackRequestedAnnotation},
		"page":   {Generator, annotated(&v1alpha1.PlacementDecision{}, berthv1alpha1.RevisionAnnotation), berthv1alpha1.RevisionAnnotation},
	} {
		t.Run(name, func(t *testing.T) {
			uid := tc.object.GetUID()
			if _, err := Transform(tc.process)(tc.object); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]string{tc.key: "v"}, tc.object.GetAnnotations()); diff != "" || tc.object.GetUID() != uid {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
	cluster := fixture.Cluster("c").Obj()
	fillMeta(cluster)
	for i := range MaxLabels {
		cluster.Labels[fmt.Sprintf("a%03d", i)] = ""
	}
	cluster.Labels[v1alpha1.ClusterSetLabel] = "s"
	Trim(Controller, "ManagedCluster")(cluster)
	_, last := cluster.Labels[fmt.Sprintf("a%03d", MaxLabels-1)]
	if set := cluster.Labels[v1alpha1.ClusterSetLabel]; len(cluster.Labels) != MaxLabels+1 || !last || set != "s" || len(cluster.Annotations) != 2 {
		t.Errorf("a cluster has %d labels and %d annotations", len(cluster.Labels), len(cluster.Annotations))
	}
	s := fullScore()
	Trim(Controller, "AddOnPlacementScore")(s)
	if n := len(s.Status.Scores); n != 1000 || s.Status.Scores[999].Name[:4] != "0999" || s.Status.ValidUntil == nil {
		t.Errorf("a score has %d scores", n)
	}
	few := &v1alpha1.AddOnPlacementScore{Status: v1alpha1.AddOnPlacementScoreStatus{Scores: []v1alpha1.AddOnPlacementScoreItem{{Name: "b"}, {Name: "a"}}}}
	if Trim(Controller, "AddOnPlacementScore")(few); few.Status.Scores[0].Name != "b" {
		t.Error("the scores that are kept have another order")
	}
}

// TestThreatModelHasTheTable keeps docs/threat-model.md equal.
func TestThreatModelHasTheTable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := Markdown(); !strings.Contains(string(text), want) {
		t.Errorf("docs/threat-model.md does not have the table:\n%s", want)
	}
}
