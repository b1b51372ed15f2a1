// Package extenders tests extenders on a real kube-apiserver: the reference server in
// examples/extender, servers that do everything wrong, and what they may harm. Every spec makes its
// recorded decisions again.
package extenders

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// patience is how long anything may take on a busy machine; most take milliseconds.
const patience = time.Minute

var hub *testhub.Hub

func TestExtenders(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Extenders")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	ctrl.SetLogger(GinkgoLogr)
	hub = testhub.Start(ctx)
})

// secret is in every address of an extender. It may be seen nowhere.
const secret = "s3cret"

// run is one run of a controller, with its log and its recording.
type run struct {
	*testhub.Controller
	log       lockedBuffer
	recording string
}

// start runs a controller with profiles. When the spec ends, it stops, its recorded decisions are
// made again, and nothing of it contains an address.
func start(profiles string) {
	GinkgoHelper()
	c, err := config.Load([]byte("apiVersion: config.berth.dev/v1alpha1\nkind: PlacementSchedulerConfiguration\nprofiles:" + profiles))
	Expect(err).NotTo(HaveOccurred())
	r := &run{recording: GinkgoT().TempDir()}
	r.Controller = hub.StartController(controllers.Options{
		Config: c, Recording: recording.Options{Dir: r.recording}, ShadowWorkers: 1, Log: zap.New(zap.WriteTo(io.MultiWriter(&r.log, GinkgoWriter))),
	})
	DeferCleanup(func(ctx SpecContext) {
		r.Stop()
		r.expectNoSecret(ctx)
		reader, err := recording.Open(r.recording)
		Expect(err).NotTo(HaveOccurred())
		defer reader.Close()
		faults.ExpectReplays(ctx, reader)
	})
}

// expectNoSecret looks for the secret in the log, the events, the metrics, the recording and the
// conditions of all Placements.
func (r *run) expectNoSecret(ctx context.Context) {
	GinkgoHelper()
	Expect(r.log.String()).NotTo(ContainSubstring(secret))
	var events eventsv1.EventList
	Expect(hub.List(ctx, &events)).To(Succeed())
	Expect(fmt.Sprint(events)).NotTo(ContainSubstring(secret))
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	Expect(fmt.Sprint(families)).NotTo(ContainSubstring(secret))
	var placements v1alpha1.PlacementList
	Expect(hub.List(ctx, &placements)).To(Succeed())
	Expect(fmt.Sprint(placements)).NotTo(ContainSubstring(secret))
	reader, err := recording.Open(r.recording)
	Expect(err).NotTo(HaveOccurred())
	defer reader.Close()
	extenders := 0
	for {
		e, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		Expect(err).NotTo(HaveOccurred())
		Expect(string(e.Object)).NotTo(ContainSubstring(secret))
		if e.Header != nil {
			Expect(string(e.Header.Config)).NotTo(ContainSubstring(secret))
		}
		if e.Answer != nil {
			extenders++
			Expect(fmt.Sprintf("%+v %+v", e.Answer, e.Answer.Failure)).NotTo(ContainSubstring(secret))
		}
	}
	Expect(extenders).To(BeNumerically(">", 0), "the answers are recorded")
}

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns what was written.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// server is an extender whose behaviour can change.
type server struct {
	url      string
	handle   atomic.Pointer[http.HandlerFunc]
	requests atomic.Int64
}

// newServer starts an extender without TLS.
func newServer(handle http.HandlerFunc) *server {
	s := &server{}
	s.handle.Store(&handle)
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		(*s.handle.Load())(w, r)
	}))
	DeferCleanup(h.Close)
	s.url = h.URL + "/" + secret
	return s
}

// answering answers with a text.
func answering(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// newTeam creates a namespace with clusters <name>-1 to -3 of its own.
func newTeam(ctx context.Context, name string) {
	GinkgoHelper()
	Expect(hub.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	Expect(hub.Create(ctx, fixture.Set(name))).To(Succeed())
	Expect(hub.Create(ctx, fixture.Binding(name, name))).To(Succeed())
	for i := 1; i <= 3; i++ {
		Expect(hub.Create(ctx, fixture.Cluster(fmt.Sprintf("%s-%d", name, i)).Set(name).Obj())).To(Succeed())
	}
}

// create creates a Placement, which is deleted when the spec ends.
func create(ctx context.Context, pl *v1alpha1.Placement) {
	GinkgoHelper()
	Expect(hub.Create(ctx, pl)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(hub.Delete(ctx, pl))).To(Succeed())
	})
}

// published returns the clusters on the pages of a Placement, sorted.
func published(ctx context.Context, namespace, placement string) (string, error) {
	var pages v1alpha1.PlacementDecisionList
	if err := hub.List(ctx, &pages, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.PlacementLabel: placement}); err != nil {
		return "", err
	}
	var names []string
	for _, page := range pages.Items {
		for _, d := range page.Status.Decisions {
			names = append(names, d.ClusterName)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " "), nil
}

// condition returns status, reason and message of a condition; empty without it.
func condition(ctx context.Context, namespace, placement, kind string) (string, error) {
	var pl v1alpha1.Placement
	if err := hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: placement}, &pl); err != nil {
		return "", err
	}
	c := meta.FindStatusCondition(pl.Status.Conditions, kind)
	if c == nil {
		return "", nil
	}
	return fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message), nil
}
