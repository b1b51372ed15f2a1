// Package notifications tests notifications on a real kube-apiserver, with a real receiver over
// HTTP.
package notifications

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// patience is how long anything may take on a busy machine; most take milliseconds.
const patience = time.Minute

// secret is in the address and in the token of the receiver. It may be seen nowhere.
const secret = "s3cret"

var hub *testhub.Hub

func TestNotifications(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Notifications")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	ctrl.SetLogger(GinkgoLogr)
	hub = testhub.Start(ctx)
})

// receiver is a server that gets events.
type receiver struct {
	url string

	mu     sync.Mutex
	status int
	// got are the accepted events, as "type subject".
	got []string
	ids map[string]int
}

func newReceiver() *receiver {
	r := &receiver{status: http.StatusAccepted, ids: map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var e struct{ SpecVersion, ID, Type, Subject, Source string }
		if json.NewDecoder(request.Body).Decode(&e) != nil || e.SpecVersion != "1.0" || !strings.HasPrefix(e.Source, "//hub/apis/") ||
			!strings.HasPrefix(request.Header.Get("Content-Type"), "application/cloudevents+json") || request.Header.Get("Authorization") != "Bearer "+secret {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.status < 300 {
			r.ids[e.ID]++
			r.got = append(r.got, strings.TrimPrefix(e.Type, "dev.berth.placement.")+" "+e.Subject)
		}
		w.WriteHeader(r.status)
	}))
	DeferCleanup(server.Close)
	r.url = server.URL + "/" + secret + "?key=" + secret
	return r
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *receiver) events() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
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

// start runs a controller that notifies a receiver, and another one that never answers. When the
// spec ends, nothing of it may contain the secret.
func start(r *receiver) (stop func()) {
	GinkgoHelper()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		_, _ = io.Copy(io.Discard, request.Body) // Only then the end of the connection is noticed.
		<-request.Context().Done()
	}))
	DeferCleanup(silent.Close)
	dir := GinkgoT().TempDir()
	token := filepath.Join(dir, "token")
	Expect(os.WriteFile(token, []byte(secret), 0o600)).To(Succeed())
	c, err := config.Load(fmt.Appendf(nil, `
apiVersion: config.berth.dev/v1alpha1
kind: PlacementSchedulerConfiguration
notifications:
- {name: silent, url: %q, insecure: true, timeout: 1m}
- {name: oncall, url: %q, insecure: true, tokenFile: %s, source: //hub}
`, silent.URL+"/"+secret, r.url, token))
	Expect(err).NotTo(HaveOccurred())
	log := &lockedBuffer{}
	recorded := filepath.Join(dir, "recording")
	controller := hub.StartController(controllers.Options{
		Config: c, Recording: recording.Options{Dir: recorded}, Log: zap.New(zap.WriteTo(io.MultiWriter(log, GinkgoWriter))),
	})
	stop = sync.OnceFunc(controller.Stop)
	DeferCleanup(func(ctx SpecContext) {
		stop()
		var events eventsv1.EventList
		Expect(hub.List(ctx, &events)).To(Succeed())
		families, err := metrics.Registry.Gather()
		Expect(err).NotTo(HaveOccurred())
		reader, err := recording.Open(recorded)
		Expect(err).NotTo(HaveOccurred())
		defer reader.Close()
		first, err := reader.Next()
		Expect(err).NotTo(HaveOccurred())
		Expect(log.text.String() + fmt.Sprint(events, families) + string(first.Header.Config)).NotTo(ContainSubstring(secret))
	})
	return stop
}

var _ = Describe("Notifications", func() {
	It("tell when a Placement needs a person, and when it no longer does", func(ctx SpecContext) {
		newTeam(ctx, "shop", 3)
		policy := fixture.ApprovalPolicy("shop", "careful", "held")
		Expect(hub.Create(ctx, policy)).To(Succeed())
		r := newReceiver()
		start(r)

		By("a selection that is too small")
		Expect(hub.Create(ctx, fixture.Placement("shop", "short").Number(5).Obj())).To(Succeed())
		Eventually(r.events).Should(ContainElement("unsatisfied shop/short"))
		patch(ctx, "short", `{"spec":{"numberOfClusters":3}}`)
		Eventually(r.events).Should(ContainElement("unsatisfied.resolved shop/short"))

		By("a mistake")
		Expect(hub.Create(ctx, fixture.Placement("shop", "wrong").Annotation(v1alpha1.ProfileAnnotation, "none").Obj())).To(Succeed())
		Eventually(r.events).Should(ContainElement("misconfigured shop/wrong"))
		patch(ctx, "wrong", `{"metadata":{"annotations":null}}`)
		Eventually(r.events).Should(ContainElement("misconfigured.resolved shop/wrong"))

		By("a change that waits for an approval")
		Expect(hub.Create(ctx, fixture.Placement("shop", "held").Number(1).Obj())).To(Succeed())
		Eventually(r.events).Should(ContainElement("held shop/held"))
		Expect(hub.Delete(ctx, policy)).To(Succeed())
		Eventually(r.events).Should(ContainElement("held.resolved shop/held"))

		By("sending each event once")
		for id, n := range r.ids {
			Expect(n).To(Equal(1), id)
		}
		Expect(r.events()).To(HaveLen(6), "%v", r.events())
	})

	It("arrive later if the receiver does not work, and not again after a restart", func(ctx SpecContext) {
		newTeam(ctx, "blue", 1)
		r := newReceiver()
		r.answer(http.StatusServiceUnavailable)
		stop := start(r)
		Expect(hub.Create(ctx, fixture.Placement("blue", "short").Number(5).Obj())).To(Succeed())
		Eventually(func() (string, error) {
			pl := fixture.Placement("blue", "short").Obj()
			err := hub.Get(ctx, client.ObjectKeyFromObject(pl), pl)
			return fmt.Sprint(len(pl.Status.Conditions) > 0), err
		}).Should(Equal("true"), "a decision does not wait for the receiver")
		r.answer(http.StatusNoContent)
		Eventually(r.events).Should(Equal([]string{"unsatisfied blue/short"}))
		// A controller that stops before it has read the answer sends the event once more.
		Eventually(testhub.Metric).WithArguments("berth_notifications_waiting", "oncall").Should(BeZero())
		stop()
		start(r)
		Expect(hub.Create(ctx, fixture.Placement("blue", "other").Number(7).Obj())).To(Succeed())
		Eventually(r.events).Should(Equal([]string{"unsatisfied blue/short", "unsatisfied blue/other"}))
	})
})

// newTeam creates a namespace with clusters of its own.
func newTeam(ctx context.Context, name string, clusters int) {
	GinkgoHelper()
	Expect(hub.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
	Expect(hub.Create(ctx, fixture.Set(name))).To(Succeed())
	Expect(hub.Create(ctx, fixture.Binding(name, name))).To(Succeed())
	for i := range clusters {
		Expect(hub.Create(ctx, fixture.Cluster(fmt.Sprintf("%s-%d", name, i)).Set(name).Obj())).To(Succeed())
	}
}

func patch(ctx context.Context, placement, text string) {
	GinkgoHelper()
	Expect(hub.Patch(ctx, fixture.Placement("shop", placement).Obj(), client.RawPatch("application/merge-patch+json", []byte(text)))).To(Succeed())
}
