package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// setOf returns an ApplicationSet with generators in YAML.
func setOf(t *testing.T, name, generators string) unstructured.Unstructured {
	t.Helper()
	var content map[string]any
	if err := yaml.Unmarshal(fmt.Appendf(nil, "metadata: {namespace: argocd, name: %s}\nspec: {generators: %s}", name, generators), &content); err != nil {
		t.Fatal(err)
	}
	return unstructured.Unstructured{Object: content}
}

func TestReadingOf(t *testing.T) {
	const label = "cluster.open-cluster-management.io/placement"
	web, other := types.NamespacedName{Namespace: "argocd", Name: "web"}, types.NamespacedName{Namespace: "shop", Name: "web"}
	decision, plugin := generatorReading{decision: true}, generatorReading{plugin: true}
	for name, tc := range map[string]struct {
		generators string
		placement  types.NamespacedName
		want       generatorReading
	}{
		"a label":                          {`[{list: {}}, {clusterDecisionResource: {labelSelector: {matchLabels: {` + label + `: web}}}}]`, web, decision},
		"another Placement":                {`[{clusterDecisionResource: {labelSelector: {matchLabels: {` + label + `: api}}}}]`, web, generatorReading{}},
		"another namespace":                {`[{clusterDecisionResource: {labelSelector: {matchLabels: {` + label + `: web}}}}]`, other, generatorReading{}},
		"a decision group":                 {`[{clusterDecisionResource: {labelSelector: {matchLabels: {` + label + `: web, group: canary}}}}]`, web, decision},
		"labels of all Placements":         {`[{clusterDecisionResource: {labelSelector: {matchLabels: {group: canary}}}}]`, web, decision},
		"an expression":                    {`[{clusterDecisionResource: {labelSelector: {matchExpressions: [{key: ` + label + `, operator: In, values: [api, web]}]}}}]`, web, decision},
		"an expression without it":         {`[{clusterDecisionResource: {labelSelector: {matchExpressions: [{key: ` + label + `, operator: NotIn, values: [web]}]}}}]`, web, generatorReading{}},
		"an invalid selector":              {`[{clusterDecisionResource: {labelSelector: {matchExpressions: [{key: a, operator: Nosuch}]}}}]`, web, generatorReading{}},
		"a selector of the wrong type":     {`[{clusterDecisionResource: {labelSelector: {matchLabels: [a]}}}]`, web, generatorReading{}},
		"no selector":                      {`[{clusterDecisionResource: {configMapRef: x}}]`, web, generatorReading{}},
		"a page":                           {`[{clusterDecisionResource: {name: web-decision-2}}]`, web, decision},
		"a page of another":                {`[{clusterDecisionResource: {name: web2-decision-1}}]`, web, generatorReading{}},
		"a name that is no page":           {`[{clusterDecisionResource: {name: web}}]`, web, generatorReading{}},
		"inside a matrix":                  {`[{matrix: {generators: [{git: {}}, {clusterDecisionResource: {name: web-decision-1}}]}}]`, web, decision},
		"inside a merge inside a matrix":   {`[{matrix: {generators: [{merge: {generators: [{plugin: {input: {parameters: {placement: shop/web}}}}]}}]}}]`, other, plugin},
		"too deep":                         {strings.Repeat(`[{matrix: {generators: `, 9) + `[{clusterDecisionResource: {name: web-decision-1}}]` + strings.Repeat(`}}]`, 9), web, generatorReading{}},
		"a plugin with a namespace":        {`[{plugin: {input: {parameters: {placement: web, namespace: shop}}}}]`, other, plugin},
		"a plugin without the namespace":   {`[{plugin: {input: {parameters: {placement: web}}}}]`, other, generatorReading{}},
		"a plugin of something else":       {`[{plugin: {input: {parameters: {repository: web}}}}]`, other, generatorReading{}},
		"a plugin with a template":         {`[{plugin: {input: {parameters: {placement: "shop/{{.app}}"}}}}]`, other, plugin},
		"a plugin for another Placement":   {`[{plugin: {input: {parameters: {placement: shop/api}}}}]`, other, generatorReading{}},
		"a plugin with a list as its name": {`[{plugin: {input: {parameters: {placement: [web]}}}}]`, other, generatorReading{}},
		"generators of the wrong type":     {`[a, 7, {matrix: x}, {plugin: y}, {clusterDecisionResource: z}]`, web, generatorReading{}},
		"no generators":                    {`{}`, web, generatorReading{}},
	} {
		t.Run(name, func(t *testing.T) {
			set := setOf(t, "set", tc.generators)
			if got := readingOf(&set, tc.placement); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// applicationSets is a hub with ApplicationSets, and the seconds at which they were annotated.
type applicationSets struct {
	client.Client
	began time.Time

	mu      sync.Mutex
	sets    []unstructured.Unstructured
	err     error
	lists   int
	patched []string
	// value is the annotation of each ApplicationSet, which Argo CD keeps while it cannot read.
	value map[string]string
}

func (h *applicationSets) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lists++
	if h.err != nil {
		return h.err
	}
	o := (&client.ListOptions{}).ApplyOptions(opts)
	all := list.(*unstructured.UnstructuredList)
	if all.GetAPIVersion() != "argoproj.io/v1alpha1" || all.GetKind() != "ApplicationSetList" {
		return fmt.Errorf("a list of %s", all.GroupVersionKind())
	}
	all.Items = nil
	for _, set := range h.sets {
		if set.GetNamespace() == o.Namespace {
			set := *set.DeepCopy()
			if value := h.value[set.GetName()]; value != "" {
				set.SetAnnotations(map[string]string{refreshAnnotation: value})
			}
			all.Items = append(all.Items, set)
		}
	}
	return nil
}

func (h *applicationSets) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	text, _ := patch.Data(object)
	var patched metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &patched); err != nil {
		return err
	}
	value := patched.Annotations["argocd.argoproj.io/application-set-refresh"]
	if value == "" || value == h.value[object.GetName()] {
		return errors.New("Argo CD does not see the patch " + string(text))
	}
	h.value[object.GetName()] = value
	h.patched = append(h.patched, fmt.Sprintf("%s at %.1f", object.GetName(), time.Since(h.began).Seconds()))
	return nil
}

// taken returns what was annotated since the last call.
func (h *applicationSets) taken() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := h.patched
	h.patched = nil
	return taken
}

// refreshing runs a test of the plugin on a hub with these ApplicationSets.
func refreshing(t *testing.T, sets map[string]string, test func(t *testing.T, h *applicationSets, publish func(namespace, name string))) {
	synctest.Test(t, func(t *testing.T) {
		h := &applicationSets{began: time.Now(), value: map[string]string{}}
		for name, generators := range sets {
			h.sets = append(h.sets, setOf(t, name, generators))
		}
		plugin, err := NewArgoCDRefresh(t.Context(), nil, &framework.Handle{Client: h})
		if err != nil {
			t.Fatal(err)
		}
		test(t, h, func(namespace, name string) {
			plugin.(framework.PostBindPlugin).PostBind(t.Context(), nil, fixture.Placement(namespace, name).Obj(), &framework.Proposal{Writes: []framework.PageWrite{{}}})
		})
	})
}

const (
	readsWeb = `[{clusterDecisionResource: {labelSelector: {matchLabels: {cluster.open-cluster-management.io/placement: web}}}}]`
	asksWeb  = `[{plugin: {input: {parameters: {placement: shop/web}}}}]`
)

// after waits, and compares what was annotated.
func (h *applicationSets) after(t *testing.T, wait time.Duration, want ...string) {
	t.Helper()
	time.Sleep(wait) // in the time of the test only
	synctest.Wait()
	if diff := cmp.Diff(want, h.taken()); diff != "" {
		t.Errorf("annotated (-want +got):\n%s", diff)
	}
}

// TestRefreshesAreBounded: a change is sent at once, and changes within a second at its end.
func TestRefreshesAreBounded(t *testing.T) {
	refreshing(t, map[string]string{"web": readsWeb, "api": strings.Replace(readsWeb, "web", "api", 1)}, func(t *testing.T, h *applicationSets, publish func(string, string)) {
		publish("argocd", "web")
		h.after(t, time.Millisecond, "web at 0.0")
		for range 100 {
			publish("argocd", "web")
		}
		publish("argocd", "unread")
		h.after(t, 900*time.Millisecond)
		h.after(t, 200*time.Millisecond, "web at 1.0")
		h.after(t, time.Minute)
		if h.lists != 2 {
			t.Errorf("the hub was asked %d times", h.lists)
		}
		publish("argocd", "web")
		h.after(t, time.Millisecond, "web at 61.1")
	})
}

// TestRefreshOfPlugins: an ApplicationSet in another namespace that asks berth generator is
// refreshed a second later again.
func TestRefreshOfPlugins(t *testing.T) {
	refreshing(t, map[string]string{"asks": asksWeb, "reads": readsWeb}, func(t *testing.T, h *applicationSets, publish func(string, string)) {
		publish("shop", "web")
		h.after(t, time.Minute, "asks at 0.0", "asks at 1.0")
	})
}

// TestRefreshIsRepeated after errors, with growing pauses, but not forever.
func TestRefreshIsRepeated(t *testing.T) {
	refreshing(t, map[string]string{"web": readsWeb}, func(t *testing.T, h *applicationSets, publish func(string, string)) {
		h.err = errors.New("down")
		publish("argocd", "web")
		h.after(t, time.Second/2)
		h.err = nil
		h.after(t, time.Minute, "web at 1.0")

		h.err = errors.New("down")
		before := h.lists
		publish("argocd", "web")
		h.after(t, time.Hour)
		if asked := h.lists - before; asked != maxRefreshTries {
			t.Errorf("the hub was asked %d times, want %d", asked, maxRefreshTries)
		}
	})
}

// TestRefreshWithoutArgoCD: without the kind, the hub is asked once a minute at most.
func TestRefreshWithoutArgoCD(t *testing.T) {
	for name, err := range map[string]error{
		"never served":     &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "argoproj.io", Kind: "ApplicationSet"}},
		"no longer served": apierrors.NewNotFound(schema.GroupResource{Group: "argoproj.io", Resource: "applicationsets"}, ""),
	} {
		t.Run(name, func(t *testing.T) {
			refreshing(t, map[string]string{"web": readsWeb}, func(t *testing.T, h *applicationSets, publish func(string, string)) {
				h.err = err
				publish("argocd", "web")
				h.after(t, 2*time.Second)
				for range 50 {
					publish("argocd", "web")
				}
				h.after(t, absentTime)
				if h.lists != 1 {
					t.Errorf("the hub was asked %d times", h.lists)
				}
				h.err = nil
				publish("argocd", "web")
				h.after(t, time.Millisecond, "web at 62.0")
			})
		})
	}
}

// TestRefreshesWaitInBounds: however many Placements change at once.
func TestRefreshesWaitInBounds(t *testing.T) {
	refreshing(t, nil, func(t *testing.T, h *applicationSets, _ func(string, string)) {
		r := newRefreshes(t.Context(), h)
		r.mu.Lock()
		for i := range maxRefreshes + 10 {
			r.addLocked("argocd", types.NamespacedName{Namespace: "argocd", Name: fmt.Sprint(i)}, refresh{at: time.Now()})
		}
		if r.count != maxRefreshes || len(r.waiting["argocd"]) != maxRefreshes {
			t.Errorf("%d wait", r.count)
		}
		r.mu.Unlock()
		h.after(t, time.Minute)
		if h.lists != 1 || r.count != 0 || len(r.waiting) != 0 {
			t.Errorf("the hub was asked %d times, %d wait", h.lists, r.count)
		}
	})
}

func TestRefreshArguments(t *testing.T) {
	for name, tc := range map[string]struct{ args, want string }{
		"none":           {``, ""},
		"no namespaces":  {`{"pluginNamespaces": []}`, ""},
		"two":            {`{"pluginNamespaces": ["argocd", "gitops"]}`, ""},
		"no namespace":   {`{"pluginNamespaces": ["argocd", "A/b"]}`, "pluginNamespaces[1]: "},
		"an unknown one": {`{"namespace": "a"}`, "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewArgoCDRefresh(t.Context(), []byte(tc.args), nil)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("the error is %v, want %q", err, tc.want)
			}
		})
	}
}

// TestNoRefreshWithoutWrites, and none in a simulation.
func TestNoRefreshWithoutWrites(t *testing.T) {
	refreshing(t, map[string]string{"web": readsWeb}, func(t *testing.T, h *applicationSets, _ func(string, string)) {
		pl := fixture.Placement("argocd", "web").Obj()
		for name, tc := range map[string]struct {
			handle   *framework.Handle
			proposal *framework.Proposal
		}{
			"a simulation": {&framework.Handle{}, &framework.Proposal{Writes: []framework.PageWrite{{}}}},
			"no writes":    {&framework.Handle{Client: h}, &framework.Proposal{}},
		} {
			plugin, err := NewArgoCDRefresh(t.Context(), nil, tc.handle)
			if err != nil {
				t.Fatal(err)
			}
			plugin.(framework.PostBindPlugin).PostBind(t.Context(), nil, pl, tc.proposal)
			h.after(t, time.Minute)
			if h.lists > 0 {
				t.Errorf("%s: the hub was asked", name)
			}
		}
	})
}
