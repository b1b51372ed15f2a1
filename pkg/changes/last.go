package changes

import (
	"maps"
	"slices"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

// CauseDisabled is the cause of a record of what other writers published.
const CauseDisabled = "pages edited while scheduling was disabled"

// Latest returns the newest Published record; nil if there is none, or if something was published
// after it: revision, the highest one on the pages, is later, or a later change was permitted or
// has a record without status.
func (h History) Latest(revision int64) *berthv1alpha1.PlacementChange {
	newest := h.Newest(berthv1alpha1.PhasePublished)
	if newest == nil || revision > newest.Spec.Revision || slices.ContainsFunc(h, func(record *berthv1alpha1.PlacementChange) bool {
		return record.Spec.Revision > newest.Spec.Revision && (IsPermitted(record) || record.Status.Phase == "")
	}) {
		return nil
	}
	return newest
}

// Clusters returns the clusters to which the newest Published record leads, sorted. listed are the
// clusters on the pages, sorted, from which some may be missing. ok is false if the records that
// are kept do not name enough clusters to be sure.
func (h History) Clusters(listed []string) (names []string, ok bool) {
	newest := h.Newest(berthv1alpha1.PhasePublished)
	if newest == nil {
		return nil, false
	}
	is := func(names []string) bool { return berthv1alpha1.Digest(names) == newest.Spec.To }
	if is(listed) {
		return listed, true
	}
	// From the newest record backwards, the last record that names a cluster says whether it is in.
	in := map[string]bool{}
	for _, record := range slices.Backward(h[:slices.Index(h, newest)+1]) {
		if !mayBePublished(record) || endedBefore(record) {
			continue
		}
		added, removed, err := Lists(record)
		if err != nil {
			return nil, false
		}
		for _, name := range added {
			setDefault(in, name, true)
		}
		for _, name := range removed {
			setDefault(in, name, false)
		}
		named := maps.Clone(in)
		maps.DeleteFunc(named, func(_ string, is bool) bool { return !is })
		if names = slices.Sorted(maps.Keys(named)); is(names) {
			return names, true
		}
		for _, name := range listed {
			if _, known := in[name]; !known {
				named[name] = true
			}
		}
		if names = slices.Sorted(maps.Keys(named)); is(names) {
			return names, true
		}
	}
	return nil, false
}

// endedBefore reports whether a change ended before the first cluster of it was published.
func endedBefore(record *berthv1alpha1.PlacementChange) bool {
	left := record.Status.Remaining
	return !IsOpen(record) && left != nil && left.Added == record.Spec.AddedCount && left.Removed == record.Spec.RemovedCount
}

// ClustersInSteps is Clusters in the middle of a change, or after changes that were superseded in
// part: what the pages, of which revision is the highest, list of what these changes add and remove
// is published.
func (h History) ClustersInSteps(listed []string, revision int64) (names []string, ok bool) {
	newest := h.Newest(berthv1alpha1.PhasePublished)
	if newest == nil {
		return nil, false
	}
	before, known := listed, revision == newest.Spec.Revision
	later := slices.DeleteFunc(slices.Clone(h[slices.Index(h, newest)+1:]), func(r *berthv1alpha1.PlacementChange) bool { return !mayBePublished(r) })
	for _, record := range slices.Backward(later) {
		added, removed, err := Lists(record)
		if err != nil {
			return nil, false
		}
		before, known = apply(before, removed, added), known || record.Spec.Revision == revision
	}
	if len(later) == 0 || !known {
		return nil, false // The record of the pages is missing.
	}
	if names, ok = h.Clusters(before); !ok {
		return nil, false
	}
	for _, record := range later {
		if berthv1alpha1.Digest(names) != record.Spec.From {
			return nil, false // A record is missing.
		}
		added, removed, _ := Lists(record) // Read above.
		names = apply(names, Both(added, listed), Minus(removed, listed))
	}
	return names, true
}

func setDefault(in map[string]bool, name string, value bool) {
	if _, known := in[name]; !known {
		in[name] = value
	}
}

// isBetween reports whether clusters, sorted, are what the change in progress has published of its
// steps.
func (h History) isBetween(listed []string) bool {
	record := h.Newest(berthv1alpha1.PhaseProgressing)
	if record == nil {
		return false
	}
	_, errBefore := Before(record, listed)
	_, errTarget := Target(record, listed)
	return errBefore == nil && errTarget == nil
}

// Disabled returns the change that other writers made while scheduling was disabled, to the
// clusters that pages list now, sorted; ok is false if there is none. It begins with the newest
// Published record or, if something was published after that, with before: the clusters that Berth
// published last, nil if they are not known. revision is the highest one on the pages.
func (h History) Disabled(listed, before []string, revision int64) (c Change, ok bool) {
	if before != nil && slices.Equal(before, listed) || before == nil && h.isBetween(listed) {
		return Change{}, false
	}
	from := berthv1alpha1.Digest(nil)
	if newest := h.Newest(berthv1alpha1.PhasePublished); newest != nil {
		from = newest.Spec.To
	}
	known := before != nil && h.Latest(revision) == nil || berthv1alpha1.Digest(before) == from
	if !known {
		before, known = h.Clusters(listed)
	}
	if known {
		c = NewChange(before, listed)
	} else {
		c = Change{From: from, To: berthv1alpha1.Digest(listed), Clusters: len(listed), Incomplete: true}
	}
	c.Cause = CauseDisabled
	return c, c.From != c.To
}
