package property

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// copySnapshot copies a Snapshot with all that it refers to, field by field. The counts of plugins
// are theirs alone and cannot be copied here: they are shared, and their plugins never change them.
func copySnapshot(s *framework.Snapshot) *framework.Snapshot {
	c := &framework.Snapshot{
		Trial: s.Trial, Fleet: copyFleet(s.Fleet), Now: s.Now, Cause: s.Cause, Sequence: s.Sequence, Skippable: s.Skippable, Input: s.Input, Subject: copySubject(s.Subject),
		Sets: copySets(s.Sets), BoundSets: slices.Clone(s.BoundSets), Bound: copySets(s.Bound), Limit: s.Limit,
		NotReady: maps.Clone(s.NotReady), Unknown: maps.Clone(s.Unknown), Timers: s.Timers, Answers: s.Answers, PluginCounts: maps.Clone(s.PluginCounts),
	}
	c.Timers.Tiers = slices.Clone(s.Timers.Tiers)
	c.Timers.ReadySince = maps.Clone(s.Timers.ReadySince)
	c.Timers.Unrecorded = slices.Clone(s.Timers.Unrecorded)
	c.Answers.Plugins, c.Answers.Allowed = maps.Clone(s.Answers.Plugins), maps.Clone(s.Answers.Allowed)
	if s.Queue != nil {
		queue := *s.Queue
		queue.Sets = slices.Clone(queue.Sets)
		c.Queue = &queue
	}
	return c
}

func copyFleet(f *framework.Fleet) *framework.Fleet {
	c := &framework.Fleet{
		Clusters: copyVector(f.Clusters, copyCluster), Ranks: slices.Clone(f.Ranks), Sorted: slices.Clone(f.Sorted),
		Counts: &framework.DecisionCounts{
			ByIndex:   copyVector(f.Counts.ByIndex, func(n int32) int32 { return n }),
			Histogram: slices.Clone(f.Counts.Histogram),
			Changes:   f.Counts.Changes,
		},
		Log: framework.ChangeLog{First: f.Log.First, Entries: slices.Clone(f.Log.Entries)},
	}
	c.Scores = maps.Clone(f.Scores)
	for name, scores := range f.Scores {
		c.Scores[name] = copyVector(scores, deepCopy)
	}
	c.Capacities = maps.Clone(f.Capacities)
	for name, capacity := range f.Capacities {
		amount := func(n int64) int64 { return n }
		c.Capacities[name] = &framework.Capacity{Allocatable: copyVector(capacity.Allocatable, amount), Requested: copyVector(capacity.Requested, amount)}
	}
	c.CapacityRequests = copyVector(f.CapacityRequests, func(all []*framework.CapacityRequest) []*framework.CapacityRequest { return slices.Clone(all) })
	return c
}

func copyVector[T any](v *framework.Vector[T], one func(T) T) *framework.Vector[T] {
	var c framework.Vector[T]
	for i := range v.Len() {
		c.Set(i, one(v.Get(i)))
	}
	return c.Freeze()
}

func copyCluster(c *framework.Cluster) *framework.Cluster {
	if c == nil {
		return nil
	}
	copied := framework.NewCluster(c.DeepCopy(), c.Index)
	copied.CPU, copied.Memory, copied.Tainted = c.CPU, c.Memory, c.Tainted
	copied.TaintTimes, copied.Claims = slices.Clone(c.TaintTimes), maps.Clone(c.Claims)
	return copied
}

func copySets(sets []*framework.ClusterSet) []*framework.ClusterSet {
	copied := slices.Clone(sets)
	for i, set := range sets {
		copied[i] = &framework.ClusterSet{Name: set.Name, Members: set.Members.Clone(), Selector: set.Selector, Err: set.Err}
		if set.Selector != nil {
			copied[i].Selector = set.Selector.DeepCopySelector()
		}
	}
	return copied
}

func copySubject(s *framework.Subject) *framework.Subject {
	c := &framework.Subject{
		Placement: s.Placement.DeepCopy(), Pages: deepCopies(s.Pages), LastClusters: s.LastClusters.Clone(), Entries: framework.Entries{Clusters: s.Entries.Clusters.Clone(), More: maps.Clone(s.Entries.More)},
		Records: deepCopies(s.Records), DisruptionPolicies: deepCopies(s.DisruptionPolicies), MorePolicies: s.MorePolicies, Windows: s.Windows, ReplaceFirst: s.ReplaceFirst, Evictions: slices.Clone(s.Evictions),
		SelectionPolicies: deepCopies(s.SelectionPolicies), Peers: slices.Clone(s.Peers), AffinityCycle: s.AffinityCycle, CapacityRequest: s.CapacityRequest, Has: s.Has.Clone(),
		Incumbents: s.Incumbents.Clone(), Leaving: s.Leaving.Clone(), Taken: slices.Clone(s.Taken), Edits: maps.Clone(s.Edits),
	}
	if b := s.SpecBefore; b != nil {
		c.SpecBefore = &framework.SpecBefore{Generation: b.Generation, Spec: b.Spec.DeepCopy()}
	}
	if s.Last != nil {
		last := *s.Last
		last.Names, last.Scores, last.Pages = slices.Clone(last.Names), maps.Clone(last.Scores), maps.Clone(last.Pages)
		c.Last = &last
	}
	return c
}

func deepCopy[T interface{ DeepCopy() T }](o T) T { return o.DeepCopy() }

func deepCopies[T interface{ DeepCopy() T }](objects []T) []T {
	copied := slices.Clone(objects)
	for i, o := range objects {
		copied[i] = o.DeepCopy()
	}
	return copied
}

// TestSnapshotIsCopiedWhole fails when a type of the Snapshot gets a field that copySnapshot may
// not know.
func TestSnapshotIsCopiedWhole(t *testing.T) {
	for fields, of := range map[string]reflect.Type{
		"Trial Fleet Now Input Cause Subject Sets BoundSets Bound Limit Queue NotReady Unknown Timers Answers PluginCounts Sequence Skippable": reflect.TypeFor[framework.Snapshot](),
		"Clusters Ranks Sorted Counts Scores Log Capacities CapacityRequests":                                                                  reflect.TypeFor[framework.Fleet](),
		"ByIndex Histogram Changes": reflect.TypeFor[framework.DecisionCounts](),
		"Allocatable Requested":     reflect.TypeFor[framework.Capacity](),
		"Clusters More":             reflect.TypeFor[framework.Entries](),
		"First Entries":             reflect.TypeFor[framework.ChangeLog](),
		"Index Selectable":          reflect.TypeFor[framework.ClusterChange](),
		"ManagedCluster Index CPU Memory Tainted details": reflect.TypeFor[framework.Cluster](),
		"TaintTimes Claims once rendered err isRendered":  detailsType(),
		"Value Known":               reflect.TypeFor[framework.Amount](),
		"Name Members Selector Err": reflect.TypeFor[framework.ClusterSet](),
		"Placement Pages LastClusters Entries Last SpecBefore Edits Records DisruptionPolicies MorePolicies Windows ReplaceFirst Evictions SelectionPolicies Peers AffinityCycle CapacityRequest Has Incumbents Leaving Taken": reflect.TypeFor[framework.Subject](),
		"Names Digest Scores Pages Generation Profile ScoresAt Revision RecordDue Queue Extra FromPages SinceStart":                                                                                                            reflect.TypeFor[framework.Published](),
		"Admitted Reason Message Rejected Restricted Sets Limit LimitBy Annotation RetryAt Listed":                                                                                                                             reflect.TypeFor[framework.QueueAdmission](),
		"Change Forced Revoked Tiers TiersOf NextAttempt NextAttemptCause ReadySince Unchanged LastStep RefusedSince Unrecorded UnrecordedAt DecidedGeneration DecidedProfile DecidedSince":                                    reflect.TypeFor[framework.Timers](),
		"Digest Since RemovingSince":                               reflect.TypeFor[framework.Stability](),
		"Revision From Digest Generation Plugins Allowed Rejected": reflect.TypeFor[framework.Answers](),
	} {
		var got []string
		for field := range of.Fields() {
			got = append(got, field.Name)
		}
		if strings.Join(got, " ") != fields {
			t.Errorf("%s has the fields %v, copied are %s", of, got, fields)
		}
	}
}

func detailsType() reflect.Type {
	field, _ := reflect.TypeFor[framework.Cluster]().FieldByName("details")
	return field.Type.Elem()
}
