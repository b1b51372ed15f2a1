package multicluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/controllers/housekeeping"
	"github.com/berth-dev/berth/pkg/decisions"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// inventory is a hub whose ManagedClusters come from ClusterProfiles, and the controller on it.
type inventory struct {
	*testhub.Hub
	berth *testhub.Controller
}

// start runs the controller with the permissions of its service account until stop.
func (h *inventory) start(profiles housekeeping.ClusterProfileOptions, args string) {
	GinkgoHelper()
	o := controllers.Options{Housekeeping: []string{"*", "cluster-profile"}, ClusterProfiles: profiles}
	if args != "" {
		raw, err := yaml.YAMLToJSON([]byte(args))
		Expect(err).NotTo(HaveOccurred())
		o.Config = &config.PlacementSchedulerConfiguration{Profiles: []config.Profile{
			{Name: config.DefaultProfile, PluginConfig: []config.PluginConfig{{Name: "DecisionPublisher", Args: json.RawMessage(raw)}}},
		}}
	}
	h.berth = h.StartController(o)
}

func (h *inventory) stop() {
	GinkgoHelper()
	h.berth.Stop()
}

// restart runs the controller with other flags until the spec ends.
func (h *inventory) restart(profiles housekeeping.ClusterProfileOptions, args string) {
	GinkgoHelper()
	h.stop()
	h.start(profiles, args)
	DeferCleanup(func() {
		h.stop()
		h.start(inFleet, "")
	})
}

var inFleet = housekeeping.ClusterProfileOptions{Namespaces: []string{"fleet"}}

// profile is a ClusterProfile.
func profile(namespace, name string) *unstructured.Unstructured {
	p := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterManager": map[string]any{"name": "test"}}}}
	p.SetAPIVersion(decisions.ProfileGroupVersion)
	p.SetKind("ClusterProfile")
	p.SetNamespace(namespace)
	p.SetName(name)
	p.SetLabels(map[string]string{"x-k8s.io/cluster-manager": "test", "env": "prod"})
	return p
}

type properties map[string]string

// status sets the status of a profile.
func (h *inventory) status(ctx context.Context, p *unstructured.Unstructured, healthy metav1.ConditionStatus, version string, values properties) {
	GinkgoHelper()
	Expect(h.tryStatus(ctx, p, healthy, version, values)).To(Succeed())
}

func (h *inventory) tryStatus(ctx context.Context, p *unstructured.Unstructured, healthy metav1.ConditionStatus, version string, values properties) error {
	GinkgoHelper()
	Expect(h.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
	var list []any
	for _, name := range slices.Sorted(maps.Keys(values)) {
		list = append(list, map[string]any{"name": name, "value": values[name], "lastObservedTime": time.Now().UTC().Format(time.RFC3339)})
	}
	status := map[string]any{"version": map[string]any{"kubernetes": version}, "properties": list}
	if healthy != "" {
		status["conditions"] = []any{map[string]any{
			"type": "ControlPlaneHealthy", "status": string(healthy), "reason": "Probed", "message": "as probed", "lastTransitionTime": "2026-01-01T00:00:00Z",
		}}
	}
	p.Object["status"] = status
	return h.Status().Update(ctx, p)
}

// add creates a healthy profile and waits for its cluster.
func (h *inventory) add(ctx context.Context, namespace, name, cluster string) *unstructured.Unstructured {
	GinkgoHelper()
	p := profile(namespace, name)
	Expect(h.Create(ctx, p)).To(Succeed())
	h.status(ctx, p, metav1.ConditionTrue, "v1.36.1", properties{"region": "eu"})
	Eventually(h.cluster(ctx, cluster)).Should(Equal("True v1.36.1 region=eu"))
	return p
}

func (h *inventory) get(ctx context.Context, g Gomega, name string) *v1alpha1.ManagedCluster {
	c := &v1alpha1.ManagedCluster{}
	g.Expect(h.Get(ctx, client.ObjectKey{Name: name}, c)).To(Succeed())
	return c
}

// cluster is a check for Eventually: what a ManagedCluster has from its profile.
func (h *inventory) cluster(ctx context.Context, name string) func() (string, error) {
	return func() (string, error) {
		c := &v1alpha1.ManagedCluster{}
		if err := h.Get(ctx, client.ObjectKey{Name: name}, c); err != nil {
			if apierrors.IsNotFound(err) {
				return "absent", nil
			}
			return "", err
		}
		available := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ManagedClusterConditionAvailable)
		if available == nil {
			return "no condition", nil
		}
		words := []string{string(available.Status), c.Status.Version.Kubernetes}
		for _, claim := range c.Status.ClusterClaims {
			words = append(words, claim.Name+"="+claim.Value)
		}
		return strings.Join(words, " "), nil
	}
}

// notes is a check for Eventually: the events about a profile.
func (h *inventory) notes(ctx context.Context, p *unstructured.Unstructured) func(Gomega) []string {
	return func(g Gomega) []string {
		all, err := testhub.Events(ctx, h, p.GetNamespace())
		g.Expect(err).NotTo(HaveOccurred())
		var notes []string
		for _, e := range all {
			if e.Regarding.Name == p.GetName() && e.Regarding.UID == p.GetUID() && e.Regarding.Kind == "ClusterProfile" {
				notes = append(notes, e.Reason+": "+e.Note)
			}
		}
		return notes
	}
}

// failures counts failed requests for ClusterProfiles, by reason.
const failures = "berth_cluster_profile_failures_total"

// witness waits until the loop has handled everything before: it adds a profile and deletes it.
func (h *inventory) witness(ctx context.Context) {
	GinkgoHelper()
	p := h.add(ctx, "fleet", "witness", "witness")
	Expect(h.Delete(ctx, p)).To(Succeed())
	Eventually(h.cluster(ctx, "witness")).Should(Equal("absent"))
}

var _ = Describe("ManagedClusters of ClusterProfiles", Ordered, func() {
	var h *inventory

	BeforeAll(func(ctx SpecContext) {
		h = &inventory{Hub: testhub.Start(ctx)}
		binding, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "cluster-profiles", "role_binding.yaml"))
		Expect(err).NotTo(HaveOccurred())
		h.ApplyYAML(ctx, string(binding))
		for _, name := range []string{"fleet", "other", "apps"} {
			testhub.CreateNamespace(ctx, h, name)
		}
		h.start(inFleet, "")
		DeferCleanup(func() { h.stop() })
	})

	It("wait for the CRD, and delay nothing else", func(ctx SpecContext) {
		ghost := fixture.Cluster("ghost").Annotation(v1alpha1.ClusterProfileAnnotation, "fleet/ghost 1 2").Obj()
		Expect(h.Create(ctx, ghost)).To(Succeed())
		Eventually(func(g Gomega) string { return h.get(ctx, g, "ghost").Labels[v1alpha1.ClusterSetLabel] }).Should(Equal("default"))
		h.InstallCRD(ctx, testhub.ClusterProfiles)
		h.witness(ctx)
		// Its profile was never seen, so it stays.
		Expect(h.cluster(ctx, "ghost")()).To(Equal("no condition"))
		Expect(h.Delete(ctx, ghost)).To(Succeed())
	})

	It("have the labels, properties, version and health of their profile, and follow them", func(ctx SpecContext) {
		p := profile("fleet", "paris")
		p.SetLabels(map[string]string{
			"x-k8s.io/cluster-manager": "test", "env": "prod", "region": "eu",
			v1alpha1.ClusterSetLabel: "vip", "berth.dev/member": "x", "app.kubernetes.io/instance": "fleet",
		})
		Expect(h.Create(ctx, p)).To(Succeed())
		Eventually(h.cluster(ctx, "paris")).Should(Equal("Unknown "))
		Eventually(func(g Gomega) map[string]string { return h.get(ctx, g, "paris").Labels }).Should(Equal(map[string]string{
			"x-k8s.io/cluster-manager": "test", "env": "prod", "region": "eu",
			v1alpha1.ClusterSetLabel: "default", v1alpha1.ClusterProfileNamespaceLabel: "fleet",
		}))
		c := h.get(ctx, Default, "paris")
		Expect(c.Spec.HubAcceptsClient).To(BeTrue())
		Expect(c.Annotations[v1alpha1.ClusterProfileAnnotation]).To(HavePrefix("fleet/paris " + string(p.GetUID()) + " "))

		By("following the status")
		h.status(ctx, p, metav1.ConditionTrue, "v1.36.1", properties{"region": "eu", "load": "NaN"})
		Eventually(h.cluster(ctx, "paris")).Should(Equal("True v1.36.1 load=NaN region=eu"))
		h.status(ctx, p, metav1.ConditionFalse, "v1.37.0", properties{"load": "Inf"})
		Eventually(h.cluster(ctx, "paris")).Should(Equal("False v1.37.0 load=Inf"))
		Eventually(func(g Gomega) []v1alpha1.Taint { return h.get(ctx, g, "paris").Spec.Taints }).Should(ConsistOf(HaveField("Key", v1alpha1.ManagedClusterTaintUnavailable)))
		h.status(ctx, p, "", "", nil)
		Eventually(h.cluster(ctx, "paris")).Should(Equal("Unknown "))

		By("following the labels, and leaving those of people")
		Expect(h.Patch(ctx, h.get(ctx, Default, "paris"), client.RawPatch("application/merge-patch+json",
			[]byte(`{"metadata":{"labels":{"team":"mine","cluster.open-cluster-management.io/clusterset":"vip"}}}`)))).To(Succeed())
		Expect(h.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		p.SetLabels(map[string]string{"x-k8s.io/cluster-manager": "test", "env": "dev", "team": "theirs", v1alpha1.ClusterSetLabel: "default"})
		Expect(h.Update(ctx, p)).To(Succeed())
		want := map[string]string{
			"x-k8s.io/cluster-manager": "test", "env": "dev", "team": "mine", v1alpha1.ClusterSetLabel: "vip", v1alpha1.ClusterProfileNamespaceLabel: "fleet",
		}
		Eventually(func(g Gomega) map[string]string { return h.get(ctx, g, "paris").Labels }).Should(Equal(want))
		h.witness(ctx)
		Expect(h.get(ctx, Default, "paris").Labels).To(Equal(want))
		Expect(h.Delete(ctx, p)).To(Succeed())
		Eventually(h.cluster(ctx, "paris")).Should(Equal("absent"))
	})

	It("are not written while their profiles say the same", func(ctx SpecContext) {
		p := h.add(ctx, "fleet", "still", "still")
		h.witness(ctx)
		before := h.get(ctx, Default, "still").ResourceVersion
		h.status(ctx, p, metav1.ConditionTrue, "v1.36.1", properties{"region": "eu"})
		Expect(h.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		p.SetAnnotations(map[string]string{"observed": "again"})
		Expect(h.Update(ctx, p)).To(Succeed())
		h.witness(ctx)
		h.restart(inFleet, "")
		h.witness(ctx)
		Expect(h.get(ctx, Default, "still").ResourceVersion).To(Equal(before))
		Expect(h.Delete(ctx, p)).To(Succeed())
	})

	It("leave a ManagedCluster of the same name alone, until it is gone", func(ctx SpecContext) {
		foreign := fixture.Cluster("rome").Label("env", "theirs").Set("x").Obj()
		Expect(h.Create(ctx, foreign)).To(Succeed())
		before := h.get(ctx, Default, "rome")
		p := profile("fleet", "rome")
		Expect(h.Create(ctx, p)).To(Succeed())
		Eventually(h.notes(ctx, p)).Should(ConsistOf("ClusterNameTaken: ManagedCluster rome exists and was not made from a ClusterProfile; it is not changed"))
		h.status(ctx, p, metav1.ConditionTrue, "v1.36.1", nil)
		h.witness(ctx)
		Expect(h.notes(ctx, p)(Default)).To(HaveLen(1))
		Expect(h.get(ctx, Default, "rome")).To(Equal(before))

		By("deleting its profile")
		Expect(h.Delete(ctx, p)).To(Succeed())
		h.witness(ctx)
		Expect(h.get(ctx, Default, "rome")).To(Equal(before))

		By("deleting it")
		p = profile("fleet", "rome")
		Expect(h.Create(ctx, p)).To(Succeed())
		Eventually(h.notes(ctx, p)).Should(HaveLen(1))
		Expect(h.Delete(ctx, foreign)).To(Succeed())
		Eventually(h.cluster(ctx, "rome")).Should(Equal("Unknown "))
		Expect(h.Delete(ctx, p)).To(Succeed())
		Eventually(h.cluster(ctx, "rome")).Should(Equal("absent"))
	})

	It("go to the first of two profiles with one name", func(ctx SpecContext) {
		h.restart(housekeeping.ClusterProfileOptions{Namespaces: []string{"fleet", "other"}}, "")
		first := h.add(ctx, "other", "twice", "twice")
		second := profile("fleet", "twice")
		Expect(h.Create(ctx, second)).To(Succeed())
		Eventually(h.notes(ctx, second)).Should(ConsistOf("ClusterNameTaken: ManagedCluster twice was made from ClusterProfile other/twice"))
		uid := h.get(ctx, Default, "twice").UID
		Expect(h.Delete(ctx, first)).To(Succeed())
		Eventually(h.cluster(ctx, "twice")).Should(Equal("Unknown "))
		Expect(h.get(ctx, Default, "twice").UID).NotTo(Equal(uid))
		Expect(h.Delete(ctx, second)).To(Succeed())
		Eventually(h.cluster(ctx, "twice")).Should(Equal("absent"))
	})

	It("keep the condition of their profile beside an old lease", func(ctx SpecContext) {
		testhub.CreateNamespace(ctx, h, "leased")
		Expect(h.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "leased", Name: v1alpha1.ManagedClusterLeaseName},
			Spec:       coordinationv1.LeaseSpec{RenewTime: new(metav1.NewMicroTime(time.Now().Add(-time.Hour)))},
		})).To(Succeed())
		p := h.add(ctx, "fleet", "leased", "leased")
		Expect(testhub.Patch(ctx, h, h.get(ctx, Default, "leased"), `{"spec":{"leaseDurationSeconds":1}}`)).To(Succeed())
		Consistently(h.cluster(ctx, "leased")).WithTimeout(3 * time.Second).Should(HavePrefix("True "))
		Expect(h.Delete(ctx, p)).To(Succeed())
	})

	Describe("stay on half a view:", func() {
		var kept, gone *unstructured.Unstructured

		BeforeEach(func(ctx SpecContext) {
			kept, gone = h.add(ctx, "fleet", "kept", "kept"), h.add(ctx, "fleet", "gone", "gone")
		})
		AfterEach(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(h.Delete(ctx, kept))).To(Succeed())
			Expect(client.IgnoreNotFound(h.Delete(ctx, gone))).To(Succeed())
			Eventually(h.cluster(ctx, "kept")).Should(Equal("absent"))
			Eventually(h.cluster(ctx, "gone")).Should(Equal("absent"))
		})

		It("a restart deletes only those whose profiles went meanwhile", func(ctx SpecContext) {
			h.stop()
			Expect(h.Delete(ctx, gone)).To(Succeed())
			h.start(inFleet, "")
			Eventually(h.cluster(ctx, "gone")).Should(Equal("absent"))
			Expect(h.cluster(ctx, "kept")()).To(HavePrefix("True "))
		})

		It("another namespace, and one that does not exist", func(ctx SpecContext) {
			h.stop()
			h.start(housekeeping.ClusterProfileOptions{Namespaces: []string{"other", "flete"}}, "")
			p := h.add(ctx, "other", "there", "there")
			Expect(h.Delete(ctx, p)).To(Succeed())
			Eventually(h.cluster(ctx, "there")).Should(Equal("absent"))
			Expect(h.cluster(ctx, "kept")()).To(HavePrefix("True "))
			h.stop()
			h.start(inFleet, "")
		})

		It("permissions that are gone", func(ctx SpecContext) {
			binding := &rbacv1.ClusterRoleBinding{}
			Expect(h.Get(ctx, client.ObjectKey{Name: "berth-cluster-profiles"}, binding)).To(Succeed())
			h.stop()
			Expect(h.Delete(ctx, binding)).To(Succeed())
			Expect(h.Delete(ctx, gone)).To(Succeed())
			before := testhub.Metric(failures, "Forbidden")
			h.start(inFleet, "")
			Eventually(func() float64 { return testhub.Metric(failures, "Forbidden") }).Should(BeNumerically(">=", before+2))
			Expect(h.cluster(ctx, "gone")()).To(HavePrefix("True "))
			binding.ResourceVersion, binding.UID = "", ""
			Expect(h.Create(ctx, binding)).To(Succeed())
			Eventually(h.cluster(ctx, "gone")).Should(Equal("absent"))
			Expect(h.cluster(ctx, "kept")()).To(HavePrefix("True "))
		})

		It("the CRD is deleted, and comes back", func(ctx SpecContext) {
			crd := testhub.ForeignCRD(testhub.ClusterProfiles)
			uids := []string{string(h.get(ctx, Default, "kept").UID), string(h.get(ctx, Default, "gone").UID)}
			before := testhub.Metric(failures)
			Expect(h.Delete(ctx, crd)).To(Succeed())
			Eventually(func() error { return h.Get(ctx, client.ObjectKeyFromObject(crd), crd) }).Should(Satisfy(apierrors.IsNotFound))
			Eventually(func() float64 { return testhub.Metric(failures) }).Should(BeNumerically(">", before))
			h.InstallCRD(ctx, testhub.ClusterProfiles)
			h.witness(ctx)
			h.stop()
			h.start(inFleet, "")
			h.witness(ctx)
			Expect([]string{string(h.get(ctx, Default, "kept").UID), string(h.get(ctx, Default, "gone").UID)}).To(Equal(uids))

			By("taking them over by new profiles")
			kept, gone = h.add(ctx, "fleet", "kept", "kept"), h.add(ctx, "fleet", "gone", "gone")
			for _, p := range []*unstructured.Unstructured{kept, gone} {
				Eventually(func(g Gomega) string {
					return h.get(ctx, g, p.GetName()).Annotations[v1alpha1.ClusterProfileAnnotation]
				}).
					Should(ContainSubstring(string(p.GetUID())))
			}
			Expect([]string{string(h.get(ctx, Default, "kept").UID), string(h.get(ctx, Default, "gone").UID)}).To(Equal(uids))
		})
	})

	It("have qualified names; those made before keep theirs", func(ctx SpecContext) {
		old := h.add(ctx, "fleet", "old", "old")
		h.restart(housekeeping.ClusterProfileOptions{Namespaces: []string{"fleet", "other"}, Qualified: true}, "")
		same, long := h.add(ctx, "other", "old", "other.old"), profile("fleet", strings.Repeat("a", 250))
		Expect(h.Create(ctx, long)).To(Succeed())
		Eventually(h.notes(ctx, long)).Should(ConsistOf(And(HavePrefix(`InvalidClusterName: "fleet.aaaa`), ContainSubstring("no more than 253"))))
		h.status(ctx, old, metav1.ConditionTrue, "v1.38.0", nil)
		Eventually(h.cluster(ctx, "old")).Should(Equal("True v1.38.0"))
		Expect(h.cluster(ctx, "fleet.old")()).To(Equal("absent"))

		By("deleting the one with the former name")
		Expect(h.Delete(ctx, h.get(ctx, Default, "old"))).To(Succeed())
		Eventually(h.cluster(ctx, "old")).Should(Equal("absent"))
		Eventually(h.cluster(ctx, "fleet.old")).Should(Equal("True v1.38.0"))
		for _, p := range []*unstructured.Unstructured{old, same, long} {
			Expect(h.Delete(ctx, p)).To(Succeed())
		}
		Eventually(h.cluster(ctx, "fleet.old")).Should(Equal("absent"))
		Eventually(h.cluster(ctx, "other.old")).Should(Equal("absent"))
	})

	It("cannot be taken by the agent of another cluster, and their profile says who has its annotation", func(ctx SpecContext) {
		h.ApplyYAML(ctx, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: agent}
rules:
- {apiGroups: [cluster.open-cluster-management.io], resources: [managedclusters, managedclusters/status], verbs: [create, get, update, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: agent}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: agent}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: agent}]
`)
		agent := h.As("agent")
		mark := func(value string) client.Patch {
			return client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"`+v1alpha1.ClusterProfileAnnotation+`":`+value+`}}}`))
		}
		refused := MatchError(ContainSubstring("needs the right to delete the cluster"))
		own := fixture.Cluster("own").Obj()
		Expect(h.Create(ctx, own)).To(Succeed())
		Eventually(func() error { return agent.Patch(ctx, own.DeepCopy(), mark(`"fleet/victim"`)) }).Should(refused)
		Expect(agent.Status().Patch(ctx, own.DeepCopy(), mark(`"fleet/victim"`))).To(Succeed())
		Expect(h.get(ctx, Default, "own").Annotations).NotTo(HaveKey(v1alpha1.ClusterProfileAnnotation))
		Expect(agent.Create(ctx, fixture.Cluster("new").Annotation(v1alpha1.ClusterProfileAnnotation, "fleet/victim").Obj())).To(refused)
		Expect(testhub.Patch(ctx, agent, own.DeepCopy(), `{"metadata":{"labels":{"a":"b"}}}`)).To(Succeed())
		victim := h.add(ctx, "fleet", "victim", "victim")
		Expect(agent.Patch(ctx, h.get(ctx, Default, "victim"), mark("null"))).To(refused)
		Expect(h.Delete(ctx, victim)).To(Succeed())
		Eventually(h.cluster(ctx, "victim")).Should(Equal("absent"))

		By("an annotation of an administrator")
		Expect(h.Patch(ctx, own.DeepCopy(), mark(`"fleet/blocked"`))).To(Succeed())
		h.witness(ctx) // Clusters and profiles have different watches.
		blocked := profile("fleet", "blocked")
		Expect(h.Create(ctx, blocked)).To(Succeed())
		Eventually(h.notes(ctx, blocked)).Should(ConsistOf(
			`ClusterHasOtherName: ManagedCluster "blocked" is not made, because ManagedCluster "own" has the annotation berth.dev/cluster-profile of this profile`))
		Expect(h.Patch(ctx, own.DeepCopy(), mark("null"))).To(Succeed())
		Eventually(h.cluster(ctx, "blocked")).Should(Equal("Unknown "))
		Expect(h.Delete(ctx, blocked)).To(Succeed())
		Expect(h.Delete(ctx, own)).To(Succeed())
		Eventually(h.cluster(ctx, "blocked")).Should(Equal("absent"))
	})

	It("take no more of a hostile profile than they can have", func(ctx SpecContext) {
		p := profile("fleet", "hostile")
		Expect(h.Create(ctx, p)).To(Succeed())
		big := strings.Repeat("x", 40<<10)
		Expect(h.tryStatus(ctx, p, metav1.ConditionTrue, "v1", properties{"big": big})).To(Satisfy(apierrors.IsInvalid))
		p.SetLabels(map[string]string{"no label!": "x"})
		Expect(h.Update(ctx, p)).To(Satisfy(apierrors.IsInvalid))

		By("a CRD that accepts it")
		crd := testhub.ForeignCRD(testhub.ClusterProfiles)
		Expect(h.Get(ctx, client.ObjectKeyFromObject(crd), crd)).To(Succeed())
		for i := range crd.Spec.Versions {
			status := crd.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["status"]
			list := status.Properties["properties"]
			for _, name := range []string{"name", "value"} {
				field := list.Items.Schema.Properties[name]
				field.MaxLength, field.MinLength = nil, nil
				list.Items.Schema.Properties[name] = field
			}
			status.Properties["properties"] = list
		}
		Expect(h.Update(ctx, crd)).To(Succeed())
		values := properties{"big": big, "": "unnamed", "empty": "", "a": "NaN", strings.Repeat("n", 300): "long name"}
		for i := range 1000 {
			values[fmt.Sprintf("p%04d", i)] = "1"
		}
		Expect(h.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
		Eventually(func() error { return h.tryStatus(ctx, p, metav1.ConditionTrue, "v1", values) }).Should(Succeed())
		Eventually(func(g Gomega) int { return len(h.get(ctx, g, "hostile").Status.ClusterClaims) }).Should(Equal(256))
		Expect(h.get(ctx, Default, "hostile").Status.ClusterClaims[:2]).To(Equal([]v1alpha1.ManagedClusterClaim{{Name: "a", Value: "NaN"}, {Name: "p0000", Value: "1"}}))
		Eventually(h.notes(ctx, p)).Should(ConsistOf(And(HavePrefix("PartlyCopied: ManagedCluster hostile does not have: "),
			ContainSubstring(`property "big": a value of more than 1024 characters`), ContainSubstring("745 properties"))))
		h.witness(ctx)
		Expect(h.Delete(ctx, p)).To(Succeed())
		Eventually(h.cluster(ctx, "hostile")).Should(Equal("absent"))
	})

	It("make a round trip: profiles in, and pages of the same profiles out", func(ctx SpecContext) {
		h.InstallCRD(ctx, testhub.ProfileDecisions)
		pages, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "multicluster", "role.yaml"))
		Expect(err).NotTo(HaveOccurred())
		h.ApplyYAML(ctx, string(pages))
		h.restart(housekeeping.ClusterProfileOptions{Namespaces: []string{"fleet", "other"}, Qualified: true}, "clusterProfiles: {enabled: true, names: qualified}")
		h.ApplyYAML(ctx, `
{apiVersion: cluster.open-cluster-management.io/v1beta2, kind: ManagedClusterSet, metadata: {name: fleet},
  spec: {clusterSelector: {selectorType: LabelSelector, labelSelector: {matchExpressions: [{key: berth.dev/cluster-profile-namespace, operator: Exists}]}}}}
---
{apiVersion: cluster.open-cluster-management.io/v1beta2, kind: ManagedClusterSetBinding, metadata: {name: fleet, namespace: apps}, spec: {clusterSet: fleet}}
---
{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: Placement, metadata: {name: web, namespace: apps},
  spec: {predicates: [{requiredClusterSelector: {labelSelector: {matchLabels: {x-k8s.io/cluster-manager: test}},
    claimSelector: {matchExpressions: [{key: region, operator: In, values: [eu]}]}}}]}}
`)
		listed := func(g Gomega) []string {
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion(decisions.ProfileGroupVersion)
			list.SetKind(decisions.ProfileKind)
			g.Expect(h.List(ctx, list, client.InNamespace("apps"), client.MatchingLabels{decisions.DecisionKeyLabel: "web"})).To(Succeed())
			var names []string
			for _, page := range list.Items {
				refs, _, _ := unstructured.NestedSlice(page.Object, "decisions")
				for _, d := range refs {
					ref, _, _ := unstructured.NestedStringMap(d.(map[string]any), "clusterProfileRef")
					p := profile(ref["namespace"], ref["name"])
					g.Expect(h.Get(ctx, client.ObjectKeyFromObject(p), p)).To(Succeed())
					names = append(names, ref["namespace"]+"/"+ref["name"])
				}
			}
			return names
		}
		a, b := h.add(ctx, "fleet", "paris", "fleet.paris"), h.add(ctx, "other", "paris", "other.paris")
		Eventually(listed).Should(Equal([]string{"fleet/paris", "other/paris"}))
		h.status(ctx, a, metav1.ConditionFalse, "v1.36.1", properties{"region": "eu"})
		Eventually(listed).Should(Equal([]string{"other/paris"}))
		h.status(ctx, a, metav1.ConditionTrue, "v1.36.1", properties{"region": "eu"})
		Eventually(listed).Should(Equal([]string{"fleet/paris", "other/paris"}))
		h.status(ctx, b, metav1.ConditionTrue, "v1.36.1", properties{"region": "us"})
		Eventually(listed).Should(Equal([]string{"fleet/paris"}))
		Expect(h.Delete(ctx, b)).To(Succeed())
		Expect(h.Delete(ctx, a)).To(Succeed())
		Eventually(listed).Should(BeEmpty())
	})
})
