package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
)

// approver is the user who answered the change.
func approver(v *changes.View) string {
	switch {
	case v.Approval == nil:
		return none
	case v.Approval.Decision == berthv1alpha1.Rejected:
		return v.Approval.By + " (rejected)"
	}
	return v.Approval.By
}

// printChange shows one change. The wide form lists all added and removed clusters, the normal form
// only the first ones. An edit has the values that the cause cuts.
func printChange(out io.Writer, v *changes.View, wide bool, edit ...changes.FieldEdit) error {
	line := func(name, format string, args ...any) {
		say(out, "  %-10s"+format+"\n", append([]any{name}, args...)...)
	}
	say(out, "Placement %s, change %s: %s\n", v.Placement, v.Revisions(), cmp.Or(v.Phase, "no phase yet"))
	line("Time:", "%s", v.Time.Format(time.RFC3339))
	line("Cause:", "%s", v.CauseText())
	printEdit(out, edit)
	if v.By != "" {
		line("By:", "%s", v.By)
	}
	if v.Comment != "" {
		line("Comment:", "%s", v.Comment)
	}
	for _, hold := range v.HoldTexts() {
		line("Held by:", "%s", hold)
	}
	if v.Message != "" && len(v.Holds) == 0 {
		line("Message:", "%s", v.Message)
	}
	if v.Approval != nil {
		line("Approval:", "%s by %s", v.Approval.Decision, v.Approval.By)
		if v.Approval.Comment != "" {
			line("Comment:", "%s", v.Approval.Comment)
		}
	}
	if v.Remaining != nil {
		line("To do:", "%d to add, %d to remove", v.Remaining.Added, v.Remaining.Removed)
	}
	line("Selected:", "%d", v.Clusters)
	line("Added:", "%s", listed(v.AddedCount, v.Added, wide))
	line("Removed:", "%s", listed(v.RemovedCount, v.Removed, wide))
	if v.Incomplete != "" {
		line("", "Not all clusters are listed: %s", v.Incomplete)
	}
	if !wide || len(v.Added)+len(v.Removed) == 0 {
		return nil
	}
	t := &table{heading: []string{"CHANGE", "CLUSTER"}}
	for _, name := range v.Added {
		t.add(cell{"added", green}, cell{name, plain})
	}
	for _, name := range v.Removed {
		t.add(cell{"removed", red}, cell{name, plain})
	}
	return t.print(out, colourful(out))
}

// printEdit shows edited fields with their whole values.
func printEdit(out io.Writer, edit []changes.FieldEdit) {
	for i, field := range edit {
		name := ""
		if i == 0 {
			name = "Edit:"
		}
		if line := field.Line(); !strings.Contains(line, "…") {
			say(out, "  %-10s%s\n", name, line)
			continue
		}
		say(out, "  %-10s%s:\n", name, field.Path)
		printValue(out, "before", field.Before)
		printValue(out, "after", field.After)
	}
}

// printValue prints a value of an edited field as YAML.
func printValue(out io.Writer, name string, value any) {
	const indent = "              "
	text, err := json.Marshal(value)
	if err == nil {
		text, err = yamlOf(text)
	}
	if value == nil || err != nil { // What was JSON can be written.
		say(out, "%s%s: none\n", indent, name)
		return
	}
	say(out, "%s%s:\n", indent, name)
	for line := range strings.Lines(string(text)) {
		say(out, "%s  %s\n", indent, strings.TrimSuffix(line, "\n"))
	}
}

// maxShownClusters is how many added and how many removed clusters the normal form lists.
const maxShownClusters = 10

// listed returns the count and the first names. The wide form has only the count, because a table
// with all names follows.
func listed(count int32, names []string, wide bool) string {
	if wide || len(names) == 0 {
		return fmt.Sprint(count)
	}
	shown := strings.Join(names[:min(len(names), maxShownClusters)], " ")
	if int(count) > maxShownClusters {
		shown += " …"
	}
	return fmt.Sprintf("%d: %s", count, shown)
}
