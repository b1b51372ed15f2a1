// Package selection tests SelectionPolicies with a real controller on a real API server, watched
// from outside: fallback and failback over restarts, Placements apart from each other, capacity
// that is never overcommitted, and the status. BERTH_SELECTION=long runs the capacity test with 200
// clusters and 1,000 Placements.
package selection

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/yaml"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

const (
	// patience is how long a step may take on a busy machine; most take milliseconds.
	patience = 40 * time.Second
	// aheadVariable holds how far the clock of a controller process is ahead.
	aheadVariable = "BERTH_TEST_AHEAD"
	// regionLabel is the region of a cluster, failedTaint the taint of the clusters that failed.
	regionLabel = "region"
	failedTaint = "region-failed"
)

var hub *testhub.Hub

// TestMain is the controller when it is started as one.
func TestMain(m *testing.M) {
	faults.ControlIfAsked(func(ctx context.Context, to *rest.Config) (ctrl.Manager, error) {
		ahead, err := time.ParseDuration(os.Getenv(aheadVariable))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", aheadVariable, err)
		}
		to.Impersonate.UserName = testhub.Account
		return controllers.NewManager(ctx, to, controllers.Options{
			Now: func() time.Time { return time.Now().Add(ahead) }, MetricsAddress: faults.MetricsAddress(), HealthAddress: "0",
		})
	})
	os.Exit(m.Run())
}

func TestSelection(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Selection")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(500 * time.Millisecond)
	ctrl.SetLogger(GinkgoLogr)
	hub = testhub.Start(ctx)
})

// startProcess runs the controller as a process whose clock is ahead.
func startProcess(ahead time.Duration) *faults.Process {
	GinkgoHelper()
	return faults.StartTestController(hub.Kubeconfig, aheadVariable+"="+ahead.String())
}

// region creates n clusters <namespace>-<region>-<i> with the given allocatable amount of cpu.
func region(ctx context.Context, ns, name string, n int, cpu string) (clusters []string) {
	GinkgoHelper()
	for i := range n {
		cluster := fmt.Sprintf("%s-%s-%d", ns, name, i)
		createCluster(ctx, fixture.Cluster(cluster).Set(ns).Label(regionLabel, name).Allocatable("cpu", cpu))
		clusters = append(clusters, cluster)
	}
	return clusters
}

func createCluster(ctx context.Context, builder fixture.ClusterBuilder) {
	GinkgoHelper()
	object := builder.Obj()
	status := object.Status
	Expect(hub.Create(ctx, object)).To(Succeed())
	object.Status = status
	Expect(hub.Status().Update(ctx, object)).To(Succeed())
}

// setFailed adds the taint of a failed region to clusters, or removes all taints.
func setFailed(ctx context.Context, clusters []string, failed bool) {
	GinkgoHelper()
	taints := "null"
	if failed {
		taints = `[{"key": "` + failedTaint + `", "effect": "NoSelect", "timeAdded": null}]`
	}
	for _, name := range clusters {
		Expect(testhub.Patch(ctx, hub, fixture.Cluster(name).Obj(), `{"spec": {"taints": `+taints+`}}`)).To(Succeed())
	}
}

// selecting creates a SelectionPolicy for the Placement of its name. The fields are in YAML.
func selecting(ctx context.Context, ns, placement, fields string) *berthv1alpha1.SelectionPolicy {
	GinkgoHelper()
	policy := &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: placement}}
	Expect(yaml.UnmarshalStrict([]byte("{placement: "+placement+", "+fields+"}"), &policy.Spec)).To(Succeed())
	Expect(hub.Create(ctx, policy)).To(Succeed())
	return policy
}

// tiers are the fields of a policy with a tier for each region, in order.
func tiers(more string, regions ...string) string {
	var all []string
	for _, name := range regions {
		all = append(all, "{name: "+name+", clusterSelector: {labelSelector: {matchLabels: {region: "+name+"}}}}")
	}
	return more + " tiers: [" + strings.Join(all, ", ") + "]"
}

func place(ctx context.Context, ns, name string, number int32) *v1alpha1.Placement {
	GinkgoHelper()
	pl := fixture.Placement(ns, name).Number(number).Obj()
	Expect(hub.Create(ctx, pl)).To(Succeed())
	return pl
}

// requiring builds a Placement that requires the SelectionPolicy of its name.
func requiring(ns, name string) fixture.PlacementBuilder {
	return fixture.Placement(ns, name).Annotation(v1alpha1.SelectionPolicyAnnotation, name)
}

// listed returns the clusters of a Placement's pages, sorted, without the namespace at their start.
func listed(ctx context.Context, ns, placement string) []string {
	GinkgoHelper()
	names := testhub.Must(testhub.Clusters(ctx, hub, fixture.Placement(ns, placement).Obj()))
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], ns+"-")
	}
	return names
}

// eventually waits until a Placement has exactly these clusters.
func eventually(ctx context.Context, ns, placement string, want ...string) {
	GinkgoHelper()
	if want == nil {
		want = []string{}
	}
	Eventually(listed).WithContext(ctx).WithArguments(ns, placement).Should(Equal(want))
}
