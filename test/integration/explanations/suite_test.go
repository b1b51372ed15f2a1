// Package explanations tests PlacementExplanations, `berth explain` without permission to list the
// fleet, and OCM's debugger, on a real kube-apiserver with users that have rights in one namespace.
package explanations

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// patience is how long anything may take on a busy machine; most take milliseconds.
const patience = 30 * time.Second

var (
	hub *testhub.Hub
	// debugger is the address of the controller's secure port.
	debugger string
	// clock is the clock of the controller.
	clock = &testhub.Clock{}
	// gate blocks Placements that ask for it, in explanations.
	gate = &gatePlugin{entered: make(chan struct{}, 100), open: make(chan struct{})}
)

func TestExplanations(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Explanations")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	ctrl.SetLogger(GinkgoLogr)
	hub = testhub.Start(ctx)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	debugger = listener.Addr().String()
	Expect(listener.Close()).To(Succeed())
	berth := hub.StartController(controllers.Options{
		Now: clock.Now, MetricsAddress: debugger, MetricsSecure: true,
		Plugins: framework.Registry{gateName: func(context.Context, json.RawMessage, *framework.Handle) (framework.Plugin, error) { return gate, nil }},
		Config: &config.PlacementSchedulerConfiguration{Profiles: []config.Profile{{
			Name:    config.DefaultProfile,
			Plugins: config.Plugins{PreFilter: config.PluginSet{Enabled: []config.Plugin{{Name: gateName}}}},
		}}},
	})
	DeferCleanup(berth.Stop)
})

const (
	gateName       = "Gate"
	gateAnnotation = "gate"
)

// gatePlugin stops in PreFilter of an annotated Placement until it is opened, like a plugin that
// ignores its deadline.
type gatePlugin struct {
	entered, open chan struct{}
}

func (*gatePlugin) Name() string { return gateName }

func (p *gatePlugin) PreFilter(_ context.Context, _ *framework.CycleState, pl *v1alpha1.Placement) (*framework.PreFilterResult, *framework.Status) {
	if pl.Annotations[gateAnnotation] != "" {
		p.entered <- struct{}{}
		<-p.open
	}
	return nil, nil
}

// team is a namespace bound to a set of the same name, with clusters <team>-1 to -n; odd ones have
// the label gpu.
type team struct {
	name   string
	author client.WithWatch
}

func newTeam(ctx context.Context, name string, clusters int) *team {
	GinkgoHelper()
	var all []fixture.ClusterBuilder
	for i := 1; i <= clusters; i++ {
		c := fixture.Cluster(fmt.Sprintf("%s-%d", name, i))
		if i%2 == 1 {
			c = c.Label("gpu", "true")
		}
		all = append(all, c)
	}
	testhub.CreateTeam(ctx, hub, name, all...)
	return &team{name: name, author: hub.Author(ctx, name)}
}

// place creates a Placement and waits until so many clusters are published.
func (t *team) place(ctx context.Context, b fixture.PlacementBuilder, clusters int) {
	GinkgoHelper()
	pl := b.Obj()
	Expect(t.author.Create(ctx, pl)).To(Succeed())
	Eventually(func(g Gomega) {
		g.Expect(t.author.Get(ctx, client.ObjectKeyFromObject(pl), pl)).To(Succeed())
		g.Expect(pl.Status.NumberOfSelectedClusters).To(BeEquivalentTo(clusters))
		g.Expect(pl.Status.DecisionGroups).NotTo(BeEmpty())
	}).Should(Succeed())
}

// ask creates a PlacementExplanation as the author.
func (t *team) ask(ctx context.Context, name string, spec berthv1alpha1.PlacementExplanationSpec) *berthv1alpha1.PlacementExplanation {
	GinkgoHelper()
	e := t.question(name, spec)
	Expect(t.author.Create(ctx, e)).To(Succeed())
	testhub.DeleteAfterwards(hub, e)
	return e
}

func (t *team) question(name string, spec berthv1alpha1.PlacementExplanationSpec) *berthv1alpha1.PlacementExplanation {
	return &berthv1alpha1.PlacementExplanation{ObjectMeta: metav1.ObjectMeta{Namespace: t.name, Name: name}, Spec: spec}
}

// answer waits for the answer and returns the status.
func (t *team) answer(ctx context.Context, e *berthv1alpha1.PlacementExplanation) berthv1alpha1.PlacementExplanationStatus {
	GinkgoHelper()
	Eventually(ctx, testhub.Condition).WithArguments(t.author, e, berthv1alpha1.ExplanationExplained).ShouldNot(BeEmpty())
	Expect(t.author.Get(ctx, client.ObjectKeyFromObject(e), e)).To(Succeed())
	return e.Status
}

func gpu() *berthv1alpha1.PlacementTemplate {
	return &berthv1alpha1.PlacementTemplate{Spec: fixture.Placement("", "").Number(2).Predicate(fixture.MatchLabel("gpu", "true")).Obj().Spec}
}
