package queues

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/cmd/berth/app"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

const (
	userInfo   = "yunikorn.apache.org/user.info"
	queueLabel = "yunikorn.apache.org/queue"

	everything = `
partitions:
- name: default
  queues:
  - {name: dev, submitacl: "ann,bob", properties: {clustersets: "dev"}}
  - {name: prod, submitacl: carl, adminacl: boss, properties: {clustersets: "prod"}}
  - {name: small, submitacl: "*", maxapplications: 2, resources: {max: {clusters: 2}}}
  - {name: legacy, submitacl: nobody}
  - {name: web, submitacl: dan}
  placementrules:
  - {name: provided}
  - {name: tag, value: team}
  - {name: fixed, value: root.legacy}
`
	withoutDev = `
partitions:
- name: default
  queues:
  - {name: prod, submitacl: carl, adminacl: boss, properties: {clustersets: "prod"}}
  - {name: small, submitacl: "*", maxapplications: 2, resources: {max: {clusters: 2}}}
  - {name: legacy, submitacl: nobody}
  - {name: web, submitacl: dan}
  placementrules:
  - {name: provided}
  - {name: tag, value: team}
  - {name: fixed, value: root.legacy}
`
	recordOfLive = `{"queue":"root.legacy","rule":"fixed","user":"nobody","tags":{"team":""},"configured":"root.legacy"}`
)

// The specs share one hub and tell one story: queues are switched on over a live hub, used,
// changed, and outlive their controllers.
var _ = Describe("Queues", Ordered, func() {
	var live *v1alpha1.Placement
	var untouched string

	AfterAll(func() { berth.Stop() })

	It("have no effect if none are configured", func(ctx SpecContext) {
		live = fixture.Placement("team", "live").Number(2).Sets("lab").Obj()
		Expect(hub.Create(ctx, live)).To(Succeed())
		berth = start(unaware, controllers.Options{})
		Eventually(clusters).WithContext(ctx).WithArguments("live").Should(Equal([]string{"lab-1", "lab-2"}))
		Eventually(condition).WithContext(ctx).WithArguments("live", v1alpha1.PlacementConditionSatisfied).Should(HavePrefix("True AllDecisionsScheduled"))
		berth.Stop()

		found := stored(ctx, "live")
		Expect(meta.FindStatusCondition(found.Status.Conditions, v1alpha1.PlacementConditionQueueAdmitted)).To(BeNil())
		Expect(found.Annotations).To(BeEmpty())
		pages := pagesOf(ctx, "live")
		Expect(pages).To(HaveLen(1))
		Expect(pages[0].Annotations).To(Equal(map[string]string{berthv1alpha1.RevisionAnnotation: "1"}))
		untouched = pages[0].ResourceVersion

		log, err := os.ReadFile(audit)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(log)).To(ContainSubstring(`"resource":"placementdecisions"`))
		for _, kind := range []string{"configmaps", "namespaces", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
			Expect(string(log)).NotTo(ContainSubstring(`"resource":"` + kind + `"`))
		}
		Expect(string(log)).NotTo(Or(ContainSubstring("QueueAdmitted"), ContainSubstring("berth.dev/queue")))
	})

	It("admit no Placement and keep published decisions while the configuration is missing or invalid", func(ctx SpecContext) {
		berth = start(hub.Config, withQueues())
		Eventually(admitted).WithContext(ctx).WithArguments("live").Should(Equal("False ConfigInvalid: ConfigMap berth-system/yunikorn-configs does not exist"))
		configure(ctx, "partitions: [{name: default, queues: [{name: a!}]}]")
		Eventually(admitted).WithContext(ctx).WithArguments("live").Should(HavePrefix("False ConfigInvalid: line 1: "))
		Eventually(configEvents).WithContext(ctx).Should(ContainElement(HavePrefix("QueueConfigInvalid line 1: ")))
		Eventually(said).Should(Receive(ContainSubstring("The queue configuration is invalid")))
		Expect(clusters(ctx, "live")).To(Equal([]string{"lab-1", "lab-2"}))
		Expect(pagesOf(ctx, "live")[0].ResourceVersion).To(Equal(untouched))
	})

	It("assign existing Placements to the user nobody", func(ctx SpecContext) {
		configure(ctx, everything)
		Eventually(admitted).WithContext(ctx).WithArguments("live").Should(Equal("True Placed: queue root.legacy by rule fixed for user nobody"))
		Expect(clusters(ctx, "live")).To(Equal([]string{"lab-1", "lab-2"}))
		Expect(records(ctx, "live")).To(Equal([]string{recordOfLive}))
		guard(ctx)
	})

	It("give a Placement only the sets that its queue, its namespace and its spec all allow", func(ctx SpecContext) {
		submit(ctx, "ann", fixture.Placement("team", "all").Obj(), "root.dev")
		Eventually(admitted).WithContext(ctx).WithArguments("all").Should(Equal("True Placed: queue root.dev by rule provided for user ann"))
		Expect(clusters(ctx, "all")).To(Equal([]string{"dev-1", "dev-2"}))
		Expect(records(ctx, "all")).To(Equal([]string{`{"queue":"root.dev","rule":"provided","user":"ann","requested":"root.dev","tags":{"team":""},"configured":"root.dev"}`}))

		submit(ctx, "ann", fixture.Placement("team", "some").Sets("prod", "dev").Obj(), "root.dev")
		Eventually(clusters).WithContext(ctx).WithArguments("some").Should(Equal([]string{"dev-1", "dev-2"}))

		submit(ctx, "ann", fixture.Placement("team", "none").Sets("prod").Obj(), "root.dev")
		Eventually(condition).WithContext(ctx).WithArguments("none", v1alpha1.PlacementConditionSatisfied).Should(HavePrefix("False NoIntersection: "))
		Expect(clusters(ctx, "none")).To(BeEmpty())
		edit(ctx, hub.As("ann"), "none", func(pl *v1alpha1.Placement) { pl.Spec.ClusterSets = nil })
		Eventually(clusters).WithContext(ctx).WithArguments("none").Should(Equal([]string{"dev-1", "dev-2"}))
	})

	It("report for each rule why it did not match", func(ctx SpecContext) {
		submit(ctx, "ann", fixture.Placement("team", "refused").Obj(), "root.prod")
		const reasons = "rule 1 (provided): user ann may not submit to root.prod; rule 2 (tag): tag team is not set; rule 3 (fixed): user ann may not submit to root.legacy"
		Eventually(admitted).WithContext(ctx).WithArguments("refused").Should(Equal("False NoRuleMatched: " + reasons))
		Expect(condition(ctx, "refused", v1alpha1.PlacementConditionSatisfied)).To(Equal("False QueueRejected: No queue accepts the Placement: " + reasons))
		Expect(clusters(ctx, "refused")).To(BeEmpty())
		Expect(records(ctx, "refused")).To(Equal([]string{""}))
	})

	It("do not let a user submit as another user", func(ctx SpecContext) {
		forged := fixture.Placement("team", "forged").Annotation(userInfo, `{"user":"carl"}`).Obj()
		Expect(hub.As("ann").Create(ctx, forged)).To(MatchError(ContainSubstring("not allowed to set user annotation")))
		pl := stored(ctx, "refused")
		pl.Annotations[userInfo] = `{"user":"carl"}`
		Expect(hub.As("ann").Update(ctx, pl)).To(MatchError(ContainSubstring("user info annotation change is not allowed")))
		pl = stored(ctx, "refused")
		pl.Labels["yunikorn.apache.org/username"] = "carl"
		Expect(hub.As("ann").Update(ctx, pl)).To(Succeed())
		Expect(admitted(ctx, "refused")).To(HavePrefix("False NoRuleMatched: rule 1 (provided): user ann "))
		Expect(clusters(ctx, "refused")).To(BeEmpty())
	})

	It("decide a template of a PlacementExplanation for its submitter", func(ctx SpecContext) { decidesTemplates(ctx) })

	It("let only the submitter and administrators request another queue", func(ctx SpecContext) {
		submit(ctx, "carl", fixture.Placement("team", "moved").Obj(), "root.prod")
		Eventually(clusters).WithContext(ctx).WithArguments("moved").Should(Equal([]string{"prod-1", "prod-2"}))
		move := func(user, to string) error {
			patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, queueLabel, to)
			return testhub.Patch(ctx, hub.As(user), stored(ctx, "moved"), patch)
		}
		Expect(move("ann", "root.dev")).To(MatchError(ContainSubstring("may not change the requested queue")))
		Eventually(func() error { return move("boss", "root.small") }).Should(Succeed())
		Eventually(clusters).WithContext(ctx).WithArguments("moved").Should(HaveLen(2))
		Eventually(records).WithContext(ctx).WithArguments("moved").Should(ConsistOf(ContainSubstring("root.small")))
		Expect(move("boss", "root.prod")).To(MatchError(ContainSubstring("may not change the requested queue")), "boss administers root.prod only")
		Expect(move("carl", "root.prod")).To(Succeed())
		Eventually(clusters).WithContext(ctx).WithArguments("moved").Should(Equal([]string{"prod-1", "prod-2"}))
	})

	It("let only the submitter and administrators change a tag that rules read", func(ctx SpecContext) {
		pl := fixture.Placement("team", "tagged").Obj()
		pl.Labels = map[string]string{"team": "web"}
		Expect(hub.As("dan").Create(ctx, pl)).To(Succeed())
		Eventually(admitted).WithContext(ctx).WithArguments("tagged").Should(Equal("True Placed: queue root.web by rule tag for user dan"))
		tag := func(user, to string) error {
			patch := fmt.Sprintf(`{"metadata":{"labels":{"team":%q}}}`, to)
			return testhub.Patch(ctx, hub.As(user), stored(ctx, "tagged"), patch)
		}
		Expect(tag("ann", "small")).To(MatchError(ContainSubstring("may not change tag team")))
		Expect(tag("boss", "small")).To(MatchError(ContainSubstring("may not change tag team")), "boss administers root.prod only")
		Expect(admitted(ctx, "tagged")).To(ContainSubstring("root.web"))
		Expect(tag("dan", "small")).To(Succeed())
		Eventually(admitted).WithContext(ctx).WithArguments("tagged").Should(Equal("True Placed: queue root.small by rule tag for user dan"))
		Expect(hub.Delete(ctx, stored(ctx, "tagged"))).To(Succeed())
	})

	It("use a recorded queue only from pages that the Placement controls, and only for users with access", func(ctx SpecContext) {
		berth.Stop()
		record := func(queue, user string) string {
			return fmt.Sprintf(`{"queue":%q,"rule":"provided","user":%q,"requested":%q,"configured":%q}`, queue, user, queue, queue)
		}
		forge := func(pl *v1alpha1.Placement, page, record string, controlled bool) {
			GinkgoHelper()
			owner := metav1.OwnerReference{APIVersion: "cluster.open-cluster-management.io/v1beta1", Kind: "Placement", Name: pl.Name, UID: pl.UID, Controller: &controlled}
			object := &v1alpha1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
				Namespace: pl.Namespace, Name: page, Labels: map[string]string{v1alpha1.PlacementLabel: pl.Name},
				Annotations: map[string]string{v1alpha1.QueueAnnotation: record}, OwnerReferences: []metav1.OwnerReference{owner},
			}}
			Expect(hub.Create(ctx, object)).To(Succeed())
			object.Status.Decisions = []v1alpha1.ClusterDecision{{ClusterName: "prod-1"}, {ClusterName: "prod-2"}}
			Expect(hub.Status().Update(ctx, object)).To(Succeed())
		}
		unguarded := withoutGuard(ctx)
		forged := fixture.Placement("other", "forged").Number(2).Annotation(userInfo, `{"user":"eve","groups":[]}`).Obj()
		foreign := fixture.Placement("other", "foreign").Number(2).Annotation(userInfo, `{"user":"carl","groups":[]}`).Obj()
		Expect(hub.Create(ctx, forged)).To(Succeed())
		Expect(hub.Create(ctx, foreign)).To(Succeed())
		forge(forged, "forged-decision-1", record("root.prod", "eve"), true)
		forge(foreign, "foreign-decision-1", record("root.prod", "carl"), false)
		unguarded()
		berth = start(hub.Config, withQueues())
		reasons := "False NoRuleMatched: rule 1 (provided): no queue was requested"
		Eventually(ctx, testhub.Condition).WithArguments(hub, fixture.Placement("other", "forged").Obj(), v1alpha1.PlacementConditionQueueAdmitted).Should(HavePrefix(reasons))
		Eventually(ctx, testhub.Condition).WithArguments(hub, fixture.Placement("other", "foreign").Obj(), v1alpha1.PlacementConditionQueueAdmitted).Should(HavePrefix(reasons))
		Expect(hub.Delete(ctx, forged)).To(Succeed())
		Expect(hub.Delete(ctx, foreign)).To(Succeed())
		Eventually(answers).WithContext(ctx).Should(Succeed())
	})

	It("publish an empty decision for a user who loses access", func(ctx SpecContext) {
		submit(ctx, "bob", fixture.Placement("team", "revoked").Obj(), "root.dev")
		Eventually(clusters).WithContext(ctx).WithArguments("revoked").Should(Equal([]string{"dev-1", "dev-2"}))
		configure(ctx, strings.Replace(everything, `submitacl: "ann,bob"`, `submitacl: "ann"`, 1))
		Eventually(admitted).WithContext(ctx).WithArguments("revoked").Should(HavePrefix("False NoRuleMatched: rule 1 (provided): user bob may not submit to root.dev"))
		Eventually(clusters).WithContext(ctx).WithArguments("revoked").Should(BeEmpty())
		Expect(clusters(ctx, "all")).To(Equal([]string{"dev-1", "dev-2"}))
		configure(ctx, everything)
		Eventually(clusters).WithContext(ctx).WithArguments("revoked").Should(Equal([]string{"dev-1", "dev-2"}))
		Expect(hub.Delete(ctx, stored(ctx, "revoked"))).To(Succeed())
	})

	It("make Placements wait for the quota, limit clusters and free them", func(ctx SpecContext) {
		submit(ctx, "dan", fixture.Placement("team", "first").Number(2).Obj(), "root.small")
		Eventually(clusters).WithContext(ctx).WithArguments("first").Should(HaveLen(2))
		submit(ctx, "dan", fixture.Placement("team", "second").Number(2).Obj(), "root.small")
		Eventually(condition).WithContext(ctx).WithArguments("second", v1alpha1.PlacementConditionSatisfied).
			Should(Equal("False NotAllDecisionsScheduled: 2 cluster decisions unscheduled by quota: root.small clusters 2 (2 used by others, in this namespace by first 2)"))
		submit(ctx, "eve", fixture.Placement("team", "third").Number(2).Obj(), "root.small")
		Eventually(admitted).WithContext(ctx).WithArguments("third").Should(Equal("False QuotaExceeded: queue root.small is full: root.small maxapplications 2 (2 used by others, in this namespace by first, second)"))

		edit(ctx, hub.As("dan"), "first", func(pl *v1alpha1.Placement) { pl.Spec.NumberOfClusters = new(int32(1)) })
		Eventually(clusters).WithContext(ctx).WithArguments("second").Should(HaveLen(1))
		Expect(hub.Delete(ctx, stored(ctx, "first"))).To(Succeed())
		// The one that decides first gets the cluster.
		Eventually(func() int {
			return len(testhub.Must(clusters(ctx, "second"))) + len(testhub.Must(clusters(ctx, "third")))
		}).Should(Equal(2))
		Eventually(admitted).WithContext(ctx).WithArguments("third").Should(HavePrefix("True Placed: queue root.small"))
	})

	It("keep assigned Placements after a new configuration, and apply it at once to new ones", func(ctx SpecContext) {
		Expect(reconfigure(ctx, "partitions: {")).To(MatchError(ContainSubstring("line 1: ")))
		configure(ctx, withoutDev)
		Eventually(admitted).WithContext(ctx).WithArguments("all").Should(Equal("True QueueDraining: queue root.dev drains: it keeps its Placements and takes no others"))
		submit(ctx, "bob", fixture.Placement("team", "late").Obj(), "root.dev")
		Eventually(admitted).WithContext(ctx).WithArguments("late").Should(ContainSubstring("rule 1 (provided): queue root.dev is draining"))
	})

	It("drain with their sets, and keep decisions after a restart", func(ctx SpecContext) { drains(ctx) })

	It("refuse a configuration that takes the queues of Placements, and keep decisions if it is stored", func(ctx SpecContext) { refusesReloads(ctx) })

	It("warn of a configuration that leaves Placements without a queue", func(ctx SpecContext) {
		warnings := &bytes.Buffer{}
		config := rest.CopyConfig(hub.Config)
		config.WarningHandler = rest.NewWarningWriter(warnings, rest.WarningWriterOptions{})
		c, err := client.New(config, client.Options{Scheme: hub.Scheme()})
		Expect(err).NotTo(HaveOccurred())
		shortest := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: queueConfig.Namespace, Name: queueConfig.Name},
			Data:       map[string]string{"queues.yaml": strings.Split(withoutDev, "  placementrules:")[0]},
		}
		Expect(c.Create(ctx, shortest.DeepCopy(), client.DryRunAll)).NotTo(Succeed(), "it exists")
		Expect(c.Update(ctx, shortest, client.DryRunAll)).To(Succeed())
		Expect(warnings.String()).To(MatchRegexp(`Warning: no rule finds a queue for \d+ of the \d+ Placements, so they get no cluster; the first is team/[a-z]+: rule 1 \(provided\): `))

		file := filepath.Join(GinkgoT().TempDir(), "queues.yaml")
		Expect(os.WriteFile(file, []byte(shortest.Data["queues.yaml"]), 0o600)).To(Succeed())
		printed := &bytes.Buffer{}
		check := app.NewCommand()
		check.SetOut(io.Discard)
		check.SetErr(printed)
		Expect(app.Run(check, []string{"queues", "check", "-f", file, "--kubeconfig", hub.Kubeconfig})).To(BeZero())
		Expect(printed.String()).To(MatchRegexp(`warning: .*queues.yaml: no rule finds a queue for \d+ of the \d+ Placements`))
	})

	It("survive a restart of the controller and a lost configuration", func(ctx SpecContext) {
		before := records(ctx, "all")
		berth.Stop()
		Expect(hub.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: queueConfig.Namespace, Name: queueConfig.Name}})).To(Succeed())
		berth = start(hub.Config, withQueues())
		Eventually(admitted).WithContext(ctx).WithArguments("all").Should(HavePrefix("False ConfigInvalid: "))
		Expect(records(ctx, "all")).To(Equal(before))
		configure(ctx, everything)
		Eventually(admitted).WithContext(ctx).WithArguments("all").Should(HavePrefix("True Placed: queue root.dev"))
		Eventually(admitted).WithContext(ctx).WithArguments("late").Should(HavePrefix("True Placed: queue root.dev"))
		Expect(records(ctx, "all")).To(Equal(before))
		Expect(records(ctx, "live")).To(Equal([]string{recordOfLive}))

		Expect(hub.Delete(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: queueConfig.Namespace, Name: queueConfig.Name}})).To(Succeed())
		Eventually(said).Should(Receive(ContainSubstring("the last valid one stays in use")))
		Eventually(answers).WithContext(ctx).Should(Succeed())
		submit(ctx, "bob", fixture.Placement("team", "later").Obj(), "root.dev")
		Eventually(clusters).WithContext(ctx).WithArguments("later").Should(Equal([]string{"dev-1", "dev-2"}))
		configure(ctx, everything)
	})

	It("keep the quota of a held change over a restart", keepsHeldQuota)

	It("are served for admission by a replica that does not lead, too", func(ctx SpecContext) {
		berth.Stop()
		berth = start(hub.Config, controllers.Options{QueueConfig: queueConfig, LeaderElection: true, LeaderElectionNamespace: "berth-system"})
		submitted := stored(ctx, "moved")
		Eventually(said).Should(Receive(ContainSubstring("Starting workers")))
		o := withQueues()
		o.LeaderElection, o.LeaderElectionNamespace = true, "berth-system"
		follower := start(hub.Config, o)
		DeferCleanup(func() { follower.Stop() })
		Eventually(answers).WithContext(ctx).Should(Succeed())
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:"root.small"}}}`, queueLabel))
		Expect(hub.As("ann").Patch(ctx, submitted.DeepCopy(), patch)).To(MatchError(ContainSubstring("may not change the requested queue")))
		Eventually(func() error { return hub.As("boss").Patch(ctx, submitted.DeepCopy(), patch) }).Should(Succeed())
		submit(ctx, "bob", fixture.Placement("team", "last").Obj(), "root.dev")
		Eventually(clusters).WithContext(ctx).WithArguments("last").Should(Equal([]string{"dev-1", "dev-2"}))
	})
})

func submit(ctx context.Context, user string, pl *v1alpha1.Placement, queue string) {
	GinkgoHelper()
	pl.Labels = map[string]string{queueLabel: queue}
	Expect(hub.As(user).Create(ctx, pl)).To(Succeed())
}

func edit(ctx context.Context, c client.Client, name string, change func(*v1alpha1.Placement)) {
	GinkgoHelper()
	testhub.Edit(ctx, c, named(name), change)
}

// configure puts queues on the hub.
func configure(ctx context.Context, queues string) {
	GinkgoHelper()
	Expect(reconfigure(ctx, queues)).To(Succeed())
}

func reconfigure(ctx context.Context, queues string) error {
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: queueConfig.Namespace, Name: queueConfig.Name}, Data: map[string]string{"queues.yaml": queues},
	}
	if err := hub.Create(ctx, object.DeepCopy()); client.IgnoreAlreadyExists(err) != nil || err == nil {
		return err
	}
	return hub.Update(ctx, object)
}

func named(name string) *v1alpha1.Placement { return fixture.Placement("team", name).Obj() }

func stored(ctx context.Context, name string) *v1alpha1.Placement {
	GinkgoHelper()
	return testhub.Must(testhub.Get(ctx, hub, named(name)))
}

func pagesOf(ctx context.Context, name string) []v1alpha1.PlacementDecision {
	GinkgoHelper()
	return testhub.Must(testhub.Pages(ctx, hub, named(name)))
}

// clusters are those that the pages list.
func clusters(ctx context.Context, name string) ([]string, error) {
	return testhub.Clusters(ctx, hub, named(name))
}

// records are the queues that the pages record.
func records(ctx context.Context, name string) (records []string) {
	for _, page := range pagesOf(ctx, name) {
		records = append(records, page.Annotations[v1alpha1.QueueAnnotation])
	}
	return records
}

func admitted(ctx context.Context, name string) (string, error) {
	return condition(ctx, name, v1alpha1.PlacementConditionQueueAdmitted)
}

func condition(ctx context.Context, name, kind string) (string, error) {
	return testhub.Condition(ctx, hub, named(name), kind)
}

// configEvents are those about the queues' ConfigMap.
func configEvents(ctx context.Context) (events []string) {
	all := testhub.Must(testhub.Events(ctx, hub, queueConfig.Namespace))
	for _, e := range all {
		if e.Regarding.Kind == "ConfigMap" && e.Regarding.Name == queueConfig.Name {
			events = append(events, e.Reason+" "+e.Note)
		}
	}
	return events
}
