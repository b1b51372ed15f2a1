package changes

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"
	"unique"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

// PackedRecord is what is kept in memory of a Published or Superseded record: what attempts,
// history limits and plugins read of it, in about 250 bytes. It must not be changed.
type PackedRecord struct {
	common                              unique.Handle[commonFields]
	uid                                 uuid.UUID
	version                             uint64
	from, to                            [sha256.Size]byte
	revision, first                     int64
	generation, before                  int64
	clusters, added, removed            int32
	remainingAdded, remainingRemoved    int32
	listed                              int32
	hasRemaining, truncated, superseded bool
	edited, disabled                    bool
	// started, permitted and completed are in seconds since 1970.
	started, permitted, completed int64
	approval                      *berthv1alpha1.ChangeApproval
	// delta is spec.delta. Without it, names has the names of spec.added, of which there are
	// listed, and of spec.removed, each with a line break after it.
	delta []byte
	names string
	// more has what few records have; nil if there is nothing.
	more *moreFields
}

type moreFields struct {
	returned, forced []string
	removals         []berthv1alpha1.MergedRemoval
}

// commonFields are the fields that all records of a Placement usually have in common.
type commonFields struct {
	namespace, placement, profile, queue string
	ownerVersion, ownerKind, ownerName   string
	ownerUID                             types.UID
}

// absent stands for the time that a record does not have.
var absent = time.Time{}.Unix()

// PackRecord removes from a Published or Superseded record what PackedRecord does not keep. It
// returns the packed record; nil for other records, and for one that no controller of Berth wrote.
func PackRecord(record *berthv1alpha1.PlacementChange) *PackedRecord {
	superseded := record.Status.Phase == berthv1alpha1.PhaseSuperseded
	if !superseded && record.Status.Phase != berthv1alpha1.PhasePublished {
		return nil
	}
	strip(record)
	spec, status := &record.Spec, &record.Status
	owner := metav1.GetControllerOfNoCopy(record)
	if owner == nil {
		return nil
	}
	p := &PackedRecord{
		common: unique.Make(commonFields{
			record.Namespace, spec.Placement, spec.Profile, spec.Queue, owner.APIVersion, owner.Kind, owner.Name, owner.UID,
		}),
		revision: spec.Revision, first: spec.FirstRevision, generation: spec.PlacementGeneration, before: spec.PublishedGeneration,
		clusters: spec.Clusters, added: spec.AddedCount, removed: spec.RemovedCount, truncated: spec.Truncated, superseded: superseded,
		started: seconds(status.StartTime), permitted: seconds(status.PermittedTime), completed: seconds(status.CompletionTime), approval: spec.Approval,
		listed: int32(len(spec.Added)), names: lines(spec.Added) + lines(spec.Removed),
		delta: spec.Delta, edited: spec.Edited, disabled: spec.Cause == CauseDisabled,
	}
	if len(spec.Returned)+len(spec.Forced)+len(spec.Removals) > 0 {
		p.more = &moreFields{spec.Returned, spec.Forced, spec.Removals}
	}
	if left := status.Remaining; left != nil {
		p.hasRemaining, p.remainingAdded, p.remainingRemoved = true, left.Added, left.Removed
	}
	// What cannot be read stays empty, and differs below.
	p.uid, _ = uuid.Parse(string(record.UID))
	p.version, _ = strconv.ParseUint(record.ResourceVersion, 10, 64)
	_, _ = hex.Decode(p.from[:], []byte(spec.From[:min(len(spec.From), 2*len(p.from))]))
	_, _ = hex.Decode(p.to[:], []byte(spec.To[:min(len(spec.To), 2*len(p.to))]))
	if !equality.Semantic.DeepEqual(p.Record(), record) {
		return nil
	}
	return p
}

// strip removes what a PackedRecord does not keep.
func strip(record *berthv1alpha1.PlacementChange) {
	record.TypeMeta = metav1.TypeMeta{}
	record.ObjectMeta = metav1.ObjectMeta{
		Namespace: record.Namespace, Name: record.Name, UID: record.UID, ResourceVersion: record.ResourceVersion, OwnerReferences: record.OwnerReferences,
	}
	if record.Spec.Cause != CauseDisabled {
		record.Spec.Cause = ""
	}
	packLists(record)
	record.Status = berthv1alpha1.PlacementChangeStatus{
		Phase: record.Status.Phase, Remaining: record.Status.Remaining, StartTime: record.Status.StartTime,
		PermittedTime: record.Status.PermittedTime, CompletionTime: record.Status.CompletionTime,
	}
}

// GetObjectMeta implements metav1.ObjectMetaAccessor, by which caches store a PackedRecord.
func (p *PackedRecord) GetObjectMeta() metav1.Object {
	c := p.common.Value()
	return &metav1.ObjectMeta{
		Namespace: c.namespace, Name: Name(c.placement, p.revision), UID: types.UID(p.uid.String()), ResourceVersion: strconv.FormatUint(p.version, 10),
	}
}

// Record returns a new object with all that is kept of the record. It shares its lists with the
// PackedRecord, so they must not be changed: a delta may have hundreds of kilobytes.
func (p *PackedRecord) Record() *berthv1alpha1.PlacementChange {
	c := p.common.Value()
	record := &berthv1alpha1.PlacementChange{
		ObjectMeta: *p.GetObjectMeta().(*metav1.ObjectMeta),
		Spec: berthv1alpha1.PlacementChangeSpec{
			Placement: c.placement, Revision: p.revision, FirstRevision: p.first, From: hex.EncodeToString(p.from[:]), To: hex.EncodeToString(p.to[:]),
			Clusters: p.clusters, AddedCount: p.added, RemovedCount: p.removed, Truncated: p.truncated,
			PlacementGeneration: p.generation, PublishedGeneration: p.before, Profile: c.profile, Queue: c.queue, Approval: p.approval, Delta: p.delta,
			Edited: p.edited,
		},
		Status: berthv1alpha1.PlacementChangeStatus{
			Phase: berthv1alpha1.PhasePublished, StartTime: timeAt(p.started), PermittedTime: timeAt(p.permitted), CompletionTime: timeAt(p.completed),
		},
	}
	record.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: c.ownerVersion, Kind: c.ownerKind, Name: c.ownerName, UID: c.ownerUID, Controller: new(true),
	}}
	if p.superseded {
		record.Status.Phase = berthv1alpha1.PhaseSuperseded
	}
	if p.disabled {
		record.Spec.Cause = CauseDisabled
	}
	if p.more != nil {
		record.Spec.Returned, record.Spec.Forced, record.Spec.Removals = p.more.returned, p.more.forced, p.more.removals
	}
	if p.hasRemaining {
		record.Status.Remaining = &berthv1alpha1.RemainingClusters{Added: p.remainingAdded, Removed: p.remainingRemoved}
	}
	if names := slices.Collect(strings.Lines(p.names)); len(names) > 0 {
		for i := range names {
			names[i] = names[i][:len(names[i])-1]
		}
		record.Spec.Added, record.Spec.Removed = some(names[:p.listed:p.listed]), some(names[p.listed:])
	}
	return record
}

// some returns nil instead of an empty list.
func some(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	return names
}

// lines returns names with a line break after each.
func lines(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return strings.Join(names, "\n") + "\n"
}

func seconds(at *metav1.Time) int64 {
	if at == nil {
		return absent
	}
	return at.Unix()
}

func timeAt(seconds int64) *metav1.Time {
	if seconds == absent {
		return nil
	}
	return &metav1.Time{Time: time.Unix(seconds, 0)}
}
