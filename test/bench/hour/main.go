// Command hour simulates what happens to a large fleet in some time, with the inventory and the
// scheduler of the controller, and prints what that costs. Nothing is written to a hub.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/berth-dev/berth/test/bench"
)

func main() {
	clusters := flag.Int("clusters", 100_000, "clusters, in sets of 1,000")
	placements := flag.Int("placements", 10_000, "Placements of one set each, beside ten of the whole fleet")
	length := flag.Duration("length", time.Hour, "the time that is simulated")
	rates := bench.Rates{}
	flag.Float64Var(&rates.Heartbeats, "heartbeats", 60, "heartbeats of each cluster in an hour")
	flag.Float64Var(&rates.Resources, "resources", 1, "how often the free memory of each cluster changes in an hour")
	flag.Float64Var(&rates.Labels, "labels", 0.01, "how often the labels of each cluster change in an hour")
	flag.Float64Var(&rates.Outages, "outages", 0.01, "how often each cluster becomes unreachable in an hour")
	flag.Float64Var(&rates.Edits, "edits", 0.1, "how often each Placement is edited in an hour")
	flag.Parse()
	if err := run(*clusters, *placements, *length, rates); err != nil {
		fmt.Fprintln(os.Stderr, "hour:", err)
		os.Exit(1)
	}
}

func run(clusters, placements int, length time.Duration, rates bench.Rates) error {
	fmt.Fprintln(os.Stderr, "creating the fleet")
	f, err := bench.NewFleet(clusters, max(1, clusters/1000), placements)
	if err != nil {
		return fmt.Errorf("creating the fleet: %w", err)
	}
	fmt.Fprintln(os.Stderr, "deciding all Placements")
	all, began := f.Inventory.Placements(), time.Now()
	if err := f.Decide(all); err != nil {
		return err
	}
	first := time.Since(began)
	if err := f.Decide(all); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "simulating %s\n", length)
	said := time.Now()
	h, err := f.Live(length, rates, func(at time.Duration) {
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			fmt.Fprintf(os.Stderr, "simulated: %s of %s\n", at.Round(time.Second), length)
		}
	})
	if err != nil {
		return err
	}
	row := func(what, format string, values ...any) {
		fmt.Printf("| %s | "+format+" |\n", append([]any{what}, values...)...)
	}
	fmt.Printf("| %d clusters, %d Placements, %s | |\n|---|---|\n", clusters, len(all), length)
	row("first decision of all Placements", "%.1f s", first.Seconds())
	row("changes; heartbeats", "%d; %d", h.Events, h.Heartbeats)
	row("attempts started; skipped", "%d; %d", h.Attempts, h.Skipped)
	row("attempts that moved clusters; page writes", "%d; %d", h.Moved, h.Pages)
	row("time of events and cycles", "%.1f s, %.1f %% of the time", h.Busy.Seconds(), 100*h.Busy.Seconds()/length.Seconds())
	row("of which heartbeats", "%.1f s", h.Beats.Seconds())
	row("processor time", "%.1f s", h.CPU.Seconds())
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 1} {
		row(fmt.Sprintf("from a change until all its Placements are decided, %g %%", 100*q), "%.3f ms", ms(bench.At(h.Latencies, q)))
	}
	for _, q := range []float64{0.5, 0.99, 1} {
		row(fmt.Sprintf("the same for changes that move a Placement, %g %%", 100*q), "%.3f ms", ms(bench.At(h.Moves, q)))
	}
	row("peak of resident memory", "%.0f MB", bench.Peak())
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
