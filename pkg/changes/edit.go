package changes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// CausePlacement begins the cause of a change that an event of the Placement triggered, before what
// was edited.
const CausePlacement = "Placement: "

// Edit is the difference between two specs of a Placement.
type Edit struct {
	// Before has the changed fields of the spec as they were, as spec.before of a record; empty if
	// the specs are equal, or if it would be too large.
	Before string
	// Lines say what changed, such as "numberOfClusters: 8 → 2", sorted by field; at most
	// maxEditLines and a count of the others.
	Lines []string
	// Fields are all fields that changed, sorted.
	Fields []FieldEdit
}

// FieldEdit is a field that changed, with its values as encoding/json decodes them; nil for none.
type FieldEdit struct {
	Path          string
	Before, After any
}

// Line says what changed, such as "numberOfClusters: 8 → 2". Long values are cut.
func (f FieldEdit) Line() string {
	return f.Path + ": " + shortValue(f.Before) + " → " + shortValue(f.After)
}

// Bounds of the lines of an Edit.
const (
	maxEditLines     = 8
	maxEditValueSize = 80
)

// EditOf returns the difference between two specs.
func EditOf(before, after *v1alpha1.PlacementSpec) (Edit, error) {
	old, err := fieldsOf(before)
	if err != nil {
		return Edit{}, err
	}
	next, err := fieldsOf(after)
	if err != nil {
		return Edit{}, err
	}
	var e Edit
	changed := map[string]json.RawMessage{}
	for _, field := range fieldNames(old, next) {
		if bytes.Equal(old[field], next[field]) {
			continue
		}
		changed[field] = old[field]
		if len(old[field]) == 0 {
			changed[field] = json.RawMessage("null")
		}
		e.Fields = append(e.Fields, fieldEdits(field, valueOf(old[field]), valueOf(next[field]))...)
	}
	for i, field := range e.Fields {
		if i == maxEditLines {
			e.Lines = append(e.Lines, fmt.Sprintf("%d more", len(e.Fields)-i))
			break
		}
		e.Lines = append(e.Lines, field.Line())
	}
	if len(changed) == 0 {
		return e, nil
	}
	text, err := json.Marshal(changed)
	if err != nil {
		return Edit{}, fmt.Errorf("spec.before: %w", err)
	}
	if len(text) <= berthv1alpha1.MaxBeforeBytes {
		e.Before = string(text)
	}
	return e, nil
}

// String is one line with all that changed.
func (e Edit) String() string { return strings.Join(e.Lines, ", ") }

// Restore returns a spec with the fields that spec.before of a record has.
func Restore(spec *v1alpha1.PlacementSpec, before string) (*v1alpha1.PlacementSpec, error) {
	fields, err := fieldsOf(spec)
	if err != nil {
		return nil, err
	}
	var changed map[string]json.RawMessage
	if err := json.Unmarshal([]byte(before), &changed); err != nil {
		return nil, fmt.Errorf("spec.before: %w", err)
	}
	maps.Copy(fields, changed)
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("spec.before: %w", err)
	}
	restored := &v1alpha1.PlacementSpec{}
	if err := json.Unmarshal(text, restored); err != nil {
		return nil, fmt.Errorf("spec.before: %w", err)
	}
	return restored, nil
}

// lacksBefore reports whether a change follows an edit of a spec that is not known any more.
func lacksBefore(before string, published, generation int64) bool {
	return before == "" && published != 0 && published != generation
}

// mergeBefore returns spec.before of two consecutive changes together; empty if it is too large or
// not known.
func mergeBefore(first, second Change) string {
	for _, c := range []Change{first, second} {
		if lacksBefore(c.Before, c.PublishedGeneration, c.Generation) {
			return ""
		}
	}
	if first.Before == "" || second.Before == "" {
		return first.Before + second.Before
	}
	fields := map[string]json.RawMessage{}
	for _, before := range []string{second.Before, first.Before} {
		if err := json.Unmarshal([]byte(before), &fields); err != nil {
			return ""
		}
	}
	text, err := json.Marshal(fields)
	if err != nil || len(text) > berthv1alpha1.MaxBeforeBytes {
		return ""
	}
	return string(text)
}

func fieldsOf(spec *v1alpha1.PlacementSpec) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("the spec: %w", err)
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("the spec: %w", err)
	}
	return fields, nil
}

func fieldNames[V any](a, b map[string]V) []string {
	return slices.Compact(slices.Sorted(func(yield func(string) bool) {
		for _, fields := range []map[string]V{a, b} {
			for name := range fields {
				if !yield(name) {
					return
				}
			}
		}
	}))
}

func valueOf(raw json.RawMessage) (value any) {
	// Numbers are shown as they are written. What json.Marshal wrote can be read.
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	_ = decoder.Decode(&value)
	return value
}

// fieldEdits compares two values of a field. Objects are compared field by field, and lists of the
// same length item by item.
func fieldEdits(path string, old, next any) (edits []FieldEdit) {
	oldFields, isObject := old.(map[string]any)
	nextFields, stays := next.(map[string]any)
	if isObject && stays {
		for _, field := range fieldNames(oldFields, nextFields) {
			edits = append(edits, fieldEdits(path+"."+field, oldFields[field], nextFields[field])...)
		}
		return edits
	}
	oldItems, isList := old.([]any)
	nextItems, stays := next.([]any)
	if isList && stays && len(oldItems) == len(nextItems) {
		for i := range oldItems {
			edits = append(edits, fieldEdits(fmt.Sprintf("%s[%d]", path, i), oldItems[i], nextItems[i])...)
		}
		return edits
	}
	if equalValues(old, next) {
		return nil
	}
	return []FieldEdit{{path, old, next}}
}

func equalValues(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// shortValue is a value in JSON, without the quotes of a text, cut to maxEditValueSize.
func shortValue(value any) string {
	if value == nil {
		return "none"
	}
	if text, ok := value.(string); ok {
		return v1alpha1.CutText(text, maxEditValueSize)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "?"
	}
	return v1alpha1.CutText(string(text), maxEditValueSize)
}

// Undoable returns the newest record of an edit of the spec that is published, or being published,
// or whose change is held or ended without being published while the spec is still the edited one;
// nil if there is none. generation is that of the Placement.
func (h History) Undoable(generation int64) *berthv1alpha1.PlacementChange {
	for _, record := range slices.Backward(h) {
		if follows(record) && (mayBePublished(record) || record.Spec.PlacementGeneration == generation) {
			return record
		}
	}
	return nil
}

// follows reports whether a record follows an edit of the spec.
func follows(record *berthv1alpha1.PlacementChange) bool {
	spec := &record.Spec
	return spec.Before != "" || spec.PublishedGeneration != 0 && spec.PublishedGeneration != spec.PlacementGeneration
}

// BeforeEdit returns the newest Published record before the edit of a record of Undoable; nil if
// there is none, or if another edit in between was published in part.
func (h History) BeforeEdit(edit *berthv1alpha1.PlacementChange) *berthv1alpha1.PlacementChange {
	for _, record := range slices.Backward(h) {
		switch {
		case record.Spec.Revision >= edit.Spec.Revision:
		case record.Status.Phase == berthv1alpha1.PhasePublished:
			return record
		case follows(record) && mayBePublished(record) && record.Spec.PlacementGeneration != edit.Spec.PlacementGeneration:
			return nil
		}
	}
	return nil
}

// SpecAt returns the spec of a Placement for which the clusters after a revision were decided, from
// its present spec. The error says why it is not known.
func (h History) SpecAt(revision int64, now *v1alpha1.PlacementSpec) (*v1alpha1.PlacementSpec, error) {
	spec := now
	for _, record := range slices.Backward(h) {
		s := &record.Spec
		switch {
		case s.Revision <= revision:
			return spec, nil
		case lacksBefore(s.Before, s.PublishedGeneration, s.PlacementGeneration):
			return nil, fmt.Errorf("the spec before revision %d is not known: it was edited while no controller was running, or is larger than 16 KiB", s.Revision)
		case s.Before == "":
			continue
		}
		restored, err := Restore(spec, s.Before)
		if err != nil {
			return nil, fmt.Errorf("revision %d: %w", s.Revision, err)
		}
		spec = restored
	}
	return spec, nil
}

// EditOfRecord returns the edit that a record names as its cause, with all values; empty if it is
// not known any more. now is the present spec of the Placement.
func (h History) EditOfRecord(record *berthv1alpha1.PlacementChange, now *v1alpha1.PlacementSpec) Edit {
	_, named, isEdit := strings.Cut(record.Spec.Cause, CausePlacement)
	after, err := h.SpecAt(record.Spec.Revision, now)
	if err != nil || !isEdit || record.Spec.Before == "" {
		return Edit{}
	}
	before, err := Restore(after, record.Spec.Before)
	if err != nil {
		return Edit{}
	}
	edit, err := EditOf(before, after)
	start, cut := strings.CutSuffix(named, "…")
	// A later edit may have changed no clusters: then no record has the values before it.
	if err != nil || edit.String() != named && (!cut || !strings.HasPrefix(edit.String(), start)) {
		return Edit{}
	}
	return edit
}
