package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers/housekeeping"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/memoryhub"
)

// wholeCRDs are Berth's own, whose PlacementDecisions have no status subresource.
var wholeCRDs = map[string][]string{
	v1alpha1.GroupName:      {"placements", "placements/status", "placementdecisions"},
	berthv1alpha1.GroupName: steppedCRDs[berthv1alpha1.GroupName],
}

// reconcilers are the types of the reconcilers on the manager; of a ClusterReconciler its name.
func (h *setUpHub) reconcilers() []string {
	var all []string
	for r := range h.mgr.controllers() {
		if reconciler, ok := r.(*housekeeping.ClusterReconciler); ok {
			all = append(all, reconciler.Name)
			continue
		}
		all = append(all, reflect.TypeOf(r).Elem().Name())
	}
	slices.Sort(all)
	return all
}

func TestSetUpAddsControllers(t *testing.T) {
	tests := map[string]struct {
		serves       map[string][]string
		housekeeping []string
		want         []string
		wantRecords  bool
	}{
		"Berth's own CRDs": {
			serves: wholeCRDs, housekeeping: []string{"*"}, wantRecords: true,
			want: []string{"BindingReconciler", "ClusterLeaseReconciler", "ClusterSetReconciler", "DisruptionPolicyReconciler", "EvictionReconciler", "PlacementReconciler",
				"cluster-availability", "cluster-default-set", "cluster-taint-time"},
		},
		"without housekeeping":           {serves: wholeCRDs, wantRecords: true, want: []string{"DisruptionPolicyReconciler", "EvictionReconciler", "PlacementReconciler"}},
		"beside Open Cluster Management": {serves: steppedCRDs, housekeeping: []string{"*"}, wantRecords: true, want: []string{"DisruptionPolicyReconciler", "EvictionReconciler", "PlacementReconciler"}},
		"without Berth's own kinds":      {serves: map[string][]string{v1alpha1.GroupName: steppedCRDs[v1alpha1.GroupName]}, want: []string{"PlacementReconciler"}},
		"all but some": {
			serves: wholeCRDs, housekeeping: []string{"-cluster-availability", "-clusterset"}, wantRecords: true,
			want: []string{"BindingReconciler", "ClusterLeaseReconciler", "DisruptionPolicyReconciler", "EvictionReconciler", "PlacementReconciler",
				"cluster-default-set", "cluster-taint-time"},
		},
		"without any kinds, one is chosen": {serves: map[string][]string{}, housekeeping: []string{"clustersetbinding"}, want: []string{"BindingReconciler", "PlacementReconciler"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var lines []string
			o := hubOptions{serves: tc.serves, Options: Options{Housekeeping: tc.housekeeping}}
			o.Log = funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
			h, err := newSetUpHub(t, o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, h.reconcilers()); diff != "" {
				t.Errorf("reconcilers (-want +got):\n%s", diff)
			}
			if got := h.background.records != nil; got != tc.wantRecords || h.reconciler.Records != h.background.records {
				t.Errorf("changes have records: %t, want %t", got, tc.wantRecords)
			}
			if got := h.reconciler.Scheduler.WriteRecordsBefore != nil; got != tc.wantRecords {
				t.Errorf("records come first: %t, want %t", got, tc.wantRecords)
			}
			// The informers are asked for before the cache starts.
			want := slices.DeleteFunc(kinds.All(), func(k kinds.Kind) bool { return k.Optional() && !tc.wantRecords })
			if len(h.mgr.cache.watched) != len(want) || len(h.mgr.cache.blocking) > 0 {
				t.Errorf("watched: %v, waiting for %v", h.mgr.cache.watched, h.mgr.cache.blocking)
			}
			log := strings.Join(lines, "\n")
			if !strings.Contains(log, `"Housekeeping" "controllers"`) {
				t.Errorf("the log does not name the controllers: %s", log)
			}
			if said := strings.Contains(log, "Changes have no records"); said == tc.wantRecords {
				t.Errorf("the log is %s", log)
			}
			if h.reconciler.Queues != nil || h.probe.handle != nil {
				t.Error("there are queues, or a plugin that is not configured")
			}
		})
	}
}

// TestSetUpFails: each error names what was set up.
// TestSetUpClock: decisions use Options.Now, by default the system's clock.
func TestSetUpClock(t *testing.T) {
	for name, tc := range map[string]struct {
		systemClock bool
		want        time.Time
	}{
		"an own clock":       {want: fixture.Now},
		"the system's clock": {systemClock: true, want: time.Now()},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := newSetUpHub(t, hubOptions{systemClock: tc.systemClock})
			if err != nil {
				t.Fatal(err)
			}
			if got := h.reconciler.Now(); got.Sub(tc.want).Abs() > time.Hour {
				t.Errorf("the clock shows %s, want about %s", got, tc.want)
			}
		})
	}
}

func TestSetUpFails(t *testing.T) {
	stopped := errors.New("the manager has stopped")
	refuseAdd := func(number int) func(h *setUpHub) {
		return func(h *setUpHub) {
			added := 0
			h.mgr.refuse = func(call string) error {
				if strings.HasPrefix(call, "add ") {
					added++
				}
				if added == number {
					return stopped
				}
				return nil
			}
		}
	}
	queues := types.NamespacedName{Namespace: "berth-system", Name: "queues"}
	named := func(plugin string) *config.PlacementSchedulerConfiguration {
		return &config.PlacementSchedulerConfiguration{Profiles: []config.Profile{{
			Name: config.DefaultProfile, Plugins: config.Plugins{MultiPoint: config.PluginSet{Enabled: []config.Plugin{{Name: plugin}}}},
		}}}
	}
	ocm := map[string][]string{v1alpha1.GroupName: steppedCRDs[v1alpha1.GroupName]}
	tests := map[string]struct {
		options hubOptions
		want    string
	}{
		"Open Cluster Management's kinds are not discovered": {
			options: hubOptions{failing: map[string]int{v1alpha1.GroupName: http.StatusForbidden}},
			want:    "asking for the resources of cluster.open-cluster-management.io/v1alpha1: ",
		},
		"Berth's kinds are not discovered": {
			options: hubOptions{failing: map[string]int{berthv1alpha1.GroupName: http.StatusForbidden}},
			want:    "asking for the resources of berth.dev/v1alpha1: ",
		},
		"a plugin needs kinds": {
			options: hubOptions{serves: ocm, Options: Options{Config: named("Approval")}},
			want: "the configuration names the plugin Approval, which needs the CustomResourceDefinitions disruptionpolicies and selectionpolicies and placementchanges and placementevictions of berth.dev/v1alpha1: " +
				"install them with --install-crds",
		},
		"housekeeping has no such controller": {
			options: hubOptions{Options: Options{Housekeeping: []string{"sweeper"}}}, want: `--housekeeping: unknown controller "sweeper"`,
		},
		"housekeeping lacks a namespace": {
			options: hubOptions{Options: Options{Housekeeping: []string{"*", "cluster-profile"}}}, want: "--housekeeping: the controller cluster-profile and --cluster-profile-namespace need each other",
		},
		"the index of ClusterProfiles": {
			options: hubOptions{prepare: refuseAdd(1), Options: Options{Housekeeping: []string{"cluster-profile"}, ClusterProfiles: housekeeping.ClusterProfileOptions{Namespaces: []string{"a"}}}},
			want:    "setting up cluster-profile: the manager has stopped",
		},
		"a housekeeper": {
			options: hubOptions{prepare: refuseAdd(1), Options: Options{Housekeeping: []string{"clustersetbinding"}}},
			want:    "setting up clustersetbinding: the manager has stopped",
		},
		"the policies' controller":  {options: hubOptions{prepare: refuseAdd(1)}, want: "setting up disruptionpolicy: the manager has stopped"},
		"the evictions' controller": {options: hubOptions{prepare: refuseAdd(2)}, want: "setting up placementeviction: the manager has stopped"},
		"the readiness sources":     {options: hubOptions{prepare: refuseAdd(3)}, want: "setting up readiness sources: the manager has stopped"},
		"the placement controller":  {options: hubOptions{prepare: refuseAdd(4)}, want: "setting up the placement controller: the manager has stopped"},
		"the queues' configuration": {options: hubOptions{prepare: refuseAdd(4), Options: Options{QueueConfig: queues}}, want: "adding the queue configuration: the manager has stopped"},
		"a plugin of a name that is taken": {
			options: hubOptions{Options: Options{Plugins: framework.Registry{"Approval": (&probePlugin{}).build}}}, want: "Approval",
		},
		"a plugin that is unknown": {options: hubOptions{Options: Options{Config: named("Nothing")}}, want: "Nothing"},
		"a kind that may not be watched": {
			options: hubOptions{prepare: func(h *setUpHub) {
				h.mgr.cache.refuse = func(string) error { return apierrors.NewUnauthorized("no token") }
			}},
			want: "watching *v1alpha1.ManagedClusterSet: no token",
		},
		"a probe": {
			options: hubOptions{prepare: func(h *setUpHub) {
				h.mgr.refuse = func(call string) error {
					if call == "ready fleet" {
						return stopped
					}
					return nil
				}
			}},
			want: "adding the readiness check: the manager has stopped",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h, err := newSetUpHub(t, tc.options)
			if got := errorText(err); !strings.HasPrefix(got, tc.want) && (!strings.Contains(got, tc.want) || strings.Contains(tc.want, " ")) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if h.reconciler != nil {
				t.Error("there is a placement controller")
			}
		})
	}
}

// TestPlacementControllerOptions: the workers, the order of the queue, and how failures are
// repeated.
func TestPlacementControllerOptions(t *testing.T) {
	for workers, want := range map[int]int{0: 16, 3: 3} {
		h, err := newSetUpHub(t, hubOptions{Options: Options{Workers: workers}})
		if err != nil {
			t.Fatal(err)
		}
		c := reflect.ValueOf(h.mgr.controllers()[h.reconciler]).Elem()
		if got := c.FieldByName("MaxConcurrentReconciles").Int(); got != int64(want) {
			t.Errorf("%d workers, want %d", got, want)
		}
		if got := c.FieldByName("Name").String(); got != "placement" {
			t.Errorf("the controller is called %q", got)
		}
	}
}

// TestSchedulerIsWired: what the scheduler tells is measured, and what it publishes is remembered.
func TestSchedulerIsWired(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	h.place(fixture.Placement("n", "p").Obj())
	s := h.reconciler.Scheduler
	if s.CycleTimeout != time.Minute {
		t.Errorf("a cycle may take %s", s.CycleTimeout)
	}
	got := changed(t, func() { h.succeed() }, pointSeconds, lockSeconds)
	for _, name := range []string{"framework_extension_point_duration_seconds Bind default", "cycle_lock_duration_seconds Decided default"} {
		if got[name] != 1 {
			t.Errorf("%s was not measured: %v", name, got)
		}
	}
	if last := h.reconciler.Inventory.Snapshot(placementKey, h.now, nil).Subject.Last; last == nil || last.FromPages || !slices.Equal(last.Names, []string{"a"}) {
		t.Errorf("published last: %+v", last)
	}
	h.reconciler.Inventory.Started()
	// The probe does not say what it reads: every change of a cluster counts.
	if affected := h.reconciler.Inventory.Update(fixture.Cluster("a").Set("s1").Label("any", "thing").Obj()); len(affected) != 1 {
		t.Errorf("affected: %v", affected)
	}
	if framework.HeldChanges(held.Load()) != h.probe.handle.HeldChanges {
		t.Error("the metric counts other held changes")
	}
}

// TestTaintTimes: where Berth stamps taints, one without a time counts from when it was first seen.
func TestTaintTimes(t *testing.T) {
	for name, tc := range map[string]struct {
		housekeeping []string
		want         time.Time
	}{
		"stamped":     {housekeeping: []string{"cluster-taint-time"}, want: fixture.Now},
		"not stamped": {housekeeping: []string{"clusterset"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := startSetUpHub(t, hubOptions{Options: Options{Housekeeping: tc.housekeeping}})
			h.place(fixture.Placement("n", "p").Obj())
			h.reconciler.Inventory.Update(fixture.Cluster("a").Set("s1").Taint("t", "", v1alpha1.TaintEffectNoSelect).Obj())
			clusters := h.reconciler.Inventory.Snapshot(placementKey, h.now, nil).Clusters
			if got := clusters.Get(0).TaintTimes; len(got) != 1 || !got[0].Equal(tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestPluginHandle(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	h.place(fixture.Placement("n", "p").Obj())
	handle := h.probe.handle
	if handle.Client == nil {
		t.Error("the plugin has no client")
	}
	for name, missing := range map[string]bool{
		"Assume": handle.Assume == nil, "Announce": handle.Announce == nil,
	} {
		if missing {
			t.Errorf("%s is missing", name)
		}
	}
	h.now = h.now.Add(time.Hour)
	snapshot := handle.Snapshot(placementKey)
	if snapshot == nil || !snapshot.Now.Equal(h.now) || snapshot.Subject.Placement.Name != "p" {
		t.Errorf("the snapshot is %+v", snapshot)
	}
	if got := handle.Snapshot(types.NamespacedName{Namespace: "n", Name: "gone"}); got != nil {
		t.Error("there is a snapshot of a Placement that is gone")
	}
	handle.Event(h.placement(), "Warning", "Late", "Wait", "it takes long")
	h.checkSent("Warning Late Wait: it takes long")
}

func TestPluginsUpdateQueues(t *testing.T) {
	queues := types.NamespacedName{Namespace: "berth-system", Name: "queues"}
	h := startSetUpHub(t, hubOptions{Options: Options{QueueConfig: queues, Webhooks: &webhook.Options{}}}, "a")
	if h.reconciler.Queues == nil {
		t.Error("there are no queues")
	}
	if diff := cmp.Diff([]string{"fleet", "queues", "webhooks"}, slices.Sorted(maps.Keys(h.mgr.ready))); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
	if !slices.Contains(h.mgr.cache.watched, "Namespace") {
		t.Errorf("watched: %v", h.mgr.cache.watched)
	}
}

func TestPageClient(t *testing.T) {
	for name, tc := range map[string]struct {
		whole   bool
		cfg     rest.Config
		want    string
		wantErr string
	}{
		"in steps":         {want: "controllers.steppedPages"},
		"whole":            {whole: true, want: "controllers.wholePages"},
		"in steps, bad":    {cfg: rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: "missing"}}, want: "controllers.steppedPages"},
		"whole, no client": {whole: true, cfg: rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: "missing"}}, want: "<nil>", wantErr: "building the pages client: "},
	} {
		t.Run(name, func(t *testing.T) {
			pages, err := pageClient(&tc.cfg, nil, nil, tc.whole)
			if got := fmt.Sprintf("%T", pages); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if got := errorText(err); !strings.HasPrefix(got, tc.wantErr) || (got == "") != (tc.wantErr == "") {
				t.Errorf("got error %q, want %q", got, tc.wantErr)
			}
		})
	}
}

// TestPagesAreWrittenWhole: on Berth's own CRDs the client knows PlacementDecisions as v1alpha1.
func TestPagesAreWrittenWhole(t *testing.T) {
	var request, kind string
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodPost:
			request = r.URL.Path
			var page map[string]any
			_ = json.NewDecoder(r.Body).Decode(&page)
			kind = fmt.Sprint(page["apiVersion"], " ", page["kind"])
			_ = json.NewEncoder(w).Encode(page)
		case r.URL.Path == "/apis":
			_, _ = w.Write([]byte(`{"kind": "APIGroupList", "groups": [{"name": "cluster.open-cluster-management.io",
				"versions": [{"groupVersion": "cluster.open-cluster-management.io/v1alpha1", "version": "v1alpha1"}]}]}`))
		case strings.HasSuffix(r.URL.Path, "/v1alpha1"):
			_, _ = w.Write([]byte(`{"kind": "APIResourceList", "groupVersion": "cluster.open-cluster-management.io/v1alpha1",
				"resources": [{"name": "placementdecisions", "kind": "PlacementDecision", "namespaced": true}]}`))
		default:
			_, _ = w.Write([]byte(`{"kind": "APIVersions"}`))
		}
	}))
	defer hub.Close()
	pages, err := pageClient(&rest.Config{Host: hub.URL}, nil, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pages.Create(t.Context(), fixture.Page("n", "p-decision-1").Of("p").Lists("a").Obj()); err != nil {
		t.Fatal(err)
	}
	if request != "/apis/cluster.open-cluster-management.io/v1alpha1/namespaces/n/placementdecisions" || kind != "cluster.open-cluster-management.io/v1alpha1 PlacementDecision" {
		t.Errorf("%s was sent to %s", kind, request)
	}
}

func TestMetricsServer(t *testing.T) {
	plain := metricsServer(Options{MetricsAddress: ":1", MetricsCertDir: "certs"})
	if plain.BindAddress != ":1" || plain.SecureServing || plain.CertDir != "" || plain.FilterProvider != nil {
		t.Errorf("plain: %+v", plain)
	}
	secure := metricsServer(Options{MetricsAddress: ":1", MetricsCertDir: "certs", MetricsSecure: true})
	if secure.BindAddress != ":1" || !secure.SecureServing || secure.CertDir != "certs" || secure.FilterProvider == nil {
		t.Errorf("secure: %+v", secure)
	}
}

func TestAtStart(t *testing.T) {
	placements := schema.GroupResource{Resource: "placements"}
	busy := apierrors.NewTooManyRequestsError("busy")
	tests := map[string]struct {
		answers   []error
		wantTries int
		want      error
	}{
		"at once":          {answers: []error{nil}, wantTries: 1},
		"later":            {answers: []error{busy, errors.New("no connection"), nil}, wantTries: 3},
		"never":            {answers: slices.Repeat([]error{busy}, 10), wantTries: 5, want: busy},
		"not found":        {answers: []error{apierrors.NewNotFound(placements, "p"), nil}, wantTries: 1, want: apierrors.NewNotFound(placements, "p")},
		"forbidden":        {answers: []error{apierrors.NewForbidden(placements, "p", nil), nil}, wantTries: 1, want: apierrors.NewForbidden(placements, "p", nil)},
		"unauthorized":     {answers: []error{apierrors.NewUnauthorized("no token"), nil}, wantTries: 1, want: apierrors.NewUnauthorized("no token")},
		"an unknown kind":  {answers: []error{&meta.NoKindMatchError{}, nil}, wantTries: 1, want: &meta.NoKindMatchError{}},
		"at last possible": {answers: []error{busy, busy, busy, busy, nil}, wantTries: 5},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries, began := 0, time.Now()
				err := atStart(func() error {
					tries++
					return tc.answers[tries-1]
				})
				if tries != tc.wantTries || errorText(err) != errorText(tc.want) {
					t.Errorf("got %v after %d tries, want %v after %d", err, tries, tc.want, tc.wantTries)
				}
				if took := time.Since(began); took > 4*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func TestIndexesAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, began := memoryhub.NewManager(t, nil), time.Now()
		m.IndexError = apierrors.NewTooManyRequestsError("busy")
		if err := (startManager{m}).GetFieldIndexer().IndexField(t.Context(), nil, "", nil); !errors.Is(err, m.IndexError) || time.Since(began) == 0 {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}

func TestDiscoveryIsRepeated(t *testing.T) {
	before := startBackoff
	defer func() { startBackoff = before }()
	startBackoff.Duration = time.Microsecond
	requests := map[string]int{}
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests[r.URL.Path]++; requests[r.URL.Path] == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(metav1.APIResourceList{APIResources: []metav1.APIResource{
			{Name: "placementdecisions"}, {Name: "disruptionpolicies"}, {Name: "placementchanges"}, {Name: "placementevictions"}, {Name: "selectionpolicies"},
		}})
	}))
	defer hub.Close()
	served, err := discoverKinds(t.Context(), &rest.Config{Host: hub.URL})
	if err != nil || !served.ownKinds || !served.wholePages || served.missing != nil {
		t.Errorf("got %+v, %v", served, err)
	}
	want := map[string]int{"/apis/cluster.open-cluster-management.io/v1alpha1": 2, "/apis/berth.dev/v1alpha1": 2}
	for _, plural := range []string{"disruptionpolicies", "placementchanges", "placementevictions", "selectionpolicies"} {
		want["/apis/berth.dev/v1alpha1/"+plural] = 2
	}
	if diff := cmp.Diff(want, requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if _, err := discoverKinds(t.Context(), &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: "missing"}}); !strings.HasPrefix(errorText(err), "building the discovery client: ") {
		t.Errorf("got %v", err)
	}
}

func TestInformerOf(t *testing.T) {
	f := newMemoryFeed(t)
	informer, err := informerOf(t.Context(), f.cache, &v1alpha1.Placement{})
	if err != nil || informer == nil || len(f.cache.blocking) > 0 {
		t.Errorf("got %v, %v; it waits for %v", informer, err, f.cache.blocking)
	}
	asked := 0
	f.cache.refuse = func(string) error {
		asked++
		return apierrors.NewUnauthorized("no token")
	}
	if _, err := informerOf(t.Context(), f.cache, &v1alpha1.Placement{}); !apierrors.IsUnauthorized(err) || asked != 1 {
		t.Errorf("got %v after %d requests", err, asked)
	}
	synctest.Test(t, func(t *testing.T) {
		f.cache.refuse = func(string) error {
			if asked++; asked < 4 {
				return errors.New("no connection")
			}
			return nil
		}
		if informer, err := informerOf(t.Context(), f.cache, &v1alpha1.Placement{}); err != nil || informer == nil || asked != 4 {
			t.Errorf("got %v, %v after %d requests", informer, err, asked)
		}
	})
}

// TestStartedController: the controller counts the records and begins once it knows the fleet.
func TestStartedController(t *testing.T) {
	h := startSetUpHub(t, hubOptions{}, "a")
	pl := fixture.Placement("n", "p").Obj()
	record := changes.NewRecord(pl, 0, 1, changes.NewChange(nil, []string{"z"}))
	h.reconciler.Inventory.Update(record)
	h.place(pl)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- h.mgr.controllers()[h.reconciler].(controller.Controller).Start(ctx) }()
		close(h.mgr.elected)
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := h.mgr.ready["fleet"](nil); err != nil {
			t.Error(err)
		}
		if h.probe.recounted != 1 {
			t.Errorf("it counts %d records", h.probe.recounted)
		}
		// Started was called: what comes now is news.
		h.reconciler.Inventory.Update(fixture.Cluster("b").Set("s1").Obj())
		if cause := h.cause(); !strings.Contains(cause, "b") {
			t.Errorf("the cause is %q", cause)
		}
		h.mgr.cache.deliver("Placement", func(handler toolscache.ResourceEventHandler) { handler.OnAdd(pl, false) })
		time.Sleep(time.Minute)
		synctest.Wait()
		h.checkPublished("a", "b")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestNewManager: the manager's scheme, and the limits of its client.
func TestNewManager(t *testing.T) {
	for name, tc := range map[string]struct {
		queues types.NamespacedName
		want   bool
	}{
		"without queues": {},
		"with queues":    {queues: types.NamespacedName{Namespace: "berth-system", Name: "queues"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := discoveryServer(t, nil, map[string]int{v1alpha1.GroupName: http.StatusForbidden})
			cfg.QPS = 5
			o := Options{MetricsAddress: "0", HealthAddress: "0", QueueConfig: tc.queues, Webhooks: &webhook.Options{Port: 12345}, Log: logr.Discard()}
			mgr, err := NewManager(t.Context(), cfg, o)
			if !strings.HasPrefix(errorText(err), "asking for the resources of ") || mgr == nil {
				t.Fatalf("got %v, %v", mgr, err)
			}
			if mgr.GetConfig().QPS != -1 || cfg.QPS != 5 {
				t.Errorf("the client may send %v requests a second; the caller's %v", mgr.GetConfig().QPS, cfg.QPS)
			}
			if !mgr.GetScheme().Recognizes(v1alpha1.GroupVersionV1Beta1.WithKind("Placement")) {
				t.Error("the scheme does not know Placements")
			}
			if got := mgr.GetScheme().Recognizes(corev1.SchemeGroupVersion.WithKind("ConfigMap")); got != tc.want {
				t.Errorf("the scheme knows ConfigMaps: %t, want %t", got, tc.want)
			}
			if server, ok := mgr.GetWebhookServer().(*webhook.DefaultServer); !ok || server.Options.Port != 12345 {
				t.Errorf("the webhook server is %+v", mgr.GetWebhookServer())
			}
			background := mgr.(*managerWithBackground)
			if background.events == nil || background.records != nil {
				t.Errorf("the background is %+v", background)
			}
		})
	}
	if _, err := NewManager(t.Context(), &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: "missing"}}, Options{}); !strings.HasPrefix(errorText(err), "building the manager: ") {
		t.Errorf("got %v", err)
	}
}

func TestManagerOptions(t *testing.T) {
	queues := types.NamespacedName{Namespace: "berth-system", Name: "queues"}
	got, err := managerOptions(Options{
		LeaderElection: true, LeaderElectionNamespace: "berth-system", MetricsAddress: ":1", HealthAddress: ":2", PprofAddress: ":3", QueueConfig: queues,
	})
	if err != nil {
		t.Fatal(err)
	}
	type election struct {
		On, Release   bool
		ID, Namespace string
		Lease, Renew  time.Duration
	}
	want := election{On: true, Release: true, ID: "berth.berth.dev", Namespace: "berth-system", Lease: 15 * time.Second, Renew: 6 * time.Second}
	if diff := cmp.Diff(want, election{
		got.LeaderElection, got.LeaderElectionReleaseOnCancel, got.LeaderElectionID, got.LeaderElectionNamespace, *got.LeaseDuration, *got.RenewDeadline,
	}); diff != "" {
		t.Errorf("leader election (-want +got):\n%s", diff)
	}
	if other, err := managerOptions(Options{LeaseName: "placement-lock", MetricsAddress: ":1", HealthAddress: ":1"}); err != nil ||
		other.LeaderElectionID != "placement-lock" || other.Metrics.BindAddress != ":1" || other.HealthProbeBindAddress != "0" {
		t.Errorf("with another lease and one address: %+v, %v", other, err)
	}
	if longer, err := managerOptions(Options{Lease: LeaseTimes{4, 2, 1}}); err != nil ||
		*longer.LeaseDuration != 4 || *longer.RenewDeadline != 2 || *longer.RetryPeriod != 1 {
		t.Errorf("with other times of the lease: %+v, %v", longer, err)
	}
	// A replica that lost the lease has stopped before another one may take it.
	if left := *got.LeaseDuration - 2**got.RenewDeadline - *got.RetryPeriod; left <= 0 {
		t.Errorf("%s are left before the lease may be taken", left)
	}
	if addresses := []string{got.Metrics.BindAddress, got.HealthProbeBindAddress, got.PprofBindAddress}; !slices.Equal(addresses, []string{":1", ":2", ":3"}) {
		t.Errorf("it listens at %v", addresses)
	}
	if *got.GracefulShutdownTimeout != 10*time.Second || got.Controller.CacheSyncTimeout != 10*time.Minute || got.WebhookServer != nil || got.Cache.DefaultTransform == nil {
		t.Errorf("the options are %+v", got)
	}
	if len(got.Cache.ByObject) != 1 {
		t.Fatalf("%d kinds are cached in a way of their own", len(got.Cache.ByObject))
	}
	for object, cached := range got.Cache.ByObject {
		selector := cached.Namespaces["berth-system"].FieldSelector
		if _, ok := object.(*corev1.ConfigMap); !ok || len(cached.Namespaces) != 1 || selector == nil || selector.String() != "metadata.name=queues" {
			t.Errorf("of %T in %v is cached %v", object, cached.Namespaces, selector)
		}
	}
	if plain, err := managerOptions(Options{}); err != nil || len(plain.Cache.ByObject) > 0 || plain.LeaderElection {
		t.Errorf("without a choice: %+v, %v", plain, err)
	}
}

// TestCompact: the cache packs ended records, and keeps of other objects all but managed fields.
func TestCompact(t *testing.T) {
	record := func(phase berthv1alpha1.ChangePhase) *berthv1alpha1.PlacementChange {
		record := changes.NewRecord(fixture.Placement("n", "p").Obj(), 0, 2, changes.NewChange([]string{"a"}, []string{"b"}))
		record.UID, record.ResourceVersion, record.Spec.Cause, record.Status.Phase = "0e6f3e0b-32a7-4f7c-8f0b-6f6a1b8f2a10", "7", "start", phase
		record.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
		return record
	}
	for phase, packed := range map[berthv1alpha1.ChangePhase]bool{
		"": false, berthv1alpha1.PhaseHeld: false, berthv1alpha1.PhaseProgressing: false, berthv1alpha1.PhaseRejected: false,
		berthv1alpha1.PhaseExpired: false, berthv1alpha1.PhasePublished: true, berthv1alpha1.PhaseSuperseded: true,
	} {
		want := record(phase)
		want.ManagedFields = nil
		got, err := compact(record(phase))
		if err != nil {
			t.Errorf("phase %q: %v", phase, err)
		}
		if p, ok := got.(*changes.PackedRecord); ok != packed {
			t.Errorf("phase %q: packed %t", phase, ok)
		} else if ok {
			got, want.Labels, want.Spec.Cause = p.Record(), nil, ""
		}
		if diff := cmp.Diff(any(want), got); diff != "" {
			t.Errorf("phase %q (-want +got):\n%s", phase, diff)
		}
	}
	pl := fixture.Placement("n", "p").Obj()
	pl.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	if got, err := compact(pl); err != nil || got.(*v1alpha1.Placement).ManagedFields != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := compact("a string"); err != nil || got != "a string" {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestCompactCutsResources: of a cluster that reports too many resources, the cache keeps those
// whose names sort first.
func TestCompactCutsResources(t *testing.T) {
	resources := func(from, to int) v1alpha1.ResourceList {
		list := v1alpha1.ResourceList{}
		for i := from; i < to; i++ {
			list[v1alpha1.ResourceName(fmt.Sprintf("example.com/%05d", i))] = *resource.NewQuantity(int64(i), resource.DecimalSI)
		}
		return list
	}
	for name, tc := range map[string]struct{ capacity, allocatable, wantCapacity, wantAllocatable v1alpha1.ResourceList }{
		"none":                 {},
		"as many as allowed":   {resources(0, 1_000), resources(500, 1_500), resources(0, 1_000), resources(500, 1_500)},
		"too much capacity":    {resources(0, 50_000), resources(0, 2), resources(0, 1_000), resources(0, 2)},
		"too much allocatable": {resources(0, 2), resources(1, 1_002), resources(0, 2), resources(1, 1_001)},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := fixture.Cluster("c").Obj()
			cluster.Status.Capacity, cluster.Status.Allocatable = tc.capacity, tc.allocatable
			if got, err := compact(cluster); err != nil || got != any(cluster) {
				t.Errorf("got %v, %v", got, err)
			}
			if diff := cmp.Diff(tc.wantCapacity, cluster.Status.Capacity); diff != "" {
				t.Errorf("capacity (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantAllocatable, cluster.Status.Allocatable); diff != "" {
				t.Errorf("allocatable (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCompactKeepsWhatDecisionsRead: the cache keeps the clusters of a change, and how much of a
// superseded change was made.
func TestCompactKeepsWhatDecisionsRead(t *testing.T) {
	before, after := []string{"a", "b", "c"}, []string{"b", "c", "d"}
	for range 100 {
		before = append(before, fmt.Sprint("cluster-", len(before)))
	}
	record := changes.NewRecord(fixture.Placement("n", "p").Obj(), 0, 2, changes.NewChange(before, after))
	now := metav1.NewTime(fixture.Now)
	record.UID, record.ResourceVersion = "0e6f3e0b-32a7-4f7c-8f0b-6f6a1b8f2a10", "7"
	record.Status = berthv1alpha1.PlacementChangeStatus{
		Phase: berthv1alpha1.PhaseSuperseded, PermittedTime: &now, Remaining: &berthv1alpha1.RemainingClusters{Added: 1, Removed: 100},
	}
	kept, err := compact(record.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	packed := kept.(*changes.PackedRecord).Record()
	if got, want := changes.RemovedInPart(packed), changes.RemovedInPart(record); got != want || want == 0 {
		t.Errorf("%d clusters were removed, want %d", got, want)
	}
	got, err := changes.Before(packed, after)
	if err != nil || !slices.Equal(got, changes.Sorted(before)) {
		t.Errorf("before: %v, %v", got, err)
	}
}

func TestProfilesNeedPages(t *testing.T) {
	f := newMemoryFeed(t)
	cfg := &rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: "missing"}}
	if _, err := buildProfiles(t.Context(), &memoryManager{}, cfg, f.feed, nil, true, Options{}); !strings.HasPrefix(errorText(err), "building the pages client: ") {
		t.Errorf("got %v", err)
	}
	profiles, err := buildProfiles(t.Context(), &memoryManager{}, cfg, f.feed, nil, false, Options{})
	if err != nil || profiles[config.DefaultProfile] == nil {
		t.Errorf("got %v, %v", profiles, err)
	}
}
