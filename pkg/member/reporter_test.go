package member

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	applycoordinationv1 "k8s.io/client-go/applyconfigurations/coordination/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// fakeMember answers like an API server with the nodes given. fails is the status of the next
// answers of /readyz; 0 is 200.
type fakeMember struct {
	*httptest.Server
	mu     sync.Mutex
	nodes  string
	fails  []int
	probes int
	token  string
}

func newFakeMember(t *testing.T, nodes string) *fakeMember {
	m := &fakeMember{nodes: nodes}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

func (m *fakeMember) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.token = r.Header.Get("Authorization")
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/readyz":
		m.probes++
		status := 0
		if len(m.fails) > 0 {
			status, m.fails = m.fails[0], m.fails[1:]
		}
		if status != 0 {
			w.WriteHeader(status)
			_, _ = fmt.Fprint(w, "[-]etcd failed: reason withheld\n")
		}
	case "/version":
		_, _ = fmt.Fprint(w, `{"gitVersion": "v1.36.3"}`)
	case "/api/v1/nodes":
		_, _ = fmt.Fprintf(w, `{"kind": "NodeList", "apiVersion": "v1", "items": [%s]}`, m.nodes)
	default:
		http.NotFound(w, r)
	}
}

func (m *fakeMember) fail(statuses ...int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails = statuses
}

// memoryHub is a hub in memory, with the namespaces given. leaseError is met by all writes of
// Leases.
func memoryHub(t *testing.T, leaseError *atomic.Pointer[error], namespaces []string, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	known := map[string]bool{}
	for _, namespace := range namespaces {
		known[namespace] = true
	}
	failing := func(o client.Object) error {
		if _, ok := o.(*coordinationv1.Lease); ok && leaseError.Load() != nil {
			return *leaseError.Load()
		}
		return nil
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.ManagedCluster{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				return errors.New("the reporter may not create an object without its name in the request")
			},
			Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
				if namespace := *o.(*applycoordinationv1.LeaseApplyConfiguration).Namespace; !known[namespace] {
					return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, namespace)
				}
				return c.Apply(ctx, o, options...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
				if err := failing(o); err != nil {
					return err
				}
				return c.Patch(ctx, o, patch, options...)
			},
		}).Build()
}

func clusterOf(t *testing.T, hub client.Client) *v1alpha1.ManagedCluster {
	t.Helper()
	var c v1alpha1.ManagedCluster
	if err := hub.Get(t.Context(), client.ObjectKey{Name: "a"}, &c); err != nil {
		t.Fatal(err)
	}
	return &c
}

func leaseOf(t *testing.T, hub client.Client) *coordinationv1.Lease {
	t.Helper()
	var l coordinationv1.Lease
	if err := hub.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "managed-cluster-lease"}, &l); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		t.Fatal(err)
	}
	return &l
}

// available is the status, reason and message of the cluster's condition.
func available(t *testing.T, hub client.Client) string {
	t.Helper()
	condition := meta.FindStatusCondition(clusterOf(t, hub).Status.Conditions, v1alpha1.ManagedClusterConditionAvailable)
	if condition == nil {
		return "absent"
	}
	return fmt.Sprintf("%s %s: %s", condition.Status, condition.Reason, condition.Message)
}

// reporterOf returns a reporter of the cluster a that repeats a failed probe at once.
func reporterOf(t *testing.T, hub client.Client, host string, threshold int) *Reporter {
	t.Helper()
	r, err := NewReporter("a", hub, &rest.Config{Host: host}, threshold)
	if err != nil {
		t.Fatal(err)
	}
	r.member.Load().pause = time.Nanosecond
	return r
}

const ready = "True ManagedClusterAvailable: The member answers and is ready"

// TestGrace: which answers of /readyz, one for each probe, change Available with a threshold of 3.
func TestGrace(t *testing.T) {
	t.Parallel()
	const notReady = "False ManagedClusterUnavailable: The member answers /readyz with 500: "
	const silent = "Unknown ManagedClusterUnreachable: The member does not respond: "
	tests := map[string]struct {
		answers [][]int // of each report: the first probe, and its repetition
		want    string
		wantErr string
	}{
		"one failed probe is repeated":             {answers: [][]int{{401}}, want: ready},
		"one failure":                              {answers: [][]int{{401, 401}}, want: ready, wantErr: "failure 1 of 3 in a row, so the condition Available stays as it was: "},
		"two failures":                             {answers: [][]int{{401, 401}, {500, 401}}, want: ready, wantErr: "failure 2 of 3 in a row"},
		"three failures in a row":                  {answers: [][]int{{401, 401}, {401, 401}, {401, 401}}, want: silent},
		"three failures, but not in a row":         {answers: [][]int{{401, 401}, {401, 401}, {}, {401, 401}}, want: ready, wantErr: "failure 1 of 3 in a row"},
		"the last failure decides between the two": {answers: [][]int{{401, 401}, {401, 401}, {401, 500}}, want: notReady},
		"it answers again, and counts from 1":      {answers: [][]int{{500, 401}, {401, 500}, {500, 500}, {}, {401, 401}}, want: ready, wantErr: "failure 1 of 3 in a row"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newFakeMember(t, "")
			hub := memoryHub(t, new(atomic.Pointer[error]), []string{"a"}, fixture.Cluster("a").Obj())
			r := reporterOf(t, hub, m.URL, 3)
			said := &problems{say: func(string) {}}
			if _, err := r.report(t.Context(), said); err != nil {
				t.Fatal(err)
			}
			var last error
			for _, answers := range tc.answers {
				m.fail(answers...)
				_, last = r.report(t.Context(), said)
			}
			got := available(t, hub)
			if !strings.HasPrefix(got, tc.want) || (tc.want != ready && len(got) == len(tc.want)) {
				t.Errorf("got %q, want %q and the error", got, tc.want)
			}
			if (last == nil) != (tc.wantErr == "") || last != nil && (!strings.Contains(last.Error(), tc.wantErr) || !errors.Is(last, ErrNoAnswer)) {
				t.Errorf("got error %v, want %q", last, tc.wantErr)
			}
		})
	}
}

func TestOnce(t *testing.T) {
	t.Parallel()
	hub := memoryHub(t, new(atomic.Pointer[error]), []string{"a"}, fixture.Cluster("a").Obj())
	line, err := reporterOf(t, hub, newFakeMember(t, "").URL, 1).Once(t.Context())
	if err != nil || line != "available True, allocatable cpu 0, memory 0, 0 claims, version v1.36.3" {
		t.Errorf("got %q, error %v", line, err)
	}
	if leaseOf(t, hub) != nil {
		t.Error("it created a lease, which would expire")
	}
	before := clusterOf(t, hub).ResourceVersion
	line, err = reporterOf(t, hub, "http://127.0.0.1:1", 1).Once(t.Context())
	if line != "" || !errors.Is(err, ErrNoAnswer) || !strings.Contains(err.Error(), "connection refused") || clusterOf(t, hub).ResourceVersion != before {
		t.Errorf("got %q, error %v, and %s", line, err, available(t, hub))
	}
}

// TestResources: a member without nodes has zero resources, as has one whose nodes take no pods.
func TestResources(t *testing.T) {
	t.Parallel()
	node := func(cordoned bool) string {
		return fmt.Sprintf(`{"spec": {"unschedulable": %t}, "status": {"capacity": {"cpu": "4", "pods": "10"}, "allocatable": {"cpu": "3500m", "memory": "1Gi"}}}`, cordoned)
	}
	for name, tc := range map[string]struct {
		nodes                     string
		wantCapacity, wantAllowed map[string]string
	}{
		"no node":       {"", map[string]string{"cpu": "0", "memory": "0"}, map[string]string{"cpu": "0", "memory": "0"}},
		"two nodes":     {node(false) + "," + node(true), map[string]string{"cpu": "8", "memory": "0", "pods": "20"}, map[string]string{"cpu": "3500m", "memory": "1Gi"}},
		"cordoned only": {node(true), map[string]string{"cpu": "4", "memory": "0", "pods": "10"}, map[string]string{"cpu": "0", "memory": "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newFakeMember(t, tc.nodes)
			hub := memoryHub(t, new(atomic.Pointer[error]), nil, fixture.Cluster("a").Allocatable("cpu", "99").Obj())
			r := reporterOf(t, hub, m.URL, 1)
			if _, err := r.Once(t.Context()); err != nil {
				t.Fatal(err)
			}
			quantities := func(list v1alpha1.ResourceList) map[string]string {
				text := map[string]string{}
				for name, q := range list {
					text[string(name)] = q.String()
				}
				return text
			}
			status := clusterOf(t, hub).Status
			if diff := cmp.Diff(tc.wantCapacity, quantities(status.Capacity)); diff != "" {
				t.Errorf("capacity (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantAllowed, quantities(status.Allocatable)); diff != "" {
				t.Errorf("allocatable (-want +got):\n%s", diff)
			}
			if line, err := r.Once(t.Context()); line != "" || err != nil {
				t.Errorf("the second report says %q, error %v", line, err)
			}
		})
	}
}

// TestLease: what the first report says about the lease, and which lease there is then.
func TestLease(t *testing.T) {
	t.Parallel()
	old := func() *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "managed-cluster-lease"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("agent"), RenewTime: new(metav1.NewMicroTime(time.Now().Add(-time.Hour)))},
		}
	}
	forbidden := error(apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "managed-cluster-lease", errors.New("no")))
	tests := map[string]struct {
		namespaces []string
		lease      *coordinationv1.Lease
		leaseErr   error
		expired    bool
		wantHolder string
		wantSaid   string
		want       string
	}{
		"is created":            {namespaces: []string{"a"}, wantHolder: "managed-cluster-lease", want: ready},
		"is renewed":            {lease: old(), wantHolder: "agent", want: ready},
		"the namespace missing": {wantSaid: "the hub has no namespace a: create it with kubectl create namespace a", want: ready},
		"it is forbidden":       {lease: old(), leaseErr: forbidden, wantHolder: "agent", wantSaid: "forbidden", want: ready},
		// Otherwise the hub would turn it to Unknown again: Available would flap.
		"it is forbidden, and the lease expired": {
			lease: old(), leaseErr: forbidden, expired: true, wantHolder: "agent", wantSaid: "forbidden", want: "Unknown ManagedClusterLeaseUpdateStopped: ",
		},
		"the lease expired": {lease: old(), expired: true, wantHolder: "agent", want: ready},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := fixture.Cluster("a").Obj()
			if tc.expired {
				c = fixture.Cluster("a").Condition(v1alpha1.ManagedClusterConditionAvailable, metav1.ConditionUnknown, metav1.Now()).Obj()
				c.Status.Conditions[0].Reason = v1alpha1.ReasonLeaseUpdateStopped
			}
			objects := []client.Object{c}
			if tc.lease != nil {
				objects = append(objects, tc.lease)
			}
			leaseErr := new(atomic.Pointer[error])
			if tc.leaseErr != nil {
				leaseErr.Store(&tc.leaseErr)
			}
			hub := memoryHub(t, leaseErr, tc.namespaces, objects...)
			r := reporterOf(t, hub, newFakeMember(t, "").URL, 1)
			var said []string
			_, err := r.report(t.Context(), &problems{say: func(line string) { said = append(said, line) }})
			if (err != nil) != (tc.want != ready) {
				t.Errorf("got error %v", err)
			}
			if got := strings.Join(said, "\n"); !strings.Contains(got, tc.wantSaid) || (got == "") != (tc.wantSaid == "") {
				t.Errorf("it says %q, want %q", got, tc.wantSaid)
			}
			if got := available(t, hub); !strings.HasPrefix(got, tc.want) {
				t.Errorf("Available is %q, want %q", got, tc.want)
			}
			l := leaseOf(t, hub)
			if l == nil {
				if tc.wantHolder != "" {
					t.Error("there is no lease")
				}
				return
			}
			if *l.Spec.HolderIdentity != tc.wantHolder || (time.Since(l.Spec.RenewTime.Time) < time.Minute) != (tc.leaseErr == nil) {
				t.Errorf("the lease is %v", l.Spec)
			}
			if tc.lease == nil && l.Labels["open-cluster-management.io/cluster-name"] != "a" {
				t.Errorf("the labels are %v", l.Labels)
			}
		})
	}
}
