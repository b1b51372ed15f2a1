package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// recorded creates the record of a change between two sets of clusters, names separated by spaces.
func recorded(ctx context.Context, pl *v1alpha1.Placement, revision int64, from, to string, phase berthv1alpha1.ChangePhase) *berthv1alpha1.PlacementChange {
	GinkgoHelper()
	change := changes.NewChange(strings.Fields(from), strings.Fields(to))
	change.Cause, change.Generation = "Placement: spec", now(ctx, pl).Generation
	return create(ctx, pl, revision, change, phase)
}

func create(ctx context.Context, pl *v1alpha1.Placement, revision int64, change changes.Change, phase berthv1alpha1.ChangePhase) *berthv1alpha1.PlacementChange {
	GinkgoHelper()
	record := changes.NewRecord(pl, 0, revision, change)
	DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(hub.Delete(ctx, record))).To(Succeed()) })
	Expect(hub.Create(ctx, record)).To(Succeed())
	setPhase(ctx, record, phase)
	return record
}

func setPhase(ctx context.Context, record *berthv1alpha1.PlacementChange, phase berthv1alpha1.ChangePhase) {
	GinkgoHelper()
	Expect(hub.Get(ctx, client.ObjectKeyFromObject(record), record)).To(Succeed())
	record.Status.Phase = phase
	Expect(hub.Status().Update(ctx, record)).To(Succeed())
}

func approvalOf(ctx context.Context, record *berthv1alpha1.PlacementChange) *berthv1alpha1.ChangeApproval {
	GinkgoHelper()
	got := &berthv1alpha1.PlacementChange{}
	Expect(hub.Get(ctx, client.ObjectKeyFromObject(record), got)).To(Succeed())
	return got.Spec.Approval
}

// leaveAlone stops scheduling of a Placement and removes its record, so that all records are the
// spec's.
func leaveAlone(ctx context.Context, pl *v1alpha1.Placement) {
	GinkgoHelper()
	patch(ctx, fixture.Placement(pl.Namespace, pl.Name).Obj(), fmt.Sprintf(`{"metadata":{"annotations":{%q:"true"}}}`, v1alpha1.PlacementDisableAnnotation))
	first := &berthv1alpha1.PlacementChange{ObjectMeta: metav1.ObjectMeta{Namespace: pl.Namespace, Name: changes.Name(pl.Name, 1)}}
	Eventually(func() (berthv1alpha1.ChangePhase, error) {
		err := hub.Get(ctx, client.ObjectKeyFromObject(first), first)
		return first.Status.Phase, err
	}).Should(Equal(berthv1alpha1.PhasePublished))
	Expect(hub.Delete(ctx, first)).To(Succeed())
}

var _ = Describe("A held change", func() {
	It("is approved, published and listed", func(ctx SpecContext) {
		t := newTeam(ctx)
		pl := t.place(ctx, fixture.Placement(string(t), "web").Number(1), 1)
		require(ctx, pl)
		number(ctx, pl, 2)
		held(ctx, pl, 1)
		got := run(ctx, "", "approve", "web", "-n", string(t), "--yes", "--comment", "reviewed", "--as", "ann", "--as-group", "system:masters")
		Expect(got.code).To(Equal(same), got.err)
		Eventually(func() string { return run(ctx, "", "history", "web", "-n", string(t)).out }).Should(MatchRegexp(
			`^REVISION +AGE +PHASE +CAUSE +BY +ADDED +REMOVED +APPROVER\n1 .* Published .*\n2 +\d+s +Published +Placement: numberOfClusters: 1 → 2 +\S+ +1 +0 +ann\n$`))
	})
})

var _ = Describe("history", func() {
	var (
		t  team
		pl *v1alpha1.Placement
	)
	BeforeEach(func(ctx SpecContext) {
		t = newTeam(ctx)
		pl = t.place(ctx, fixture.Placement(string(t), "web").Number(1), 1)
		leaveAlone(ctx, pl)
	})
	history := func(ctx context.Context, words ...string) result {
		return run(ctx, "", append([]string{"history", "web", "-n", string(t)}, words...)...)
	}

	It("lists the records of the current Placement, with gaps and approvers", func(ctx SpecContext) {
		Expect(history(ctx)).To(Equal(result{same, "Placement " + string(t) + "/web has no recorded changes.\n", ""}))
		recorded(ctx, pl, 1, "", "a", berthv1alpha1.PhasePublished)
		recorded(ctx, pl, 3, "a", "a b", berthv1alpha1.PhaseHeld)
		earlier := pl.DeepCopy()
		earlier.UID = "earlier"
		recorded(ctx, earlier, 9, "", "z", berthv1alpha1.PhaseHeld)
		Expect(run(ctx, "", "reject", "web", "-n", string(t), "--yes", "--comment", "not on a Friday", "--as", "ann", "--as-group", "system:masters").code).To(Equal(same))
		got := history(ctx)
		Expect(got.code).To(Equal(same), got.err)
		Expect(got.out).To(MatchRegexp(`^REVISION +AGE +PHASE +CAUSE +BY +ADDED +REMOVED +APPROVER\n` +
			`1 +\d+s +Published +Placement: spec +<none> +1 +0 +<none>\n… +records are missing\n3 +\d+s +Held +Placement: spec +<none> +1 +0 +ann \(rejected\)\n$`))
		Expect(history(ctx, "-o", "wide").out).To(ContainSubstring("not on a Friday"))

		shown := map[string]any{}
		Expect(json.Unmarshal([]byte(history(ctx, "-o", "json").out), &shown)).To(Succeed())
		Expect(shown).To(HaveKeyWithValue("changes", HaveExactElements(
			And(HaveKeyWithValue("revision", 1.0), Not(HaveKey("missingBefore"))),
			And(HaveKeyWithValue("revision", 3.0), HaveKeyWithValue("missingBefore", true), HaveKeyWithValue("approval", HaveKeyWithValue("by", "ann"))))))
	})

	It("shows one change with all its clusters, also those in spec.delta", func(ctx SpecContext) {
		var names []string
		for i := range 1_500 {
			names = append(names, fmt.Sprintf("cluster-%04d", i))
		}
		change := changes.NewChange([]string{"old"}, names)
		change.Cause = "ManagedCluster cluster-0001: labels"
		create(ctx, pl, 2, change, berthv1alpha1.PhasePublished)
		got := history(ctx, "--revision", "2")
		Expect(got.code).To(Equal(same), got.err)
		Expect(got.out).To(And(HavePrefix("Placement "+string(t)+"/web, change 2: Published\n"), ContainSubstring("Added:    1500\n  Removed:  1\n"),
			ContainSubstring("\nadded     cluster-1499\nremoved   old\n")))
		var shown struct{ Added, Removed []string }
		Expect(json.Unmarshal([]byte(history(ctx, "--revision", "2", "-o", "json").out), &shown)).To(Succeed())
		Expect(shown.Added).To(Equal(names))
		Expect(shown.Removed).To(HaveExactElements("old"))
		Expect(history(ctx, "--revision", "7").err).To(Equal("kubectl placement: there is no record of revision 7 of Placement " + string(t) + "/web; there are 2\n"))
		Expect(history(ctx, "--revision", "0").code).To(Equal(misused))
	})

	It("reports a missing Placement and a missing permission", func(ctx SpecContext) {
		Expect(run(ctx, "", "history", "none", "-n", string(t))).To(Equal(result{failed, "", "kubectl placement: there is no Placement " + string(t) + "/none\n"}))
		t.grant(ctx, "reader", map[string][]string{"placements": {"get"}})
		got := history(ctx, "--as", "reader")
		Expect(got.code).To(Equal(failed))
		Expect(got.err).To(And(ContainSubstring("needs permission to list placementchanges"), ContainSubstring(`User "reader" cannot list`)))
	})
})

var _ = Describe("approve and reject", func() {
	var (
		t  team
		pl *v1alpha1.Placement
	)
	BeforeEach(func(ctx SpecContext) {
		t = newTeam(ctx)
		pl = t.place(ctx, fixture.Placement(string(t), "web").Number(1), 1)
		leaveAlone(ctx, pl)
	})
	answer := func(ctx context.Context, words ...string) result {
		return run(ctx, "", append(words, "web", "-n", string(t))...)
	}

	It("act on the open change as the current user, with a comment", func(ctx SpecContext) {
		Expect(answer(ctx, "approve", "--yes")).To(Equal(result{failed, "", "kubectl placement: nothing to approve: no change of Placement " + string(t) + "/web is held\n"}))
		record := recorded(ctx, pl, 2, t.name(1), t.name(2), berthv1alpha1.PhaseHeld)
		got := answer(ctx, "approve", "--yes", "--comment", "reviewed", "--as", "ann", "--as-group", "system:masters")
		Expect(got.code).To(Equal(same), got.err)
		Expect(got.out).To(And(HavePrefix("Placement "+string(t)+"/web, change 2: Held\n"), ContainSubstring("Added:    1: "+t.name(2)+"\n  Removed:  1: "+t.name(1)+"\n"),
			HaveSuffix("placementchange.berth.dev/web-2 approved\n")))
		Expect(approvalOf(ctx, record)).To(HaveValue(Equal(berthv1alpha1.ChangeApproval{Decision: berthv1alpha1.Approved, By: "ann", Comment: "reviewed"})))
		Expect(answer(ctx, "approve", "-y").err).To(ContainSubstring("nothing to approve: change 2 of Placement " + string(t) + "/web was approved by ann already"))
		Expect(answer(ctx, "reject", "-y").err).To(ContainSubstring("was approved by ann already"))
	})

	It("approve a rejected change that still applies", func(ctx SpecContext) {
		record := recorded(ctx, pl, 2, t.name(1), t.name(2), berthv1alpha1.PhaseHeld)
		Expect(answer(ctx, "reject", "-y", "--comment", "no").code).To(Equal(same))
		Expect(approvalOf(ctx, record)).To(HaveField("Decision", berthv1alpha1.Rejected))
		setPhase(ctx, record, berthv1alpha1.PhaseRejected)
		Expect(answer(ctx, "reject", "-y").err).To(ContainSubstring("nothing to reject: change 2 of Placement " + string(t) + "/web was rejected by"))
		got := answer(ctx, "approve", "-y", "-o", "json")
		Expect(got.code).To(Equal(same), got.err)
		shown := map[string]any{}
		Expect(json.Unmarshal([]byte(got.out), &shown)).To(Succeed())
		Expect(shown).To(And(HaveKeyWithValue("phase", "Rejected"), HaveKeyWithValue("added", HaveExactElements(t.name(2)))))
		Expect(approvalOf(ctx, record)).To(And(HaveField("Decision", berthv1alpha1.Approved), HaveField("Comment", "")))

		expired := recorded(ctx, pl, 3, "other clusters", t.name(2), berthv1alpha1.PhaseExpired)
		Expect(answer(ctx, "approve", "-y", "--revision", "3").err).To(ContainSubstring("other clusters were published since"))
		Expect(approvalOf(ctx, expired)).To(BeNil())
	})

	It("act only on the change that was shown or named", func(ctx SpecContext) {
		first := recorded(ctx, pl, 2, t.name(1), t.name(2), berthv1alpha1.PhaseSuperseded)
		second := recorded(ctx, pl, 3, t.name(1), t.name(3), berthv1alpha1.PhaseHeld)
		Expect(answer(ctx, "approve", "-y", "--revision", "2").err).To(ContainSubstring("change 2 of Placement " + string(t) + "/web is Superseded"))
		earlier := pl.DeepCopy()
		earlier.UID = "earlier"
		third := recorded(ctx, earlier, 4, t.name(1), "x", berthv1alpha1.PhaseHeld)
		Expect(answer(ctx, "approve", "-y").out).To(ContainSubstring("change 3"))
		Expect([]*berthv1alpha1.ChangeApproval{approvalOf(ctx, first), approvalOf(ctx, third)}).To(HaveEach(BeNil()))
		Expect(approvalOf(ctx, second)).NotTo(BeNil())
	})

	It("need a terminal or --yes", func(ctx SpecContext) {
		record := recorded(ctx, pl, 2, t.name(1), t.name(2), berthv1alpha1.PhaseHeld)
		got := run(ctx, "y\n", "approve", "web", "-n", string(t))
		Expect(got.code).To(Equal(misused))
		Expect(got.out).To(ContainSubstring("change 2: Held"))
		Expect(got.err).To(ContainSubstring("there is no terminal to ask on: give --yes"))
		Expect(approvalOf(ctx, record)).To(BeNil())
	})

	It("need permission", func(ctx SpecContext) {
		record := recorded(ctx, pl, 2, t.name(1), t.name(2), berthv1alpha1.PhaseHeld)
		for _, grant := range []struct{ user, role string }{
			{"viewer", "berth-viewer"}, {"approver", "berth-viewer"}, {"approver", "berth-approver"},
		} {
			testhub.Grant(ctx, hub, string(t), grant.user, grant.role)
		}
		for user, want := range map[string]string{
			"nobody": `User "nobody" cannot get resource "placements"`,
			"viewer": "approving change 2 of Placement " + string(t) + "/web needs permission to patch placementchanges: ",
		} {
			got := answer(ctx, "approve", "--yes", "--as", user)
			Expect(got.code).To(Equal(failed), user)
			Expect(got.err).To(ContainSubstring(want))
		}
		Expect(approvalOf(ctx, record)).To(BeNil())
		got := answer(ctx, "approve", "--yes", "--as", "approver")
		Expect(got.code).To(Equal(same), got.err)
		Expect(approvalOf(ctx, record)).To(HaveField("By", "approver"))
	})
})
