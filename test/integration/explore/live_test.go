package explore

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/explore"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("The live state", func() {
	It("shows what the controller does, and forgets what is deleted", func(ctx SpecContext) {
		team(ctx, "green")
		p := open(hub.Config)
		Eventually(func(g Gomega) string { return get[explore.Fleet](g, p, "api/fleet").Hub.State }).WithContext(ctx).Should(Equal(explore.Connected))
		events := follow(p, get[explore.Fleet](Default, p, "api/fleet").Version)
		Expect(hub.Create(ctx, fixture.Placement("green", "two").Number(2).Obj())).To(Succeed())
		Eventually(events.placement).WithContext(ctx).WithArguments("green/two").Should(HaveField("States", Equal([]changes.StateName{changes.StateSatisfied})))
		Expect(events.placement("green/two").Selected).To(Equal(2))
		column := get[explore.Columns](Default, p, "api/columns?placement=green/two").Columns[0]
		Expect(strings.Count(column.Cells, "1")).To(Equal(2))

		By("a cluster that gets a taint")
		Expect(hub.Patch(ctx, fixture.Cluster("green-1").Obj(), client.RawPatch("application/merge-patch+json",
			[]byte(`{"spec":{"taints":[{"key":"broken","effect":"NoSelect"}]}}`)))).To(Succeed())
		Eventually(events.cluster).WithContext(ctx).WithArguments("green-1").Should(HaveField("Taints", 1))
		Eventually(func(g Gomega) string {
			return get[explore.Columns](g, p, "api/columns?placement=green/two").Columns[0].Cells
		}).WithContext(ctx).Should(ContainSubstring("A11"))

		By("objects that are deleted")
		Expect(hub.Delete(ctx, fixture.Placement("green", "two").Obj())).To(Succeed())
		Expect(hub.Delete(ctx, fixture.Cluster("green-3").Obj())).To(Succeed())
		Eventually(events.placement).WithContext(ctx).WithArguments("green/two").Should(BeZero())
		Eventually(events.cluster).WithContext(ctx).WithArguments("green-3").Should(BeZero())
		for _, path := range []string{"api/placement?placement=green/two", "api/cell?placement=green/two&cluster=green-1"} {
			Expect(code(p, path)).To(Equal(http.StatusNotFound), path)
		}
		// Its pages go a moment later.
		Eventually(func() int { return code(p, "api/cluster?cluster=green-3") }).WithContext(ctx).Should(Equal(http.StatusNotFound))
	})

	It("says that the connection is lost, and when it is back", func(ctx SpecContext) {
		team(ctx, "gray")
		proxy := testhub.StartProxy(hub.Config.Host)
		cfg := proxy.Config(hub.Config)
		p := open(cfg)
		state := func(g Gomega) explore.HubState { return get[explore.Fleet](g, p, "api/fleet").Hub }
		Eventually(state).WithContext(ctx).Should(HaveField("State", explore.Connected))
		events := follow(p, get[explore.Fleet](Default, p, "api/fleet").Version)
		proxy.Set(false)
		Eventually(state).WithContext(ctx).Should(And(HaveField("State", explore.Lost), HaveField("Problem", Not(BeEmpty()))))
		Eventually(events.state).WithContext(ctx).Should(Equal(explore.Lost))
		Expect(hub.Create(ctx, fixture.Placement("gray", "one").Number(1).Obj())).To(Succeed())
		Expect(get[explore.Fleet](Default, p, "api/fleet").Clusters).NotTo(BeEmpty())
		proxy.Set(true)
		Eventually(events.state).WithContext(ctx).Should(Equal(explore.Connected))
		Eventually(events.placement).WithContext(ctx).WithArguments("gray/one").Should(HaveField("Selected", 1))
	})
})

var _ = Describe("Queues that cannot be read", func() {
	It("are a problem of the hub, and everything else is shown", func(ctx SpecContext) {
		runs, cancel := context.WithCancel(context.Background())
		DeferCleanup(cancel)
		follower := explore.Follower{Config: hub.Config, Queues: func(context.Context, client.Client, simulator.Objects) (simulator.Objects, error) {
			return nil, errors.New("the ConfigMap of the queues is on fire")
		}}
		viewer, err := explore.NewFollowingViewer(runs, simulator.Options{}, follower, "")
		Expect(err).NotTo(HaveOccurred())
		p := &page{explore.NewServer(simulator.Options{}, viewer), viewer}
		Eventually(func(g Gomega) explore.HubState { return get[explore.Fleet](g, p, "api/fleet").Hub }).WithContext(ctx).Should(
			And(HaveField("State", explore.Connected), HaveField("Synced", true), HaveField("Problem", ContainSubstring("on fire"))))
	})
})

var _ = Describe("Credentials that end", func() {
	It("are tried again, because they may be refreshed", func(ctx SpecContext) {
		expired := &atomic.Bool{}
		expired.Store(true)
		cfg := rest.CopyConfig(hub.Config)
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if !expired.Load() {
					return next.RoundTrip(r)
				}
				w := httptest.NewRecorder()
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = w.WriteString(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}`)
				return w.Result(), nil
			})
		})
		p := open(cfg)
		state := func(g Gomega) explore.HubState { return get[explore.Fleet](g, p, "api/fleet").Hub }
		lost := And(HaveField("State", explore.Lost), HaveField("Problem", ContainSubstring("the hub does not accept the credentials")))
		Eventually(state).WithContext(ctx).Should(lost)
		expired.Store(false)
		Eventually(state).WithContext(ctx).Should(HaveField("State", explore.Connected))
		rows := get[explore.Fleet](Default, p, "api/fleet").Rows

		By("once more, while the hub is watched")
		expired.Store(true)
		Eventually(state).WithContext(ctx).Should(lost)
		expired.Store(false)
		Eventually(state).WithContext(ctx).Should(HaveField("State", explore.Connected))
		Expect(get[explore.Fleet](Default, p, "api/fleet").Rows).To(Equal(rows), "nothing was read again")
	})
})

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// team creates a namespace with three clusters of its own.
func team(ctx context.Context, name string) {
	testhub.CreateTeam(ctx, hub, name, fixture.Cluster(name+"-1"), fixture.Cluster(name+"-2"), fixture.Cluster(name+"-3"))
}

func code(p *page, path string) int {
	r := httptest.NewRequest(http.MethodGet, p.Path()+path, http.NoBody)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Code
}

// stream has what the events of a page told since it was opened.
type stream struct {
	mu         sync.Mutex
	placements map[string]explore.PlacementRow
	clusters   map[string]explore.ClusterRow
	hub        string
}

// follow reads the events of a page over a real connection until the spec ends.
func follow(p *page, version int64) *stream {
	server := httptest.NewServer(p)
	ctx, cancel := context.WithCancel(context.Background())
	DeferCleanup(func() {
		cancel()
		server.Close()
	})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+p.Path()+"api/events?since="+strconv.FormatInt(version, 10), http.NoBody)
	Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	Expect(err).NotTo(HaveOccurred())
	Expect(response.Header.Get("Content-Type")).To(Equal("text/event-stream"))
	s := &stream{placements: map[string]explore.PlacementRow{}, clusters: map[string]explore.ClusterRow{}}
	go func() {
		defer GinkgoRecover()
		defer response.Body.Close()
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var u explore.Update
				Expect(json.Unmarshal([]byte(data), &u)).To(Succeed())
				s.add(&u)
			}
		}
	}()
	return s
}

func (s *stream) add(u *explore.Update) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.Hub.State != "" {
		s.hub = u.Hub.State
	}
	for _, row := range u.Placements {
		s.placements[row.Placement] = row
	}
	for _, row := range u.Clusters {
		s.clusters[row.Name] = row
	}
	for _, name := range u.GonePlacements {
		delete(s.placements, name)
	}
	for _, name := range u.GoneClusters {
		delete(s.clusters, name)
	}
}

func (s *stream) placement(name string) explore.PlacementRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.placements[name]
}

func (s *stream) cluster(name string) explore.ClusterRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clusters[name]
}

func (s *stream) state() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hub
}
