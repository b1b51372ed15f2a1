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
	answers, err := install.AwaitAnswers(ctx, config, placements)
	if err != nil {
		return err
	}
	t := &table{heading: []string{"NAMESPACE", "PLACEMENT", "SATISFIED", "REASON", "NUMBER", "CLUSTERS"}}
	for _, a := range answers {
		t.add(cell{text: a.Placement.Namespace}, cell{text: a.Placement.Name}, cell{text: a.Satisfied}, cell{text: a.Reason},
			cell{text: fmt.Sprint(a.Number)}, cell{text: shorten(a.Clusters)})
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
