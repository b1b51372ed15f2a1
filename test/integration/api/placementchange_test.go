package api

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/test/testhub"
)

// digest is a valid value of spec.from and spec.to.
var digest = strings.Repeat("0", 64)

// placementChange is a valid record.
func placementChange(name string) *berthv1alpha1.PlacementChange {
	return &berthv1alpha1.PlacementChange{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: berthv1alpha1.PlacementChangeSpec{
			Placement: "web", Revision: 1, From: digest, To: digest, Clusters: 1, Added: []string{"a"}, AddedCount: 1,
			Cause: "Placement: spec", PlacementGeneration: 1,
		},
	}
}

// inPhase stores a record in a phase, for the length of the spec.
func inPhase(ctx context.Context, phase berthv1alpha1.ChangePhase) *berthv1alpha1.PlacementChange {
	GinkgoHelper()
	record := placementChange("")
	record.GenerateName = "web-"
	create(ctx, record)
	if phase != "" {
		record.Status.Phase = phase
		Expect(hub.Status().Update(ctx, record)).To(Succeed())
	}
	return record
}

// setApproval replaces spec.approval with the given JSON.
func setApproval(ctx context.Context, record *berthv1alpha1.PlacementChange, approval string) error {
	return testhub.Patch(ctx, hub, record.DeepCopy(), `{"spec": {"approval": `+approval+`}}`)
}

const (
	approved = `{"decision": "Approved", "by": "ann"}`
	rejected = `{"decision": "Rejected", "by": "ann"}`
)

var _ = Describe("A PlacementChange", func() {
	DescribeTable("is refused with the path of the field",
		func(ctx SpecContext, edit func(*berthv1alpha1.PlacementChangeSpec), want ...string) {
			record := placementChange("refused")
			edit(&record.Spec)
			err := hub.Create(ctx, record, client.DryRunAll)
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v", err)
			for _, w := range want {
				Expect(err.Error()).To(ContainSubstring(w))
			}
		},
		Entry("a revision of 0", func(s *berthv1alpha1.PlacementChangeSpec) { s.Revision = 0 }, "spec.revision", "greater than or equal to 1"),
		Entry("a negative first revision", func(s *berthv1alpha1.PlacementChangeSpec) { s.FirstRevision = -1 }, "spec.firstRevision"),
		Entry("a digest in upper case", func(s *berthv1alpha1.PlacementChangeSpec) { s.From = strings.Repeat("A", 64) }, "spec.from"),
		Entry("a digest that is too short", func(s *berthv1alpha1.PlacementChangeSpec) { s.To = digest[1:] }, "spec.to"),
		Entry("a negative size", func(s *berthv1alpha1.PlacementChangeSpec) { s.Clusters = -1 }, "spec.clusters"),
		Entry("a negative number of added clusters", func(s *berthv1alpha1.PlacementChangeSpec) { s.AddedCount = -1 }, "spec.addedCount"),
		Entry("a negative number of removed clusters", func(s *berthv1alpha1.PlacementChangeSpec) { s.RemovedCount = -1 }, "spec.removedCount"),
		Entry("1,001 added clusters", func(s *berthv1alpha1.PlacementChangeSpec) { s.Added = names(1_001, 4) }, "spec.added", "at most 1000 items"),
		Entry("1,001 removed clusters", func(s *berthv1alpha1.PlacementChangeSpec) { s.Removed = names(1_001, 4) }, "spec.removed", "at most 1000 items"),
		Entry("the name of a cluster with 254 characters", func(s *berthv1alpha1.PlacementChangeSpec) { s.Added = names(1, 254) }, "spec.added[0]"),
		Entry("an invalid Placement name", func(s *berthv1alpha1.PlacementChangeSpec) { s.Placement = longName }, "spec.placement"),
		Entry("a long cause", func(s *berthv1alpha1.PlacementChangeSpec) { s.Cause = strings.Repeat("c", 1_025) }, "spec.cause"),
		Entry("a delta of more than 700 KiB", func(s *berthv1alpha1.PlacementChangeSpec) { s.Delta = make([]byte, berthv1alpha1.MaxDeltaBytes+3) }, "spec.delta"),
		Entry("an unknown decision", func(s *berthv1alpha1.PlacementChangeSpec) {
			s.Approval = &berthv1alpha1.ChangeApproval{Decision: "Perhaps", By: "ann"}
		}, "spec.approval.decision", `"Perhaps"`),
		Entry("an approval by nobody", func(s *berthv1alpha1.PlacementChangeSpec) {
			s.Approval = &berthv1alpha1.ChangeApproval{Decision: berthv1alpha1.Approved}
		}, "spec.approval.by"),
		Entry("a long comment", func(s *berthv1alpha1.PlacementChangeSpec) {
			s.Approval = &berthv1alpha1.ChangeApproval{Decision: berthv1alpha1.Approved, By: "ann", Comment: strings.Repeat("c", 1_025)}
		}, "spec.approval.comment"),
	)

	It("is refused if a required field is missing", func(ctx SpecContext) {
		for _, field := range []string{"placement", "revision", "from", "to", "clusters", "addedCount", "removedCount", "cause", "placementGeneration"} {
			record := asUnstructured(placementChange("lacks"))
			unstructured.RemoveNestedField(record.Object, "spec", field)
			Expect(hub.Create(ctx, record, client.DryRunAll)).To(MatchError(ContainSubstring("spec."+field+": Required")), field)
		}
	})

	It("is refused with a delta that is not base64", func(ctx SpecContext) {
		for _, delta := range []string{"not base64", "AAA", "AA-_", "AAAA="} {
			record := asUnstructured(placementChange("delta"))
			Expect(unstructured.SetNestedField(record.Object, delta, "spec", "delta")).To(Succeed())
			Expect(hub.Create(ctx, record, client.DryRunAll)).To(MatchError(ContainSubstring("spec.delta")), delta)
		}
	})

	It("can be stored and approved at its maximum size", func(ctx SpecContext) {
		record := placementChange("largest")
		record.Spec.Added, record.Spec.Removed = names(1_000, 63), names(1_000, 63)
		record.Spec.AddedCount, record.Spec.RemovedCount, record.Spec.Clusters = 100_000, 100_000, 1_000_000
		record.Spec.Delta = bytes.Repeat([]byte{0xfb, 0xff, 0xbf}, berthv1alpha1.MaxDeltaBytes/3+1)[:berthv1alpha1.MaxDeltaBytes]
		record.Spec.Cause, record.Spec.Profile, record.Spec.FirstRevision = strings.Repeat("c", 1_024), strings.Repeat("p", 253), 1
		create(ctx, record)
		record.Status = berthv1alpha1.PlacementChangeStatus{
			Phase: berthv1alpha1.PhaseHeld, Message: strings.Repeat("m", 4_096), StartTime: new(metav1.Now()),
			Remaining: &berthv1alpha1.RemainingClusters{Added: 1, Removed: 1},
		}
		for i := range 32 {
			record.Status.Holds = append(record.Status.Holds, berthv1alpha1.ChangeHold{
				Plugin: fmt.Sprintf("plugin%d", i), Reason: strings.Repeat("r", 1_024), Until: new(metav1.Now()),
			})
		}
		Expect(hub.Status().Update(ctx, record)).To(Succeed())
		Expect(setApproval(ctx, record, approved)).To(Succeed())
		Expect(hub.Get(ctx, client.ObjectKeyFromObject(record), record)).To(Succeed())
		Expect(record.Spec.Delta).To(HaveLen(berthv1alpha1.MaxDeltaBytes))
	})

	DescribeTable("is refused with an invalid status",
		func(ctx SpecContext, edit func(*berthv1alpha1.PlacementChangeStatus), want string) {
			record := inPhase(ctx, "")
			edit(&record.Status)
			Expect(hub.Status().Update(ctx, record)).To(MatchError(ContainSubstring(want)))
		},
		Entry("an unknown phase", func(s *berthv1alpha1.PlacementChangeStatus) { s.Phase = "Done" }, "status.phase"),
		Entry("33 holds", func(s *berthv1alpha1.PlacementChangeStatus) {
			for i := range 33 {
				s.Holds = append(s.Holds, berthv1alpha1.ChangeHold{Plugin: fmt.Sprint(i), Reason: "r"})
			}
		}, "status.holds"),
		Entry("two holds of one plugin", func(s *berthv1alpha1.PlacementChangeStatus) {
			s.Holds = []berthv1alpha1.ChangeHold{{Plugin: "p", Reason: "a"}, {Plugin: "p", Reason: "b"}}
		}, "Duplicate value"),
	)

	It("is immutable in every phase, except its approval", func(ctx SpecContext) {
		record := inPhase(ctx, berthv1alpha1.PhaseHeld)
		for field, value := range map[string]string{
			"placement": `"other"`, "revision": "2", "firstRevision": "1", "from": `"` + strings.Repeat("1", 64) + `"`,
			"to": `"` + strings.Repeat("1", 64) + `"`, "clusters": "2", "added": `["b"]`, "removed": `["b"]`, "addedCount": "2",
			"removedCount": "2", "delta": `"AAAA"`, "truncated": "true", "edited": "true", "publishedGeneration": "1", "returned": `["a"]`, "forced": `["a"]`,
			"removals": `[{"time": "2026-08-01T12:00:00Z", "clusters": 1}]`, "cause": `"start"`, "placementGeneration": "2", "profile": `"other"`,
		} {
			err := hub.Patch(ctx, record.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec": {"`+field+`": `+value+`}}`)))
			Expect(err).To(MatchError(ContainSubstring("spec is immutable except for approval")), field)
		}
		err := hub.Patch(ctx, record.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec": {"added": null}}`)))
		Expect(err).To(MatchError(ContainSubstring("spec is immutable except for approval")), "a field taken away")
	})

	It("can be labelled in every phase", func(ctx SpecContext) {
		for _, phase := range []berthv1alpha1.ChangePhase{"", berthv1alpha1.PhasePublished} {
			record := inPhase(ctx, phase)
			record.Labels = map[string]string{"a": "b"}
			Expect(hub.Update(ctx, record)).To(Succeed())
		}
	})

	It("cannot be rejected after it is permitted, while it is being published", func(ctx SpecContext) {
		record := inPhase(ctx, berthv1alpha1.PhaseHeld)
		record.Status.PermittedTime = new(metav1.Now())
		Expect(hub.Status().Update(ctx, record)).To(Succeed())
		Expect(setApproval(ctx, record, rejected)).To(MatchError(ContainSubstring("not permitted yet")))
	})

	DescribeTable("can be approved and rejected only in the phases Held, Rejected and Expired",
		func(ctx SpecContext, phase berthv1alpha1.ChangePhase, allowed bool) {
			for _, approval := range []string{approved, rejected} {
				err := setApproval(ctx, inPhase(ctx, phase), approval)
				if allowed {
					Expect(err).NotTo(HaveOccurred(), approval)
				} else {
					Expect(err).To(MatchError(ContainSubstring("only a change that is Held and not permitted yet, Rejected or Expired can be approved or rejected")), approval)
				}
			}
		},
		Entry("without a phase", berthv1alpha1.ChangePhase(""), false),
		Entry("Held", berthv1alpha1.PhaseHeld, true),
		Entry("Progressing", berthv1alpha1.PhaseProgressing, false),
		Entry("Published", berthv1alpha1.PhasePublished, false),
		Entry("Superseded", berthv1alpha1.PhaseSuperseded, false),
		Entry("Rejected", berthv1alpha1.PhaseRejected, true),
		Entry("Expired", berthv1alpha1.PhaseExpired, true),
	)

	It("can be approved, but not rejected, while it progresses with a hold", func(ctx SpecContext) {
		record := inPhase(ctx, berthv1alpha1.PhaseProgressing)
		record.Status.Holds = []berthv1alpha1.ChangeHold{{Plugin: "Movement", Reason: "minAvailable"}}
		record.Status.PermittedTime = new(metav1.Now())
		Expect(hub.Status().Update(ctx, record)).To(Succeed())
		Expect(setApproval(ctx, record, rejected)).To(MatchError(ContainSubstring("Progressing with a hold can be approved")))
		Expect(setApproval(ctx, record, approved)).To(Succeed())
	})

	It("keeps an approval, except that Rejected may become Approved", func(ctx SpecContext) {
		const refused = "spec.approval is set once; only Rejected may become Approved"
		record := inPhase(ctx, berthv1alpha1.PhaseHeld)
		Expect(setApproval(ctx, record, rejected)).To(Succeed())
		Expect(setApproval(ctx, record, `{"decision": "Rejected", "by": "bob"}`)).To(MatchError(ContainSubstring(refused)))
		Expect(setApproval(ctx, record, `{"comment": "later"}`)).To(MatchError(ContainSubstring(refused)))
		Expect(setApproval(ctx, record, "null")).To(MatchError(ContainSubstring(refused)))
		Expect(setApproval(ctx, record, rejected)).To(Succeed(), "the same again")
		Expect(setApproval(ctx, record, `{"decision": "Approved", "by": "bob"}`)).To(Succeed())
		Expect(setApproval(ctx, record, rejected)).To(MatchError(ContainSubstring(refused)))
		Expect(setApproval(ctx, record, "null")).To(MatchError(ContainSubstring(refused)))
	})

	It("keeps its approval when its status is written, and can then be labelled", func(ctx SpecContext) {
		record := inPhase(ctx, berthv1alpha1.PhaseHeld)
		Expect(setApproval(ctx, record, approved)).To(Succeed())
		Expect(hub.Get(ctx, client.ObjectKeyFromObject(record), record)).To(Succeed())
		record.Status.Phase = berthv1alpha1.PhasePublished
		record.Spec.Approval = nil
		Expect(hub.Status().Update(ctx, record)).To(Succeed())
		Expect(record.Spec.Approval).To(HaveField("Decision", berthv1alpha1.Approved))
		record.Labels = map[string]string{"a": "b"}
		Expect(hub.Update(ctx, record)).To(Succeed())
	})

	It("is listed with placement, revision, phase, counts, cause and age", func(ctx SpecContext) {
		record := inPhase(ctx, berthv1alpha1.PhaseHeld)
		columns, row := printed(ctx, "placementchanges", record.Name)
		Expect(columns).To(HaveExactElements("Name", "Placement", "Revision", "Phase", "Added", "Removed", "Cause", "Age"))
		Expect(row[:7]).To(HaveExactElements(record.Name, "web", BeEquivalentTo(1), "Held", BeEquivalentTo(1), BeEquivalentTo(0), "Placement: spec"))
	})
})

// names are n names of a length.
func names(n, length int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%0*d", length, i))
	}
	return all
}
