package ocm

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"

	"net/http"
	"slices"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/discovery"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

var _ = Describe("Under the command line of Open Cluster Management's placement controller", func() {
	It("Berth decides with that controller's permissions, lease and probes", func(ctx SpecContext) {
		b := startBerth("--tls-min-version=VersionTLS13", "--kube-api-qps=50")
		pl := placement(newNamespace(ctx), "web", strategy(whole, canary))
		create(ctx, pl)
		Eventually(follow(ctx, pl).groups).Should(Equal("canary:1 :239"))
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: hubNamespace, Name: "placement-lock"}}
		Expect(hub.Get(ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
		Expect(lease.Spec.HolderIdentity).To(HaveValue(Not(BeEmpty())))
		Eventually(func() (int, error) { return b.status("/healthz", tls.VersionTLS13) }).Should(Equal(http.StatusOK))
		Expect(b.status("/readyz", tls.VersionTLS13)).To(Equal(http.StatusOK))
		Expect(b.status("/metrics", tls.VersionTLS13)).To(Equal(http.StatusUnauthorized))
		_, err := b.status("/healthz", tls.VersionTLS12)
		Expect(err).To(HaveOccurred(), "TLS 1.2 is refused")
		b.stop()
		Expect(hub.Get(ctx, client.ObjectKeyFromObject(lease), lease)).To(Succeed())
		Expect(lease.Spec.HolderIdentity).To(HaveValue(BeEmpty()), "the other controller can decide at once")
		Expect(b.Err.Contents()).NotTo(ContainSubstring(`"level":"error"`))
	})

	It("Berth waits while that controller has the lease", func(ctx SpecContext) {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: hubNamespace, Name: "placement-lock"}}
		Expect(client.IgnoreNotFound(hub.Delete(ctx, lease))).To(Succeed())
		now := metav1.NowMicro()
		lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: new("ocm"), LeaseDurationSeconds: new(int32(137)), AcquireTime: &now, RenewTime: &now}
		create(ctx, lease)
		b := startBerth()
		Eventually(func() (int, error) { return b.status("/healthz", tls.VersionTLS12) }).Should(Equal(http.StatusOK))
		pl := placement(newNamespace(ctx), "web", strategy(whole))
		create(ctx, pl)
		Consistently(follow(ctx, pl).groups).Should(BeEmpty())
		lease.Spec.HolderIdentity = new("")
		Expect(hub.Update(ctx, lease)).To(Succeed())
		Eventually(follow(ctx, pl).groups).Should(Equal(":240"))
	})

	It("with CRDs of Berth that it may not read, Berth ends and says what is missing", func() {
		policies := envtest.CRDInstallOptions{Paths: []string{root + "/config/crd/bases/berth.dev_selectionpolicies.yaml"}}
		_, err := envtest.InstallCRDs(config, policies)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() {
			Expect(envtest.UninstallCRDs(config, policies)).To(Succeed())
			kinds := discovery.NewDiscoveryClientForConfigOrDie(config)
			Eventually(func() error {
				_, err := kinds.ServerResourcesForGroupVersion("berth.dev/v1alpha1")
				return err
			}).Should(MatchError(apierrors.IsNotFound, "IsNotFound"))
		})
		b := runBerth()
		Eventually(b.Session).Should(gexec.Exit(1))
		Expect(b.Err).To(gbytes.Say("placement: the hub serves selectionpolicies of berth.dev/v1alpha1, and this user may not list them: bind the ClusterRole berth to it"))
	})

	DescribeTable("no page is written, from that controller to Berth and back:", func(ctx SpecContext, spec func(*clusterv1beta1.PlacementSpec), want layout) {
		theirs, ours := placement(newNamespace(ctx), "web", clusterv1beta1.GroupStrategy{}), placement(newNamespace(ctx), "web", clusterv1beta1.GroupStrategy{})
		spec(&theirs.Spec)
		spec(&ours.Spec)
		create(ctx, theirs)
		publish(ctx, theirs, want)
		f := follow(ctx, theirs)
		before := f.versions()
		startBerth()
		Eventually(func(g Gomega) {
			g.Expect(hub.Get(ctx, client.ObjectKeyFromObject(theirs), theirs)).To(Succeed())
			g.Expect(theirs.Status.DecisionGroups).To(HaveLen(len(want)))
		}).Should(Succeed())
		Consistently(f.versions).Should(Equal(before))

		By("deciding the same Placement without pages")
		create(ctx, ours)
		Eventually(func(g Gomega) {
			g.Expect(hub.Get(ctx, client.ObjectKeyFromObject(ours), ours)).To(Succeed())
			g.Expect(ours.Status.DecisionGroups).To(HaveLen(len(want)))
		}).Should(Succeed())
		Expect(contents(published(ctx, ours))).To(Equal(contents(want.pages(ours))))
	},
		Entry("no groups", func(*clusterv1beta1.PlacementSpec) {}, layout{{"", sequence(0, 239)}}),
		Entry("a number of clusters", func(s *clusterv1beta1.PlacementSpec) {
			s.NumberOfClusters = new(int32(5))
			steady := &clusterv1beta1.ScoreCoordinate{Type: clusterv1beta1.ScoreCoordinateTypeBuiltIn, BuiltIn: "Steady"}
			s.PrioritizerPolicy = clusterv1beta1.PrioritizerPolicy{
				Mode: clusterv1beta1.PrioritizerPolicyModeExact, Configurations: []clusterv1beta1.PrioritizerConfig{{ScoreCoordinate: steady, Weight: 1}},
			}
		}, layout{{"", sequence(0, 4)}}),
		Entry("canary and the rest", func(s *clusterv1beta1.PlacementSpec) { s.DecisionStrategy.GroupStrategy = strategy(whole, canary) },
			layout{{"canary", sequence(0, 0)}, {"", sequence(1, 239)}}),
		Entry("named groups in parts", func(s *clusterv1beta1.PlacementSpec) {
			s.DecisionStrategy.GroupStrategy = strategy(intstr.FromInt32(70), production, canary)
		}, layout{{"production", sequence(1, 70)}, {"production", sequence(71, 140)}, {"production", sequence(141, 210)}, {"production", sequence(211, 239)}, {"canary", sequence(0, 0)}}),
		Entry("a percentage, with pages over 100", func(s *clusterv1beta1.PlacementSpec) {
			s.DecisionStrategy.GroupStrategy = strategy(intstr.FromString("50%"), first, canary)
		}, layout{{"canary", sequence(0, 0)}, {"", sequence(1, 120)}, {"", sequence(121, 239)}}),
		Entry("no clusters", func(s *clusterv1beta1.PlacementSpec) {
			s.Predicates = []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
				LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"ring": "nowhere"}},
			}}}
		}, layout{{"", nil}}),
	)
})

// status asks the server for a path, over one version of TLS.
func (b *berth) status(path string, version uint16) (int, error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: version, MaxVersion: version, InsecureSkipVerify: true}} //nolint:gosec // a probe does not verify
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get("https://" + b.address + path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}

// layout is a decision as OCM's placement controller lays it out: group names and clusters, in the
// order of the indexes.
type layout []struct {
	group    string
	clusters []int
}

// pages are the pages of OCM's controller: numbered from 1 over all groups, with at most 100
// clusters each, sorted by name. A group without clusters has one page, without status.
func (l layout) pages(pl *clusterv1beta1.Placement) snapshot {
	var all snapshot
	for index, group := range l {
		parts := slices.Collect(slices.Chunk(group.clusters, 100))
		if len(parts) == 0 {
			parts = [][]int{nil}
		}
		for _, part := range parts {
			page := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
				Namespace: pl.Namespace, Name: fmt.Sprintf("%s-decision-%d", pl.Name, len(all)+1),
				Labels: map[string]string{
					clusterv1beta1.PlacementLabel:          pl.Name,
					clusterv1beta1.DecisionGroupNameLabel:  group.group,
					clusterv1beta1.DecisionGroupIndexLabel: strconv.Itoa(index),
				},
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pl, schema.GroupVersionKind{Group: clusterv1beta1.GroupName, Version: "v1beta1", Kind: "Placement"})},
			}}
			for _, i := range part {
				page.Status.Decisions = append(page.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: cluster(i)})
			}
			all = append(all, page)
		}
	}
	return all
}

// publish writes the pages as OCM's controller does: the status, unless it is empty, by a second
// request.
func publish(ctx context.Context, pl *clusterv1beta1.Placement, l layout) {
	GinkgoHelper()
	for _, page := range l.pages(pl) {
		decisions := page.Status.Decisions
		create(ctx, page)
		if len(decisions) == 0 {
			continue
		}
		page.Status.Decisions = decisions
		Expect(hub.Status().Update(ctx, page)).To(Succeed())
	}
}

func published(ctx context.Context, pl *clusterv1beta1.Placement) snapshot {
	GinkgoHelper()
	list := &clusterv1beta1.PlacementDecisionList{}
	Expect(hub.List(ctx, list, client.InNamespace(pl.Namespace), client.MatchingLabels{clusterv1beta1.PlacementLabel: pl.Name})).To(Succeed())
	var all snapshot
	for i := range list.Items {
		all = append(all, &list.Items[i])
	}
	return all
}

// content is what a controller sets of a page.
type content struct {
	labels, annotations map[string]string
	owners              []metav1.OwnerReference
	clusters            []string
}

// contents returns the content of pages by name.
func contents(pages snapshot) map[string]content {
	all := map[string]content{}
	for _, page := range pages {
		c := content{labels: page.Labels, annotations: page.Annotations, owners: page.OwnerReferences}
		for _, decision := range page.Status.Decisions {
			c.clusters = append(c.clusters, decision.ClusterName+decision.Reason)
		}
		all[page.Name] = c
	}
	return all
}

// versions are the resource versions of the pages by name.
func (f *follower) versions() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	versions := map[string]string{}
	for name, page := range f.pages {
		versions[name] = page.ResourceVersion
	}
	return versions
}
