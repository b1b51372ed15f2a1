package v1alpha1

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RevisionAnnotation is the revision of the PlacementChange that last wrote a PlacementDecision.
const RevisionAnnotation = "berth.dev/revision"

// FenceAnnotation gives a PlacementDecision another version after a write without answer, so that
// this write is refused if it comes later. The value is the version before.
const FenceAnnotation = "berth.dev/fence"

// PinnedRevisionAnnotation is the number of a Published revision, on a Placement. While it is set,
// the Placement has only clusters of that revision: those that still qualify, at most
// numberOfClusters.
const PinnedRevisionAnnotation = "berth.dev/pinned-revision"

// Bounds of a record.
const (
	// MaxListedClusters is the maximum length of spec.added, spec.removed and spec.returned.
	MaxListedClusters = 1000
	// MaxBeforeBytes is the maximum size of spec.before.
	MaxBeforeBytes = 16 << 10
	// MaxDeltaBytes is the maximum size of spec.delta, compressed; etcd accepts objects of up to
	// 1.5 MiB.
	MaxDeltaBytes = 700 << 10
)

// EditedByAnnotation is who edited the spec or an annotation of Berth on a Placement,
// PlacementEviction or DisruptionPolicy last, and when: the time and the user name, with a space
// between. The admission policy berth-record-editor writes it.
const EditedByAnnotation = "berth.dev/edited-by"

// CommentAnnotation is why a user acted, on the object that the action wrote. On a Placement it
// belongs to the edit that set it: berth-record-editor removes it with the next one. The records of
// changes that follow the edit copy it.
const CommentAnnotation = "berth.dev/comment"

// EditText says who wrote an object and why, as far as its annotations say it, such as " by ann
// (disk broken)".
func EditText(object metav1.Object) string {
	text, annotations := "", object.GetAnnotations()
	if _, user, _ := strings.Cut(annotations[EditedByAnnotation], " "); user != "" {
		text = " by " + user
	}
	if comment := annotations[CommentAnnotation]; comment != "" {
		text += " (" + comment + ")"
	}
	return text
}

// MaxComment is the maximum length of a comment, in characters.
const MaxComment = 1024

// PlacementChange is the record of one change of a Placement's published decision. Berth creates
// it; users write only spec.approval. The Placement owns it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=pch
// +kubebuilder:printcolumn:name="Placement",type=string,JSONPath=`.spec.placement`
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.spec.revision`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Added",type=integer,JSONPath=`.spec.addedCount`
// +kubebuilder:printcolumn:name="Removed",type=integer,JSONPath=`.spec.removedCount`
// +kubebuilder:printcolumn:name="Cause",type=string,JSONPath=`.spec.cause`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(self.spec.approval) || (has(oldSelf.spec.approval) && self.spec.approval == oldSelf.spec.approval) || (has(self.status) && has(self.status.phase) && self.status.phase in ['Held', 'Rejected', 'Expired'] && !has(self.status.permittedTime)) || (has(self.status) && has(self.status.phase) && self.status.phase == 'Progressing' && has(self.status.holds) && self.status.holds.size() > 0 && self.spec.approval.decision == 'Approved')",message="spec.approval: only a change that is Held and not permitted yet, Rejected or Expired can be approved or rejected, and one that is Progressing with a hold can be approved"
type PlacementChange struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the change. It is immutable except for approval.
	// +required
	Spec PlacementChangeSpec `json:"spec"`

	// status is the state of the change.
	// +optional
	Status PlacementChangeStatus `json:"status,omitzero"`
}

// PlacementChangeSpec describes a change.
//
// +kubebuilder:validation:XValidation:rule="has(self.firstRevision) == has(oldSelf.firstRevision) && has(self.added) == has(oldSelf.added) && has(self.removed) == has(oldSelf.removed) && has(self.delta) == has(oldSelf.delta) && has(self.truncated) == has(oldSelf.truncated) && has(self.edited) == has(oldSelf.edited) && has(self.returned) == has(oldSelf.returned) && has(self.removals) == has(oldSelf.removals) && has(self.publishedGeneration) == has(oldSelf.publishedGeneration) && has(self.forced) == has(oldSelf.forced) && has(self.profile) == has(oldSelf.profile) && has(self.queue) == has(oldSelf.queue) && has(self.before) == has(oldSelf.before) && has(self.by) == has(oldSelf.by) && has(self.comment) == has(oldSelf.comment)",message="spec is immutable except for approval"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.approval) || (has(self.approval) && (self.approval == oldSelf.approval || (oldSelf.approval.decision == 'Rejected' && self.approval.decision == 'Approved')))",message="spec.approval is set once; only Rejected may become Approved"
type PlacementChangeSpec struct {
	// placement is the name of the Placement, in the same namespace.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	Placement string `json:"placement"`

	// revision counts the changes of this Placement from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	Revision int64 `json:"revision"`

	// firstRevision is the first revision that a merged record covers. If absent, the record covers
	// only revision.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	FirstRevision int64 `json:"firstRevision,omitempty"`

	// from is the SHA-256 of the sorted names of the clusters published before the change, in
	// lowercase hex.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	From string `json:"from"`

	// to is the SHA-256 of the sorted names of the selected clusters, in lowercase hex.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	To string `json:"to"`

	// clusters is the number of selected clusters.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	Clusters int32 `json:"clusters"`

	// added are the names of the clusters that the change adds, sorted; at most the first 1,000.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	Added []string `json:"added,omitempty"`

	// removed are the names of the clusters that the change removes, sorted; at most the first
	// 1,000.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	Removed []string `json:"removed,omitempty"`

	// addedCount is the exact number of clusters that the change adds.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	AddedCount int32 `json:"addedCount"`

	// removedCount is the exact number of clusters that the change removes.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	RemovedCount int32 `json:"removedCount"`

	// The schema of delta has a pattern instead of format byte, because with that format CEL rules
	// of the API server reject the characters + and /.

	// delta contains the complete lists if one is longer than 1,000 names: gzip of {"added": [...],
	// "removed": [...], "returned": [...], "forced": [...]}, at most 700 KiB.
	// +optional
	// +kubebuilder:validation:MaxLength=955736
	// +kubebuilder:validation:Format=""
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	Delta []byte `json:"delta,omitempty"`

	// truncated is true if the lists are incomplete because they do not fit into delta.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	Truncated bool `json:"truncated,omitempty"`

	// returned are the clusters that left and came back while a merged record covered several
	// changes, sorted; at most the first 1,000. delta has all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	Returned []string `json:"returned,omitempty"`

	// removals are the removals of each change that a merged record covers, oldest first. After a
	// restart, limits on removals count them. Above 100, the oldest are added up.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	Removals []MergedRemoval `json:"removals,omitempty"`

	// cause is the trigger of the change in one line, for example "ManagedCluster store004: labels"
	// or "Placement: numberOfClusters: 8 → 2".
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	Cause string `json:"cause"`

	// by is who made the edit of the Placement that the change follows: the user, if the admission
	// policy berth-record-editor is installed, else the field manager.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	By string `json:"by,omitempty"`

	// comment is why the edit was made; only with berth-record-editor.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	Comment string `json:"comment,omitempty"`

	// before has the fields of the Placement's spec that an edit changed, as they were for the
	// clusters before the change: a JSON object, null for an absent field. kubectl placement undo
	// restores them. Absent if the change follows no edit of the spec, if the spec before it is not
	// known, and above 16 KiB.
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	Before string `json:"before,omitempty"`

	// placementGeneration is the metadata.generation of the Placement that the change was decided
	// for.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	PlacementGeneration int64 `json:"placementGeneration"`

	// edited is true if the change followed an edit of the Placement's spec or profile.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	Edited bool `json:"edited,omitempty"`

	// publishedGeneration is the metadata.generation of the Placement for which the clusters before
	// the change were decided; absent if unknown. If it is not placementGeneration, the Placement
	// was edited in between.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	PublishedGeneration int64 `json:"publishedGeneration,omitempty"`

	// forced are the removed clusters that the Placement could not keep even without an edit,
	// sorted; at most the first 1,000. Only records that are written before the change is published
	// have them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	Forced []string `json:"forced,omitempty"`

	// profile is the scheduler profile that decided the change.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	Profile string `json:"profile,omitempty"`

	// queue is the JSON text about the Placement's queue at the time of the change, as on the
	// pages. After a restart it confirms the queue of the Placement, because users can edit pages.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec is immutable except for approval"
	Queue string `json:"queue,omitempty"`

	// approval approves or rejects a held change. It is set once; only Rejected may become
	// Approved. kubectl placement approve and reject write it. Example: {decision: Approved, by:
	// ann}.
	// +optional
	Approval *ChangeApproval `json:"approval,omitempty"`
}

// MergedRemoval is what one change of a merged record removed.
type MergedRemoval struct {
	// time is when the change was published.
	// +required
	Time metav1.Time `json:"time"`

	// clusters is the number of removed clusters.
	// +required
	// +kubebuilder:validation:Minimum=1
	Clusters int32 `json:"clusters"`

	// edited is true if the change followed an edit of the Placement's spec or profile.
	// +optional
	Edited bool `json:"edited,omitempty"`
}

// ApprovalDecision approves or rejects a held change.
//
// +kubebuilder:validation:Enum=Approved;Rejected
type ApprovalDecision string

// The values of ApprovalDecision.
const (
	Approved ApprovalDecision = "Approved"
	Rejected ApprovalDecision = "Rejected"
)

// ChangeApproval approves or rejects a held change.
type ChangeApproval struct {
	// decision is Approved or Rejected.
	// +required
	Decision ApprovalDecision `json:"decision"`

	// by is the name of the user who decides. The admission policy requires the name of the
	// requesting user.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	By string `json:"by"`

	// comment is a text for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Comment string `json:"comment,omitempty"`
}

// ChangePhase is the state of a change.
//
// +kubebuilder:validation:Enum=Held;Progressing;Published;Superseded;Rejected;Expired
type ChangePhase string

// The phases of a change. Held and Progressing changes are open; a Placement has at most one open
// change.
const (
	// PhaseHeld: the change waits for an approval or for a plugin.
	PhaseHeld ChangePhase = "Held"
	// PhaseProgressing: the change is permitted and is being published in steps.
	PhaseProgressing ChangePhase = "Progressing"
	// PhasePublished: the change is published completely.
	PhasePublished ChangePhase = "Published"
	// PhaseSuperseded: another change replaced this one before it was published.
	PhaseSuperseded ChangePhase = "Superseded"
	// PhaseRejected: a user or a plugin rejected the change.
	PhaseRejected ChangePhase = "Rejected"
	// PhaseExpired: the change was not approved in time.
	PhaseExpired ChangePhase = "Expired"
)

// PlacementChangeStatus is the state of a change.
type PlacementChangeStatus struct {
	// phase is Held, Progressing, Published, Superseded, Rejected or Expired.
	// +optional
	Phase ChangePhase `json:"phase,omitempty"`

	// holds are the reasons why the change is held, or does not progress until it is approved, one
	// per plugin.
	// +optional
	// +listType=map
	// +listMapKey=plugin
	// +kubebuilder:validation:MaxItems=32
	Holds []ChangeHold `json:"holds,omitempty"`

	// approval is the approval of an earlier record of the same change, which was Rejected or had
	// Expired. It permits this change.
	// +optional
	Approval *ChangeApproval `json:"approval,omitempty"`

	// remaining counts the clusters that are still to be added and removed.
	// +optional
	Remaining *RemainingClusters `json:"remaining,omitempty"`

	// startTime is when the change was first decided.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// permittedTime is when the change was permitted.
	// +optional
	PermittedTime *metav1.Time `json:"permittedTime,omitempty"`

	// lastProgressTime is the last time that a step was published or an added cluster became ready.
	// +optional
	LastProgressTime *metav1.Time `json:"lastProgressTime,omitempty"`

	// completionTime is when the change ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// message describes the phase.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
}

// ChangeHold is one reason why a change is held.
type ChangeHold struct {
	// plugin is the name of the plugin that holds the change.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Plugin string `json:"plugin"`

	// reason explains the hold, for people.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`

	// until is when the change expires. If absent, it does not expire.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}

// NeedsApproval reports whether the change is in progress, and its next removals wait for an
// approval.
func (c *PlacementChange) NeedsApproval() bool {
	return c.Status.Phase == PhaseProgressing && len(c.Status.Holds) > 0
}

// RemainingClusters counts the clusters that are still to be added and removed.
type RemainingClusters struct {
	// added is the number of clusters to be added.
	// +required
	Added int32 `json:"added"`

	// removed is the number of clusters to be removed.
	// +required
	Removed int32 `json:"removed"`
}

// PlacementChangeList is a list of PlacementChanges.
//
// +kubebuilder:object:root=true
type PlacementChangeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PlacementChange `json:"items"`
}
