package app

import (
	"context"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/replay"
)

// checkConfig validates the flags that --config needs and excludes.
func (o *replayOptions) checkConfig(key *types.NamespacedName) error {
	switch {
	case o.maxMoved < -1:
		return usagef("--max-moved: %d must be at least 0, or -1 for no limit", o.maxMoved)
	case o.config == "" && o.maxMoved >= 0:
		return usagef("--max-moved needs --config")
	case o.config != "" && (o.verify || o.at != "" || key != nil || o.cluster != "" || o.until != ""):
		return usagef("--config compares all Placements; of the other flags only --since, --max-moved, --all and -o go with it")
	}
	return nil
}

// runCompare makes the decisions under another configuration.
func (o *replayOptions) runCompare(ctx context.Context, r *recording.Reader, progress *progress, out io.Writer) error {
	with, err := loadConfig(ctx, o.config, o.plugins)
	if err != nil {
		return err
	}
	during, err := o.period()
	if err != nil {
		return err
	}
	if during.ago > 0 {
		progress.say("looking for the end of the recording")
		last, err := r.LastTime()
		if err != nil {
			return err
		}
		during.since = last.Add(-during.ago)
	}
	result, err := replay.Compare(ctx, r, o.plugins, with, during.since, func(c *replay.Comparison) {
		progress.say("%s; %s", number(c.Decisions, "decision"), readPart(r))
	})
	progress.stop()
	if err != nil {
		return err
	}
	if err := o.printComparison(out, result); err != nil {
		return err
	}
	if o.maxMoved >= 0 && result.Moves-result.RealMoves > o.maxMoved {
		return errChanges
	}
	return nil
}

// maxCompared is how many Placements the table lists without --all.
const maxCompared = 50

func (o *replayOptions) printComparison(out io.Writer, c *replay.Comparison) error {
	if structured(o.output) {
		return printObject(out, o.output, c)
	}
	more := c.Moves - c.RealMoves
	change := fmt.Sprintf("%d more", more)
	if more < 0 {
		change = fmt.Sprintf("%d fewer", -more)
	}
	say(out, "%s under %s: %s would have had other clusters at some time; %d clusters would have moved, %s than the %d that did.\n",
		number(c.Decisions, "decision"), o.config, number(len(c.Placements), "Placement"), c.Moves, change, c.RealMoves)
	if c.Failed > 0 {
		say(out, "%s could not be made under that configuration.\n", number(c.Failed, "decision"))
	}
	for why, n := range c.Skipped {
		say(out, "%d were not made again: %s.\n", n, why)
	}
	if len(c.Placements) == 0 {
		return nil
	}
	shown := c.Placements
	if len(shown) > maxCompared && !o.all {
		shown = shown[:maxCompared]
	}
	t := table{heading: []string{"PLACEMENT", "DECISIONS", "DIFFER", "MOVED", "REALLY MOVED", "HELD", "REALLY HELD", "ONLY REAL AT THE END", "ONLY HERE AT THE END"}}
	most := 3
	if o.output == "wide" {
		most = 1000
	}
	for _, p := range shown {
		t.add(cell{text: p.Placement}, cell{text: fmt.Sprint(p.Decisions)}, cell{text: fmt.Sprint(p.Differ)}, cell{text: fmt.Sprint(p.Moves)}, cell{text: fmt.Sprint(p.RealMoves)},
			cell{text: fmt.Sprint(p.Held)}, cell{text: fmt.Sprint(p.RealHeld)}, cell{text: namesOf(p.OnlyReal, most)}, cell{text: namesOf(p.OnlyHere, most)})
	}
	if err := t.print(out, colourful(out)); err != nil {
		return err
	}
	if hidden := len(c.Placements) - len(shown); hidden > 0 {
		return say(out, "%s more are listed with --all.\n", number(hidden, "Placement"))
	}
	return nil
}
