package controllers

import (
	"context"
	"errors"
	"net/http"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1/fake"
	clienttesting "k8s.io/client-go/testing"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/memoryhub"
)

var queueConfigKey = types.NamespacedName{Namespace: "berth-system", Name: "queues"}

// notRead is what the queues say before there is a configuration.
const notRead = "there is no queue configuration yet"

// twoQueues is a valid configuration without warnings.
var twoQueues = fixture.Partition("queues:\n- name: root\n  submitacl: '*'\n  queues:\n  - name: a\n  - name: b")

func queueConfigMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: queueConfigKey.Namespace, Name: queueConfigKey.Name, UID: "u", ResourceVersion: "7"}, Data: data,
	}
}

// queueCache is a cache whose reads of the ConfigMap get getError. An informer cannot be had for a
// kind in informerErrors, and takes no handler if handlerError is set.
type queueCache struct {
	informertest.FakeInformers
	getError       error
	informerErrors map[string]error
	handlerError   error
}

func (c *queueCache) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return c.getError
}

func (c *queueCache) GetInformer(ctx context.Context, o client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := c.FakeInformers.GetInformer(ctx, o, options...)
	if err != nil {
		return nil, err
	}
	switch o.(type) {
	case *v1alpha1.PlacementDecision:
		err = c.informerErrors["PlacementDecision"]
	case *corev1.ConfigMap:
		err = c.informerErrors["ConfigMap"]
	}
	return refusingInformer{informer, c.handlerError}, err
}

// refusingInformer takes no handler if it has an error.
type refusingInformer struct {
	cache.Informer
	err error
}

func (i refusingInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	if i.err != nil {
		return nil, i.err
	}
	return i.Informer.AddEventHandler(handler)
}

// queueSetting is a queueConfig with what it writes to.
type queueSetting struct {
	*queueConfig
	cache    *queueCache
	affected []types.NamespacedName
	lines    []string
}

func newQueueSetting(t *testing.T) *queueSetting {
	t.Helper()
	scheme := memoryhub.Scheme(t)
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := &queueSetting{cache: &queueCache{FakeInformers: informertest.FakeInformers{Scheme: scheme}, informerErrors: map[string]error{}}}
	queues := admission.NewQueues(admission.QueuesOptions{
		Published:  func(types.NamespacedName) (string, int, int) { return "", 0, 0 },
		Recorded:   func(types.NamespacedName) (string, string) { return "", "" },
		OnAffected: func(keys []types.NamespacedName) { s.affected = append(s.affected, keys...) },
		Now:        func() time.Time { return fixture.Now },
	})
	s.queueConfig = &queueConfig{
		name: queueConfigKey, cache: s.cache, queues: queues, read: make(chan struct{}),
		events: newEventSender(&eventsclient.FakeEventsV1{Fake: &clienttesting.Fake{}}, logr.Discard()),
		log:    funcr.New(func(_, args string) { s.lines = append(s.lines, args) }, funcr.Options{}),
	}
	queues.Update(queued())
	return s
}

// queued is a Placement that asks for the queue root.a.
func queued() *v1alpha1.Placement {
	pl := fixture.Placement("n", "p").Obj()
	pl.Labels = map[string]string{"queue": "root.a"}
	return pl
}

// message is what the queues say of the Placement.
func (s *queueSetting) message() string { return s.queues.Admission(queued(), fixture.Now).Message }

// eventsOf are the waiting events, as "Warning Reason Action: note".
func eventsOf(s *eventSender) []string {
	var all []string
	for _, e := range s.waiting {
		all = append(all, e.Type+" "+e.Reason+" "+e.Action+" about "+e.Regarding.Kind+" "+e.Regarding.Namespace+"/"+e.Regarding.Name+": "+e.Note)
	}
	return all
}

// expectLines wants one line with each of these texts, in their order.
func expectLines(t *testing.T, lines []string, want ...string) {
	t.Helper()
	if !slices.EqualFunc(lines, want, strings.Contains) {
		t.Errorf("the log is %q, want lines with %q", lines, want)
	}
}

func TestConfigureQueues(t *testing.T) {
	const about = " ReadQueueConfig about ConfigMap berth-system/queues: "
	other := queueConfigMap(map[string]string{admission.QueuesKey: twoQueues})
	other.Name = "other"
	tests := map[string]struct {
		object     any
		wantQueues bool
		wantEvents []string
		wantLines  []string
	}{
		"valid":             {object: queueConfigMap(map[string]string{admission.QueuesKey: twoQueues}), wantQueues: true},
		"another ConfigMap": {object: other},
		"another kind":      {object: fixture.Set("s")},
		"a warning": {
			object:     queueConfigMap(map[string]string{admission.QueuesKey: twoQueues, "admissionController.accessControl.bypass": "true"}),
			wantQueues: true,
			wantEvents: []string{"Warning QueueConfigWarning" + about + "admissionController.accessControl.bypass: unknown setting"},
			wantLines:  []string{`"configMap"="berth-system/queues" "warning"="admissionController.accessControl.bypass: unknown setting"`},
		},
		"no key": {
			object:     queueConfigMap(map[string]string{"queue.yaml": twoQueues}),
			wantEvents: []string{"Warning QueueConfigInvalid" + about + "queue config is not set: data has no key queues.yaml"},
			wantLines:  []string{`"configMap"="berth-system/queues"`},
		},
		"no partition default": {
			object:     queueConfigMap(map[string]string{admission.QueuesKey: strings.Replace(twoQueues, "default", "other", 1)}),
			wantEvents: []string{"Warning QueueConfigWarning" + about + "line 2: partitions[0].name: partition other has no effect", "Warning QueueConfigInvalid" + about + "line 2: partitions[0].name: there is no partition default"},
			wantLines:  []string{`"warning"=`, `"configMap"="berth-system/queues"`},
		},
		"invalid": {
			object:     queueConfigMap(map[string]string{admission.QueuesKey: "partitions: 7"}),
			wantEvents: []string{"Warning QueueConfigInvalid" + about},
			wantLines:  []string{`"configMap"="berth-system/queues"`},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newQueueSetting(t)
			s.configure(tc.object)
			if admitted := s.queues.Admission(queued(), fixture.Now).Admitted; admitted != tc.wantQueues {
				t.Errorf("the queues admit the Placement: %t, %s", admitted, s.message())
			}
			if !slices.EqualFunc(eventsOf(s.events), tc.wantEvents, strings.HasPrefix) {
				t.Errorf("events are %q, want those that begin with %q", eventsOf(s.events), tc.wantEvents)
			}
			for _, e := range s.events.waiting {
				if e.Note == "" || e.Regarding.UID != "u" {
					t.Errorf("the event is %v", e)
				}
			}
			expectLines(t, s.lines, tc.wantLines...)
		})
	}
}

// TestReloadOfQueuesIsNoAnswer: whatever happens to the ConfigMap, an admitted Placement stays
// admitted to its queue.
func TestReloadOfQueuesIsNoAnswer(t *testing.T) {
	for name, data := range map[string]map[string]string{
		"no data":              nil,
		"no key":               {"queue.yaml": twoQueues},
		"an empty text":        {admission.QueuesKey: ""},
		"no partition default": {admission.QueuesKey: strings.Replace(twoQueues, "default", "other", 1)},
		"no queue":             {admission.QueuesKey: fixture.Partition("queues: []")},
		"a renamed queue":      {admission.QueuesKey: strings.Replace(twoQueues, "- name: a", "- name: z", 1)},
		"a new parent":         {admission.QueuesKey: strings.Replace(twoQueues, "- name: a", "- {name: a, parent: true}", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newQueueSetting(t)
			s.configure(queueConfigMap(map[string]string{admission.QueuesKey: twoQueues}))
			before := s.queues.Admission(queued(), fixture.Now)
			s.configure(queueConfigMap(data))
			after := s.queues.Admission(queued(), fixture.Now)
			before.Reason, before.Message = after.Reason, after.Message
			if diff := cmp.Diff(before, after); !after.Admitted || diff != "" {
				t.Errorf("admitted: %t (-before +after):\n%s", after.Admitted, diff)
			}
		})
	}
}

// startQueues runs the queueConfig until stop is called, which returns what Start returned.
func startQueues(t *testing.T, s *queueSetting) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	synctest.Wait()
	return func() error {
		if len(ended) > 0 {
			t.Error("Start has ended")
		}
		cancel()
		return <-ended
	}
}

func TestQueueConfigFollowsTheConfigMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newQueueSetting(t)
		informer := controllertest.NewFakeInformer()
		s.cache.InformersByGVK = map[schema.GroupVersionKind]toolscache.SharedIndexInformer{
			corev1.SchemeGroupVersion.WithKind("ConfigMap"): informer,
		}
		stop := startQueues(t, s)
		first := queueConfigMap(map[string]string{admission.QueuesKey: "partitions: 7"})
		informer.Add(first)
		if s.message() == notRead || strings.Contains(s.message(), "missing") || isClosed(s.read) {
			t.Errorf("before all is listed: %q, closed %t", s.message(), isClosed(s.read))
		}
		informer.Synced()
		time.Sleep(time.Second)
		synctest.Wait()
		if !isClosed(s.read) || strings.Contains(s.message(), "missing") {
			t.Errorf("once all is listed: %q, closed %t", s.message(), isClosed(s.read))
		}
		s.lines = nil
		informer.Delete(first)
		if want := "ConfigMap berth-system/queues does not exist"; s.message() != want {
			t.Errorf("the message is %q, want %q", s.message(), want)
		}
		expectLines(t, s.lines, `the last valid one stays in use" "configMap"="berth-system/queues"`)
		informer.Update(first, queueConfigMap(map[string]string{admission.QueuesKey: twoQueues}))
		if !s.queues.Admission(queued(), fixture.Now).Admitted {
			t.Errorf("the update has no effect: %s", s.message())
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestQueueConfigWithoutConfigMap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newQueueSetting(t)
		s.cache.getError = apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "queues")
		stop := startQueues(t, s)
		if want := "ConfigMap berth-system/queues does not exist"; s.message() != want || !isClosed(s.read) {
			t.Errorf("the message is %q, want %q; closed %t", s.message(), want, isClosed(s.read))
		}
		expectLines(t, s.lines, `no Placement is admitted" "configMap"="berth-system/queues"`)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestQueueConfigThatIsThereIsNotMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newQueueSetting(t)
		stop := startQueues(t, s)
		if s.message() != notRead || !isClosed(s.read) {
			t.Errorf("the message is %q, closed %t", s.message(), isClosed(s.read))
		}
		expectLines(t, s.lines)
		// Pages are watched before a client asks for them.
		if _, watched := s.cache.InformersByGVK[v1alpha1.GroupVersionV1Beta1.WithKind("PlacementDecision")]; !watched {
			t.Error("PlacementDecisions are not watched")
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestQueueConfigThatIsNotListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newQueueSetting(t)
		s.cache.InformersByGVK = map[schema.GroupVersionKind]toolscache.SharedIndexInformer{
			corev1.SchemeGroupVersion.WithKind("ConfigMap"): controllertest.NewFakeInformer(),
		}
		s.cache.getError = errors.New("not listed")
		if err := startQueues(t, s)(); err != nil {
			t.Error(err)
		}
		if s.message() != notRead || isClosed(s.read) {
			t.Errorf("the message is %q, closed %t", s.message(), isClosed(s.read))
		}
	})
}

func TestQueueConfigThatCannotBeWatched(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", nil)
	tests := map[string]struct {
		prepare func(c *queueCache)
		want    string
	}{
		"no pages":     {prepare: func(c *queueCache) { c.informerErrors["PlacementDecision"] = forbidden }, want: "watching PlacementDecisions: "},
		"no ConfigMap": {prepare: func(c *queueCache) { c.informerErrors["ConfigMap"] = forbidden }, want: "watching ConfigMap berth-system/queues: "},
		"no handler":   {prepare: func(c *queueCache) { c.handlerError = forbidden }, want: "handling ConfigMap berth-system/queues: "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newQueueSetting(t)
			tc.prepare(s.cache)
			err := s.Start(t.Context())
			if !errors.Is(err, forbidden) || !strings.HasPrefix(err.Error(), tc.want) || isClosed(s.read) {
				t.Errorf("got error %v, want %q; closed %t", err, tc.want, isClosed(s.read))
			}
		})
	}
	if (&queueConfig{}).NeedLeaderElection() {
		t.Error("a replica without the lease answers no admission requests")
	}
}

// pathServer is a webhook server that records the paths.
type pathServer struct {
	webhook.Server
	paths []string
}

func (s *pathServer) Register(path string, _ http.Handler) { s.paths = append(s.paths, path) }

func TestSetUpQueues(t *testing.T) {
	broken := errors.New("broken")
	paths := []string{"/check-queue-config", "/stamp-placement", "/verify-placement"}
	tests := map[string]struct {
		webhooks  *webhook.Options
		name      types.NamespacedName
		addError  error
		wantPaths []string
		wantErr   string
	}{
		"without admission handlers": {name: queueConfigKey},
		"with admission handlers":    {name: queueConfigKey, webhooks: &webhook.Options{}, wantPaths: paths},
		"the manager takes no more":  {name: queueConfigKey, webhooks: &webhook.Options{}, addError: broken, wantErr: "adding the queue configuration: broken"},
		"without a ConfigMap":        {webhooks: &webhook.Options{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			server := &pathServer{}
			m := memoryhub.NewManager(t, nil)
			m.Webhooks, m.AddError = server, tc.addError
			events := newEventSender(nil, logr.Discard())
			f := &feed{inventory: inventory.New(inventory.Options{})}
			err := f.setUpQueues(m, Options{QueueConfig: tc.name, Webhooks: tc.webhooks, Now: func() time.Time { return fixture.Now }, Log: logr.Discard()}, events)
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.HasPrefix(err.Error(), tc.wantErr) {
				t.Fatalf("got error %v, want %q", err, tc.wantErr)
			}
			slices.Sort(server.paths)
			if diff := cmp.Diff(tc.wantPaths, server.paths); diff != "" {
				t.Errorf("paths (-want +got):\n%s", diff)
			}
			if tc.name.Name == "" {
				if len(m.Added) != 0 || f.queues != nil {
					t.Errorf("added: %v", m.Added)
				}
				return
			}
			if len(m.Added) != 1 {
				t.Fatalf("added: %v", m.Added)
			}
			config := m.Added[0].(*queueConfig)
			if config.name != tc.name || config.cache != m.GetCache() || config.queues != f.queues || config.events != events {
				t.Errorf("added: %+v", config)
			}
			if close(config.read); !isClosed(f.queuesRead) {
				t.Error("the feed waits for something else")
			}
		})
	}
}

// TestQueuesEnqueueAffectedPlacements: a new configuration has the Placements decided again.
func TestQueuesEnqueueAffectedPlacements(t *testing.T) {
	f := &feed{inventory: inventory.New(inventory.Options{})}
	m := memoryhub.NewManager(t, nil)
	if err := f.setUpQueues(m, Options{QueueConfig: queueConfigKey, Now: func() time.Time { return fixture.Now }, Log: logr.Discard()}, nil); err != nil {
		t.Fatal(err)
	}
	var affected []inventory.Key
	enqueue := func(keys []inventory.Key) { affected = append(affected, keys...) }
	f.enqueue.Store(&enqueue)
	f.queues.Update(queued())
	m.Added[0].(*queueConfig).configure(queueConfigMap(map[string]string{admission.QueuesKey: twoQueues}))
	if diff := cmp.Diff([]inventory.Key{{Namespace: "n", Name: "p"}}, affected); diff != "" {
		t.Errorf("affected (-want +got):\n%s", diff)
	}
}

// TestCheckQueues: the webhook counts the Placements of the hub that no rule places. If it cannot
// list them, it checks the text alone.
func TestCheckQueues(t *testing.T) {
	unplaced := "no rule finds a queue for 1 of the 2 Placements, so they get no cluster; the first is n/other: rule 1 (provided): no queue was requested"
	for name, tc := range map[string]struct {
		text         string
		lists        string // the kind that cannot be listed
		wantWarnings []string
		wantErr      string
	}{
		"Placements without a queue":         {text: twoQueues, wantWarnings: []string{unplaced}},
		"a parent with Placements":           {text: strings.Replace(twoQueues, "- name: a", "- {name: a, parent: true}", 1), wantErr: "root.a is a parent"},
		"Placements that cannot be listed":   {text: twoQueues, lists: "PlacementList"},
		"pages that cannot be listed":        {text: twoQueues, lists: "PlacementDecisionList"},
		"invalid, and nothing can be listed": {text: "partitions: 7", lists: "PlacementList", wantErr: "must be a list"},
		"no partition default":               {text: strings.Replace(twoQueues, "default", "other", 1), wantErr: "there is no partition default"},
	} {
		t.Run(name, func(t *testing.T) {
			page := fixture.Page("n", "p-decision-1").Of("p").OwnedBy("p").Obj()
			page.Annotations = map[string]string{v1alpha1.QueueAnnotation: `{"queue":"root.a","rule":"provided","user":"nobody","requested":"root.a","configured":"root.a"}`}
			hub := newMemoryHub(t, queued(), fixture.Placement("n", "other").Obj(), page)
			if tc.lists != "" {
				hub.Lists[tc.lists] = errors.New("broken")
			}
			warnings, err := checkQueues(memoryhub.NewManager(t, hub), []byte(tc.text))
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("got error %v, want %q", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.wantWarnings, warnings); err == nil && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// reversedPages lists pages in the reverse order of their names.
type reversedPages struct{ client.Client }

func (c reversedPages) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := c.Client.List(ctx, list, options...)
	slices.Reverse(list.(*v1alpha1.PlacementDecisionList).Items)
	return err
}

func TestRecordedQueue(t *testing.T) {
	page := func(name, placement, record string) *v1alpha1.PlacementDecision {
		page := fixture.Page("n", name).Of("p").OwnedBy(placement).Obj()
		page.Annotations = map[string]string{v1alpha1.QueueAnnotation: record}
		return page
	}
	unlabelled := page("p-decision-1", "p", "root.x")
	unlabelled.Labels = nil
	elsewhere := page("p-decision-1", "p", "root.y")
	elsewhere.Namespace = "m"
	elsewhere.OwnerReferences[0].UID = "n/p"
	tests := map[string]struct {
		pages []client.Object
		uid   types.UID
		lists error
		want  string
	}{
		"no page":                     {uid: "n/p"},
		"one":                         {pages: []client.Object{page("p-decision-1", "p", "root.a")}, uid: "n/p", want: "root.a"},
		"a new Placement":             {pages: []client.Object{page("p-decision-1", "p", "root.a")}},
		"a Placement created again":   {pages: []client.Object{page("p-decision-1", "p", "root.a")}, uid: "second"},
		"a page of another owner":     {pages: []client.Object{page("p-decision-1", "q", "root.b"), page("p-decision-2", "p", "root.a")}, uid: "n/p", want: "root.a"},
		"a page without a record":     {pages: []client.Object{page("p-decision-1", "p", ""), page("p-decision-2", "p", "root.a")}, uid: "n/p", want: "root.a"},
		"no page has a record":        {pages: []client.Object{page("p-decision-1", "p", "")}, uid: "n/p"},
		"pages that do not count":     {pages: []client.Object{unlabelled, elsewhere}, uid: "n/p"},
		"the first of two":            {pages: []client.Object{page("p-decision-2", "p", "root.b"), page("p-decision-1", "p", "root.a")}, uid: "n/p", want: "root.a"},
		"pages that cannot be listed": {pages: []client.Object{page("p-decision-1", "p", "root.a")}, uid: "n/p", lists: errors.New("broken")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			hub := newMemoryHub(t, tc.pages...)
			if tc.lists != nil {
				hub.Lists["PlacementDecisionList"] = tc.lists
			}
			var lines, wantLines []string
			m := memoryhub.NewManager(t, reversedPages{hub})
			m.Log = funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
			if got := publishedQueue(t.Context(), m, types.NamespacedName{Namespace: "n", Name: "p"}, tc.uid); got != tc.want {
				t.Errorf("the queue is %q, want %q", got, tc.want)
			}
			if tc.lists != nil {
				wantLines = []string{`"placement"="n/p"`}
			}
			expectLines(t, lines, wantLines...)
		})
	}
}

func TestNamespaceMetadata(t *testing.T) {
	if got, want := namespaceMetadata().GroupVersionKind(), (schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}); got != want {
		t.Errorf("it is %v, want %v", got, want)
	}
}
