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

// applySamples applies the sample fleet and Placements, if requested, and returns the Placements'
// keys.
func (o *upOptions) applySamples(ctx context.Context, config *rest.Config, out io.Writer) ([]types.NamespacedName, error) {
	if !o.samples {
		return nil, nil
	}
	objects, placements, err := install.Samples(ctx, config)
	if err != nil {
		return nil, err
	}
	say(out, "Applied %d sample objects.\n", objects)
	return placements, nil
}

// printDecisions prints the decisions of the Placements as soon as they are complete.
func printDecisions(ctx context.Context, config *rest.Config, placements []types.NamespacedName, out io.Writer) error {
	published, err := install.AwaitDecisions(ctx, config, placements)
	if err != nil {
		return err
	}
	t := &table{heading: []string{"NAMESPACE", "PLACEMENT", "WANTED", "SELECTED", "SATISFIED", "REASON", "CLUSTERS"}}
	for _, p := range published {
		wanted := "all"
		if p.Wanted != nil {
			wanted = fmt.Sprint(*p.Wanted)
		}
		t.add(cell{text: p.Placement.Namespace}, cell{text: p.Placement.Name}, cell{text: wanted}, cell{text: fmt.Sprint(p.Selected)},
			cell{text: p.Satisfied}, cell{text: p.Reason}, cell{text: shorten(p.Clusters)})
	}
	var text bytes.Buffer
	if err := t.print(&text, false); err != nil {
		return err
	}
	_, err = io.WriteString(out, "\n"+text.String())
	return err
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
