package housekeeping

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/memoryhub"
)

var (
	notFound  = apierrors.NewNotFound(profileResource.GroupResource(), "a")
	forbidden = apierrors.NewForbidden(profileResource.GroupResource(), "a", errors.New("no"))
)

// liveProfiles answers reads past the cache: of profiles with an error, or one that exists, and of
// their definition.
type liveProfiles struct {
	client.Reader
	profile, definition error
	uid                 types.UID
	terminating         bool
}

func (l *liveProfiles) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if o.GetObjectKind().GroupVersionKind() == profileKind {
		return l.profile
	}
	o.SetUID(l.uid)
	if l.terminating {
		o.SetDeletionTimestamp(&metav1.Time{Time: fixture.Now})
	}
	return l.definition
}

// profileLoop is the reconciler on a hub in memory, and the events that it sent.
type profileLoop struct {
	*ClusterProfileReconciler
	hub    *memoryhub.Hub
	live   *liveProfiles
	events []string
	now    time.Time
}

func newProfileLoop(t *testing.T, objects ...client.Object) *profileLoop {
	t.Helper()
	l := &profileLoop{hub: newMemoryHub(t, objects...), live: &liveProfiles{profile: notFound, uid: "crd"}, now: fixture.Now}
	l.ClusterProfileReconciler = &ClusterProfileReconciler{
		Client: l.hub, Hub: l.live,
		Options: Options{
			ClusterProfiles: ClusterProfileOptions{Namespaces: []string{"fleet", "other"}}, Now: func() time.Time { return l.now }, Log: logr.Discard(),
			Event: func(o corev1.ObjectReference, eventType, reason, _, note string) {
				l.events = append(l.events, fmt.Sprintf("%s %s/%s %s %s: %s", o.Kind, o.Namespace, o.Name, eventType, reason, note))
			},
		},
	}
	if err := l.SetUp(t.Context(), memoryhub.NewManager(t, l.hub)); err != nil {
		t.Fatal(err)
	}
	return l
}

// list makes the profiles of namespaces known.
func (l *profileLoop) list(profiles ...*unstructured.Unstructured) {
	byNamespace := map[string][]*clusterProfile{"fleet": nil, "other": nil}
	for _, u := range profiles {
		byNamespace[u.GetNamespace()] = append(byNamespace[u.GetNamespace()], readProfile(u, "crd"))
	}
	for namespace, list := range byNamespace {
		l.views.replace(namespace, list)
	}
}

func (l *profileLoop) reconcile(t *testing.T, name string) (ctrl.Result, error) {
	t.Helper()
	return l.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
}

// made is the cluster "a" that the loop made from a profile.
func made(mark string) *v1alpha1.ManagedCluster {
	return fixture.Cluster("a").Annotation(v1alpha1.ClusterProfileAnnotation, mark).Obj()
}

// TestClustersStayInDoubt: only a profile that the hub does not have, of a definition that it still
// has, ends its cluster.
func TestClustersStayInDoubt(t *testing.T) {
	noKind := &meta.NoKindMatchError{GroupKind: profileKind.GroupKind()}
	tests := map[string]struct {
		live     liveProfiles
		mark     string
		unlisted bool
		writes   []string
		again    bool
		wantErr  string
	}{
		"deleted":                         {writes: []string{"delete /a"}},
		"not listed yet":                  {unlisted: true},
		"it exists":                       {live: liveProfiles{uid: "crd"}, again: true},
		"it may not be read":              {live: liveProfiles{profile: forbidden, uid: "crd"}, wantErr: "reading ClusterProfile fleet/a"},
		"the hub does not answer":         {live: liveProfiles{profile: errors.New("timeout"), uid: "crd"}, wantErr: "timeout"},
		"the kind is not served":          {live: liveProfiles{profile: noKind, definition: notFound}},
		"the definition is gone":          {live: liveProfiles{profile: notFound, definition: notFound}},
		"the definition ends":             {live: liveProfiles{profile: notFound, uid: "crd", terminating: true}},
		"the definition is another":       {live: liveProfiles{profile: notFound, uid: "another"}},
		"the definition may not be read":  {live: liveProfiles{profile: notFound, definition: forbidden}, wantErr: "reading the CustomResourceDefinition"},
		"a namespace that is not watched": {mark: "elsewhere/a uid-of-a crd"},
		"marked by a person":              {mark: "fleet/a"},
		"marked, and no profile":          {mark: "a"},
		"not marked":                      {mark: " "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.mark == "" {
				tc.mark = "fleet/a uid-of-a crd"
			}
			l := newProfileLoop(t, made(tc.mark))
			if tc.live != (liveProfiles{}) {
				*l.live = tc.live
			}
			if !tc.unlisted {
				l.list()
			}
			result, err := l.reconcile(t, "a")
			if (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("got error %v", err)
			}
			if diff := cmp.Diff(tc.writes, l.hub.Written); diff != "" || (result.RequeueAfter > 0) != tc.again {
				t.Errorf("%s, again after %s", diff, result.RequeueAfter)
			}
		})
	}
}

func TestProfileEvents(t *testing.T) {
	l := newProfileLoop(t, fixture.Cluster("a").Obj())
	p := profileObject("fleet", "a", nil, nil)
	l.list(p)
	reconciled := func(step string, want int) {
		t.Helper()
		if _, err := l.reconcile(t, "a"); err != nil {
			t.Fatal(err)
		}
		if len(l.events) != want {
			t.Errorf("%s: %q", step, l.events)
		}
	}
	reconciled("first", 1)
	if want := "ClusterProfile fleet/a Warning ClusterNameTaken: ManagedCluster a exists and was not made from a ClusterProfile; it is not changed"; l.events[0] != want {
		t.Errorf("got %q", l.events)
	}
	l.now = l.now.Add(eventRepeat - 1)
	reconciled("the same", 1)
	l.now = l.now.Add(1)
	reconciled("after an hour", 2)
	mark := func(text string) {
		t.Helper()
		c := made(text)
		if err := l.hub.Patch(t.Context(), c, client.Merge); err != nil {
			t.Fatal(err)
		}
	}
	mark("other/a")
	l.live.profile = nil
	reconciled("another text, at once", 2)
	l.now = l.now.Add(eventPause)
	reconciled("another text", 3)
	l.views.remove(types.NamespacedName{Namespace: "fleet", Name: "a"})
	l.forget(types.NamespacedName{Namespace: "fleet", Name: "a"})
	if len(l.sent) != 0 {
		t.Errorf("remembered: %v", l.sent)
	}
	l.list(p)
	reconciled("a new profile", 4)
}

func TestNewClusters(t *testing.T) {
	older := profileObject("other", "a", nil, nil)
	older.SetCreationTimestamp(fixture.At(-10))
	younger := profileObject("fleet", "a", nil, nil)
	younger.SetCreationTimestamp(fixture.At(0))
	unreadable := profileObject("fleet", "a", nil, map[string]any{"properties": "x"})
	tests := map[string]struct {
		has       client.Object
		profiles  []*unstructured.Unstructured
		qualified bool
		refuse    error
		name      string
		writes    []string
		event     string
		wantErr   bool
	}{
		"the oldest is first": {profiles: []*unstructured.Unstructured{younger, older}, writes: []string{"create /a", "patch status /a"}},
		"nobody wants it":     {name: "b", profiles: []*unstructured.Unstructured{older}},
		"its cluster has a name": {
			has: made("other/a 1 2"), qualified: true, name: "other.a", profiles: []*unstructured.Unstructured{older},
			event: `ClusterProfile other/a Warning ClusterHasOtherName: ManagedCluster "other.a" is not made, because ManagedCluster "a" has the annotation berth.dev/cluster-profile`,
		},
		"unreadable": {
			profiles: []*unstructured.Unstructured{unreadable}, event: "ClusterProfile fleet/a Warning ClusterProfileNotReadable: There is no ManagedCluster for it: cannot restore slice",
		},
		"unreadable, and a cluster": {
			has: made("fleet/a 1 2"), profiles: []*unstructured.Unstructured{unreadable}, event: "ClusterProfile fleet/a Warning ClusterProfileNotReadable: ManagedCluster a stays as it is: ",
		},
		"refused": {
			profiles: []*unstructured.Unstructured{older}, refuse: forbidden, writes: []string{"create /a"}, event: "ClusterProfile other/a Warning ClusterRefused: ", wantErr: true,
		},
		"another was first": {profiles: []*unstructured.Unstructured{older}, refuse: apierrors.NewAlreadyExists(schema.GroupResource{}, "a"), writes: []string{"create /a"}},
		"the hub fails":     {profiles: []*unstructured.Unstructured{older}, refuse: errors.New("timeout"), writes: []string{"create /a"}, wantErr: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			if tc.has != nil {
				objects = append(objects, tc.has)
			}
			l := newProfileLoop(t, objects...)
			l.ClusterProfiles.Qualified, l.hub.WriteError = tc.qualified, tc.refuse
			l.list(tc.profiles...)
			if tc.name == "" {
				tc.name = "a"
			}
			if _, err := l.reconcile(t, tc.name); (err != nil) != tc.wantErr {
				t.Errorf("got error %v", err)
			}
			if diff := cmp.Diff(tc.writes, l.hub.Written); diff != "" {
				t.Error(diff)
			}
			if got := strings.Join(l.events, "\n"); !strings.HasPrefix(got, tc.event) || tc.event == "" && got != "" {
				t.Errorf("events %s", got)
			}
			if tc.writes == nil || tc.refuse != nil {
				return
			}
			// At rest, and the second profile is told.
			if _, err := l.reconcile(t, "a"); err != nil || len(l.hub.Written) != len(tc.writes) {
				t.Errorf("not at rest: %v, %v", l.hub.Written, err)
			}
			if want := []string{"ClusterProfile fleet/a Warning ClusterNameTaken: ManagedCluster a was made from ClusterProfile other/a"}; !cmp.Equal(l.events, want) {
				t.Errorf("events %q", l.events)
			}
		})
	}
}

func TestClusterProfileOptions(t *testing.T) {
	const together = "--housekeeping: the controller cluster-profile and --cluster-profile-namespace need each other; for example --housekeeping=*,cluster-profile"
	for name, tc := range map[string]struct {
		namespaces []string
		runs       bool
		want       string
	}{
		"off":                    {},
		"on":                     {namespaces: []string{"a", "b"}, runs: true},
		"on, without namespaces": {runs: true, want: together},
		"off, with namespaces":   {namespaces: []string{"a"}, want: together},
		"no namespace":           {namespaces: []string{"a/b"}, runs: true, want: `--cluster-profile-namespace: "a/b" is no namespace: `},
		"all namespaces":         {namespaces: []string{""}, runs: true, want: `--cluster-profile-namespace: "" is no namespace: `},
		"twice":                  {namespaces: []string{"a", "a"}, runs: true, want: `--cluster-profile-namespace: "a" is given twice`},
	} {
		t.Run(name, func(t *testing.T) {
			err := (ClusterProfileOptions{Namespaces: tc.namespaces}).check(tc.runs)
			if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

// TestProfileViews: a namespace is followed through failures, and keeps what was read of it.
func TestProfileViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{profileResource: "ClusterProfileList"}, profileObject("fleet", "a", nil, nil), profileObject("other", "b", nil, nil))
		failure, failures, lists := error(notFound), 0, 0
		o := Options{Log: logr.Discard(), Retry: wait.Backoff{Duration: time.Second, Factor: 2, Steps: 6, Cap: 30 * time.Second}, OnReadFailed: func(error) { failures++ }}
		definition := func(context.Context) (types.UID, error) { return "crd", failure }
		hub.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			lists++
			return false, nil, nil
		})
		views := newProfileViews(o, hub, definition, func(key types.NamespacedName) string { return key.Name })
		changed := map[types.NamespacedName]int{}
		ctx, stop := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer stop()
		go views.follow(ctx, "fleet", func(key types.NamespacedName) { changed[key]++ })
		a := types.NamespacedName{Namespace: "fleet", Name: "a"}

		time.Sleep(10 * time.Second)
		if p, complete := views.get(a); p != nil || complete || failures != 4 || lists != 0 || len(changed) != 0 {
			t.Fatalf("without a definition: %v %t, %d failures, %d lists, %v", p, complete, failures, lists, changed)
		}
		failure = nil
		time.Sleep(30 * time.Second)
		if p, complete := views.get(a); p == nil || p.crd != "crd" || !complete || len(views.wanting("a")) != 1 || len(views.wanting("b")) != 0 {
			t.Fatalf("listed: %v %t", p, complete)
		}
		if diff := cmp.Diff(map[types.NamespacedName]int{a: 1, {Namespace: "fleet"}: 1}, changed); diff != "" {
			t.Error(diff)
		}
		profiles := hub.Resource(profileResource).Namespace("fleet")
		if _, err := profiles.Create(ctx, profileObject("fleet", "c", nil, nil), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := profiles.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if p, complete := views.get(a); p != nil || !complete || len(views.wanting("a")) != 0 || len(views.wanting("c")) != 1 || changed[a] != 2 {
			t.Errorf("watched: %v %t, %v", p, complete, changed)
		}
		if gone := views.replace("fleet", nil); len(gone) != 1 || gone[0].Name != "c" || len(views.wanted) != 0 {
			t.Errorf("gone: %v, wanted: %v", gone, views.wanted)
		}
	})
}
