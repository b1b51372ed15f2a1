package decide

import (
	"slices"
	"strconv"
)

// Limits of the note of an event, in bytes: that of the API, and that of the list of scores.
const (
	MaxNote   = 1024
	maxScores = 1000
)

// ScoreNote lists the totals of the first feasible clusters by name, as many as fit. One pass finds
// them without sorting all clusters. It is empty if there are no scores.
func (r *Decision) ScoreNote() string {
	if len(r.Totals) < len(r.Feasible) {
		return ""
	}
	note := make([]byte, 0, MaxNote)
	sizeOf := func(i int) int { return len(r.appendScore(note[:0], i)) }
	// listed are the positions of the listed clusters, by name; cut is the first one that does not
	// fit.
	var listed []int
	size, cut := 0, -1
	for i := range r.Feasible {
		if cut >= 0 && r.byName(i, cut) > 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(listed, i, r.byName)
		listed = slices.Insert(listed, at, i)
		size += sizeOf(i)
		for size > maxScores {
			last := listed[len(listed)-1]
			listed = listed[:len(listed)-1]
			size -= sizeOf(last)
			cut = last
		}
	}
	for _, i := range listed {
		note = r.appendScore(note, i)
	}
	if cut >= 0 {
		note = append(note, "......"...)
	}
	return string(note)
}

func (r *Decision) appendScore(note []byte, i int) []byte {
	note = append(append(note, r.Feasible[i].Name...), ':')
	return append(strconv.AppendInt(note, r.Totals[i], 10), ' ')
}
