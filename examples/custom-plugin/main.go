// Command berth-cheapest is berth with two more plugins: CheapestFirst and Freeze.
package main

import (
	"context"
	"encoding/json"
	"os"
	"strconv"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/cmd/berth/app"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// CheapestFirst prefers clusters with a low price, a whole number in a label.
type CheapestFirst struct {
	Label string `json:"label"`
}

func newCheapestFirst(_ context.Context, args json.RawMessage, _ *framework.Handle) (framework.Plugin, error) {
	return framework.DecodeArgs(args, CheapestFirst{Label: "example.com/price"})
}

func (CheapestFirst) Name() string { return "CheapestFirst" }

// Score is 100 for a price of 0 and falls to -100 for 200 and more; a cluster without a price has
// no score.
func (p CheapestFirst) Score(_ context.Context, _ *framework.CycleState, _ *v1alpha1.Placement, cluster *framework.Cluster) (int64, *framework.Status) {
	price, err := strconv.ParseInt(cluster.Labels[p.Label], 10, 64)
	if err != nil {
		return 0, framework.NewStatus(framework.Skip, "no price in label "+p.Label)
	}
	return framework.MaxScore - min(max(price, 0), framework.MaxScore-framework.MinScore), nil
}

func main() {
	os.Exit(app.Run(app.NewCommand(app.WithPlugin("CheapestFirst", newCheapestFirst), app.WithPlugin("Freeze", newFreeze)), os.Args[1:]))
}
