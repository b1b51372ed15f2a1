package housekeeping

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/caches"
	"github.com/berth-dev/berth/test/fixture"
)

// profileObject is a ClusterProfile with labels and a status.
func profileObject(namespace, name string, labels map[string]string, status map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	u.SetGroupVersionKind(profileKind)
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetUID(types.UID("uid-of-" + name))
	u.SetLabels(labels)
	return u
}

func property(name, value any) map[string]any { return map[string]any{"name": name, "value": value} }

func healthy(status string) map[string]any {
	return map[string]any{"type": "ControlPlaneHealthy", "status": status, "reason": "Probed", "message": "m"}
}

func TestReadProfile(t *testing.T) {
	long := strings.Repeat("x", 40<<10)
	many := make([]any, 1000)
	for i := range many {
		many[i] = property(fmt.Sprintf("p%04d", len(many)-i), "1")
	}
	large := make([]any, 100)
	for i := range large {
		large[i] = property(fmt.Sprintf("p%02d", i), strings.Repeat("x", 1021))
	}
	manyLabels := map[string]string{}
	for i := range 101 {
		manyLabels[fmt.Sprintf("l%03d", i)] = ""
	}
	tests := map[string]struct {
		labels                                    map[string]string
		status                                    map[string]any
		wantLabels, wantClaims                    string
		wantVersion, wantAvailable                string
		wantLeftOut, wantUnreadable, wantMessage  string
		wantLabelCount, wantClaimCount, wantBytes int
	}{
		"nothing": {wantAvailable: "Unknown ManagedClusterUnreachable", wantMessage: "ClusterProfile fleet/a has no condition ControlPlaneHealthy"},
		"healthy": {
			status: map[string]any{
				"version": map[string]any{"kubernetes": "v1.36.1"}, "conditions": []any{healthy("True")}, "properties": []any{property("b", "2"), property("a", "NaN")},
			},
			wantVersion: "v1.36.1", wantClaims: "a=NaN b=2", wantAvailable: "True ManagedClusterAvailable", wantMessage: "ControlPlaneHealthy of ClusterProfile fleet/a: Probed: m",
		},
		"unhealthy":     {status: map[string]any{"conditions": []any{healthy("False")}}, wantAvailable: "False ManagedClusterUnavailable"},
		"not known":     {status: map[string]any{"conditions": []any{healthy("Unknown")}}, wantAvailable: "Unknown ManagedClusterUnreachable"},
		"no such value": {status: map[string]any{"conditions": []any{healthy("NaN")}}, wantAvailable: "Unknown ManagedClusterUnreachable"},
		"a long message": {
			status:        map[string]any{"conditions": []any{map[string]any{"type": "ControlPlaneHealthy", "status": "True", "reason": "R", "message": long}}},
			wantAvailable: "True ManagedClusterAvailable",
		},
		"labels": {
			labels:     map[string]string{"env": "prod", "x-k8s.io/cluster-manager": "m", "topology.kubernetes.io/region": "eu", "feature.open-cluster-management.io/a": "b"},
			wantLabels: "env=prod feature.open-cluster-management.io/a=b topology.kubernetes.io/region=eu x-k8s.io/cluster-manager=m",
		},
		"labels of the hub": {
			labels: map[string]string{
				v1alpha1.ClusterSetLabel: "vip", "cluster.open-cluster-management.io/x": "", "berth.dev/cluster-profile-namespace": "vip", "berth.dev/x": "",
				"app.kubernetes.io/instance": "a", "argocd.argoproj.io/instance": "a", "app.kubernetes.io/name": "kept",
			},
			wantLabels: "app.kubernetes.io/name=kept",
		},
		"invalid labels": {
			labels:      map[string]string{"no label!": "", "value": "not valid", "fine": "", "/": "x", "": "x"},
			wantLabels:  "fine=",
			wantLeftOut: `label "": invalid; label "/": invalid; label "no label!": invalid; label "value": invalid`,
		},
		"many labels": {labels: manyLabels, wantLabelCount: 100, wantLeftOut: "1 labels: a cluster takes at most 100"},
		"a large property": {
			status:     map[string]any{"properties": []any{property("big", long), property("a", "1"), property(strings.Repeat("n", 254), "1"), property("", "1"), property("empty", "")}},
			wantClaims: "a=1", wantLeftOut: `property "": without a name or a value; property "big": a value of more than 1024 characters; ` +
				`property "empty": without a name or a value; property "` + strings.Repeat("n", 97) + `…": a name of more than 253 characters`,
		},
		"the longest":      {status: map[string]any{"properties": []any{property("a", strings.Repeat("ß", 1024))}}, wantClaims: "a=" + strings.Repeat("ß", 1024)},
		"two of one name":  {status: map[string]any{"properties": []any{property("a", "1"), property("a", "2")}}, wantClaims: "a=2"},
		"many properties":  {status: map[string]any{"properties": many}, wantClaimCount: 256, wantLeftOut: "744 properties: a cluster takes at most 256 with 64 KiB in all"},
		"large properties": {status: map[string]any{"properties": large}, wantClaimCount: 64, wantLeftOut: "36 properties: a cluster takes at most 256 with 64 KiB in all"},
		"a long version":   {status: map[string]any{"version": map[string]any{"kubernetes": long}}, wantLeftOut: "status.version.kubernetes: more than 253 characters"},
		"a number": {
			status:         map[string]any{"properties": []any{property("a", int64(1))}},
			wantUnreadable: "cannot convert int64 to string",
		},
		"no list": {status: map[string]any{"properties": "x"}, wantUnreadable: "cannot restore slice from string"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := readProfile(profileObject("fleet", "a", tc.labels, tc.status), "crd")
			if tc.wantUnreadable != "" {
				if !strings.Contains(p.unreadable, tc.wantUnreadable) || p.claims != nil || p.labels != nil {
					t.Errorf("got %q, %v, %v", p.unreadable, p.claims, p.labels)
				}
				return
			}
			c := fixture.Cluster("a").Obj()
			c.Labels = nil
			p.describe(c)
			p.report(c)
			delete(c.Labels, v1alpha1.ClusterProfileNamespaceLabel)
			var got []string
			for _, claim := range c.Status.ClusterClaims {
				got = append(got, claim.Name+"="+claim.Value)
			}
			if claims := strings.Join(got, " "); tc.wantClaimCount == 0 && claims != tc.wantClaims || tc.wantClaimCount != 0 && len(got) != tc.wantClaimCount {
				t.Errorf("%d claims %.100s", len(got), claims)
			}
			if shown := strings.TrimSuffix(showLabels(c.Labels), "<none>"); tc.wantLabelCount == 0 && shown != tc.wantLabels || tc.wantLabelCount != 0 && len(c.Labels) != tc.wantLabelCount {
				t.Errorf("%d labels %s", len(c.Labels), shown)
			}
			available := c.Status.Conditions[0]
			if got := string(available.Status) + " " + available.Reason; tc.wantAvailable != "" && got != tc.wantAvailable {
				t.Errorf("available %s", got)
			}
			if tc.wantMessage != "" && available.Message != tc.wantMessage || len(available.Message) > maxProfileMessage {
				t.Errorf("message %s", available.Message)
			}
			if diff := cmp.Diff([]string{tc.wantVersion, tc.wantLeftOut}, []string{c.Status.Version.Kubernetes, p.omissions()}); diff != "" {
				t.Error(diff)
			}
			if c.Annotations[v1alpha1.ClusterProfileAnnotation] != "fleet/a uid-of-a crd" {
				t.Errorf("marked %v", c.Annotations)
			}
			again := c.DeepCopy()
			readProfile(profileObject("fleet", "a", tc.labels, tc.status), "crd").report(again)
			if diff := cmp.Diff(c, again); diff != "" {
				t.Errorf("not at rest: %s", diff)
			}
			if len(got) > 0 {
				if c.Status.ClusterClaims[0].Value = "changed"; p.claims[0].Value == "changed" {
					t.Error("a response of the API server would change the profile that is kept")
				}
			}
		})
	}
}

func showLabels(set map[string]string) string {
	return strings.ReplaceAll(labels.FormatLabels(set), ",", " ")
}

func TestOmissions(t *testing.T) {
	p := &clusterProfile{}
	for text := range strings.SplitSeq("abcdefg", "") {
		p.leaveOut("%s", text)
	}
	if got := p.omissions(); got != "a; b; c; d; e; … 2 more" {
		t.Error(got)
	}
}

// TestLargeProfilesTakeLittleMemory: of a profile as large as the API server stores, whose content
// a ManagedCluster does not take, no more is kept than the table of caches says.
func TestLargeProfilesTakeLittleMemory(t *testing.T) {
	const profiles, properties = 20, 40_000
	row := slices.IndexFunc(caches.Table(), func(r caches.Row) bool { return r.Kind == "ClusterProfile" })
	bound := profiles * caches.Table()[row].Bytes
	heap := func() int {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	views := newProfileViews(Options{}, nil, nil, types.NamespacedName.String)
	before := heap()
	for i := range profiles {
		var all []any
		for n := range properties {
			all = append(all, property(fmt.Sprintf("%d-%05d", i, n), ""))
		}
		for n := range maxProfileClaims {
			all = append(all, property(fmt.Sprintf("%s-%d-%d", strings.Repeat("n", 100), i, n), strings.Repeat("v", 1000)))
		}
		labels := map[string]string{}
		for n := range 1000 {
			labels[fmt.Sprintf("%s/%d-%d", strings.Repeat("l", 250), i, n)] = strings.Repeat("v", 63)
		}
		views.put(readProfile(profileObject("fleet", fmt.Sprint(i), labels, map[string]any{"properties": all}), "crd"))
	}
	if kept := heap() - before; kept > bound {
		t.Errorf("%d KiB are kept of a profile, want at most %d", kept/profiles>>10, bound/profiles>>10)
	}
	runtime.KeepAlive(views)
}

// TestLabelsOfPeople: the loop removes only labels that it copied, and copies none over a label of
// people.
func TestLabelsOfPeople(t *testing.T) {
	tests := map[string]struct {
		has, copied, profile string
		want, wantCopied     string
	}{
		"copied":                  {profile: "a=1 b=2", want: "a=1 b=2", wantCopied: "a,b"},
		"changed":                 {has: "a=1", copied: "a", profile: "a=2", want: "a=2", wantCopied: "a"},
		"removed":                 {has: "a=1 b=1", copied: "a,b", profile: "b=1", want: "b=1", wantCopied: "b"},
		"all removed":             {has: "a=1 m=1", copied: "a", want: "m=1"},
		"people's":                {has: "a=mine m=1", profile: "a=theirs b=1", want: "a=mine b=1 m=1", wantCopied: "b"},
		"people removed theirs":   {has: "m=1", profile: "a=theirs", want: "a=theirs m=1", wantCopied: "a"},
		"people changed a copied": {has: "a=mine", copied: "a", profile: "a=1", want: "a=1", wantCopied: "a"},
		"people removed a copied": {copied: "a", profile: "a=1", want: "a=1", wantCopied: "a"},
		"a copied set is not removed": {
			has: v1alpha1.ClusterSetLabel + "=vip", copied: v1alpha1.ClusterSetLabel, want: v1alpha1.ClusterSetLabel + "=vip",
		},
	}
	parse := func(text string) map[string]string {
		set := map[string]string{}
		for field := range strings.FieldsSeq(text) {
			key, value, _ := strings.Cut(field, "=")
			set[key] = value
		}
		return set
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := fixture.Cluster("a").Annotation(v1alpha1.CopiedLabelsAnnotation, tc.copied).Obj()
			c.Labels = parse(tc.has)
			readProfile(profileObject("fleet", "a", parse(tc.profile), nil), "crd").describe(c)
			want := parse(tc.want)
			want[v1alpha1.ClusterProfileNamespaceLabel] = "fleet"
			if diff := cmp.Diff(want, c.Labels); diff != "" {
				t.Error(diff)
			}
			if got := c.Annotations[v1alpha1.CopiedLabelsAnnotation]; got != tc.wantCopied {
				t.Errorf("copied %q", got)
			}
		})
	}
}

func TestMarkOf(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "",
		"fleet/a uid crd":    "fleet/a uid crd",
		"fleet/a":            "fleet/a",
		" fleet/a  uid\tcrd": "fleet/a uid crd",
		"fleet/a uid":        "fleet/a",
		"fleet/a 1 2 3":      "fleet/a",
		"a":                  "a/",
		"a/b/c":              "a/b/c",
	} {
		m, marked := markOf(fixture.Cluster("a").Annotation(v1alpha1.ClusterProfileAnnotation, text).Obj())
		if got := strings.TrimSpace(m.text()); marked != (want != "") || marked && got != want {
			t.Errorf("%q is %q", text, got)
		}
	}
	if _, marked := markOf(fixture.Cluster("a").Obj()); marked {
		t.Error("a cluster without an annotation is marked")
	}
}
