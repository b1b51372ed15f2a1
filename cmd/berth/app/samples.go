package app

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/pkg/install"
)

// shownClusters is the number of cluster names that the table shows for a decision.
const shownClusters = 5

// shownKept is the number of kept objects that applySamples names.
const shownKept = 20

// applySamples applies the sample fleet and Placements, if requested, and returns the Placements'
// keys.
func (o *upOptions) applySamples(ctx context.Context, config *rest.Config, out io.Writer) ([]types.NamespacedName, error) {
	if !o.samples {
		return nil, nil
	}
	result, err := install.Samples(ctx, config)
	if err != nil {
		return nil, err
	}
	if result.Applied == result.Total {
		say(out, "Applied %d sample objects.\n", result.Total)
	} else {
		say(out, "Applied %d of %d sample objects; the others exist and are not changed.\n", result.Applied, result.Total)
	}
	if count := len(result.Kept); count > 0 {
		names := strings.Join(result.Kept[:min(count, shownKept)], ", ")
		if count > shownKept {
			names += fmt.Sprintf(", … %d more", count-shownKept)
		}
		say(out, "Kept %d objects that differ from the samples: %s. To get a sample back, delete its object and start with --samples again.\n", count, names)
	}
	return result.Placements, nil
}

// printDecisions prints the decisions of the Placements as soon as they are complete. It returns
// the keys of the Placements that it printed. It prints problems with Placements, too; they are no
// error.
func printDecisions(ctx context.Context, config *rest.Config, placements []types.NamespacedName, out io.Writer) ([]types.NamespacedName, error) {
	decisions, err := install.AwaitDecisions(ctx, config, placements)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		say(out, "The decisions of the samples are not shown: %v\n", err)
	}
	for _, key := range decisions.Deleted {
		say(out, "Placement %s was deleted; its decision is not shown.\n", key)
	}
	for _, key := range decisions.Undecided {
		say(out, "Placement %s has no published decision yet.\n", key)
	}
	if len(decisions.Published) == 0 {
		return nil, nil
	}
	var printed []types.NamespacedName
	t := &table{heading: []string{"NAMESPACE", "PLACEMENT", "WANTED", "SELECTED", "SATISFIED", "REASON", "CLUSTERS"}}
	for _, p := range decisions.Published {
		printed = append(printed, p.Placement)
		wanted := "all"
		if p.Wanted != nil {
			wanted = fmt.Sprint(*p.Wanted)
		}
		t.add(cell{text: p.Placement.Namespace}, cell{text: p.Placement.Name}, cell{text: wanted}, cell{text: fmt.Sprint(p.Selected)},
			cell{text: p.Satisfied}, cell{text: p.Reason}, cell{text: shorten(p.Clusters)})
	}
	var text bytes.Buffer
	if err := t.print(&text, false); err != nil {
		return nil, err
	}
	_, err = io.WriteString(out, "\n"+text.String())
	return printed, err
}

func shorten(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	if len(names) <= shownClusters {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, … %d more", strings.Join(names[:shownClusters], ", "), len(names)-shownClusters)
}
