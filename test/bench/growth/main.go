// Command growth measures what a Placement costs as the fleet grows, and as Placements become more.
// It prints a table, and draws it into the folder that -plots names.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/test/bench"
)

// tries is how often each is measured; the quickest counts, for whatever else the machine does only
// adds.
const tries = 3

// changes are decided together, for one alone is shorter than the clock's step.
const changes = 5

// setSize is how many clusters a set has; a Placement sees one.
const setSize = 1_000

func main() {
	plots := flag.String("plots", "", "the folder to write growth-clusters.svg and growth-placements.svg into")
	largest := flag.Int("largest", 100_000, "clusters of the largest fleet")
	flag.Parse()
	if err := run(*plots, *largest); err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

func run(folder string, largest int) error {
	fmt.Println("| clusters | Placements | first decision, µs of CPU | decided again, µs of CPU | decided again, whole fleet, µs of CPU | one cluster's change, ms of CPU |")
	fmt.Println("|---|---|---|---|---|---|")
	byClusters := plot{Title: "CPU for one Placement, with 1,000 Placements", X: "clusters, in sets of 1,000"}
	for clusters := 1_000; clusters <= largest; clusters *= 10 {
		for _, c := range []int{clusters, 3 * clusters} {
			if c > largest {
				break
			}
			if err := byClusters.add(c, 1_000, c); err != nil {
				return err
			}
		}
	}
	byPlacements := plot{Title: "CPU for one Placement, with 10,000 clusters", X: "Placements"}
	for _, p := range []int{100, 300, 1_000, 3_000, 10_000} {
		if err := byPlacements.add(min(largest, 10_000), p, p); err != nil {
			return err
		}
	}
	if folder == "" {
		return nil
	}
	for name, p := range map[string]plot{"growth-clusters.svg": byClusters, "growth-placements.svg": byPlacements} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(p.svg()), 0o644); err != nil {
			return fmt.Errorf("drawing: %w", err)
		}
	}
	return nil
}

// add measures one fleet, prints a row, and notes it at x.
func (p *plot) add(clusters, placements, x int) error {
	f, err := bench.NewFleet(clusters, max(1, clusters/setSize), placements)
	if err != nil {
		return fmt.Errorf("building a fleet of %d: %w", clusters, err)
	}
	all := f.Inventory.Placements()
	global, oneSet := all[:bench.GlobalPlacements], all[bench.GlobalPlacements:]
	var first, again, whole, change float64
	for try := range tries {
		if err := f.Restart(); err != nil {
			return err
		}
		least(&first, try, cpu(f, oneSet)/float64(len(oneSet)))
		cpu(f, global)
		least(&change, try, cpu(f, nil)/changes)
		least(&again, try, cpu(f, oneSet)/float64(len(oneSet)))
		least(&whole, try, cpu(f, global)/float64(len(global)))
	}
	fmt.Printf("| %d | %d | %.0f | %.0f | %.0f | %.1f |\n", clusters, placements, first, again, whole, change/1000)
	p.Xs = append(p.Xs, float64(x))
	p.First, p.Again, p.Whole = append(p.First, first), append(p.Again, again), append(p.Whole, whole)
	return nil
}

func least(so *float64, try int, x float64) {
	if try == 0 || x < *so {
		*so = x
	}
}

// cpu decides Placements, or those that a few changes affect, and returns the process's time in
// microseconds.
func cpu(f *bench.Fleet, keys []inventory.Key) float64 {
	before := bench.CPUTime()
	if keys == nil {
		for range changes {
			must(f.Decide(f.Change()))
		}
	} else {
		must(f.Decide(keys))
	}
	return float64((bench.CPUTime() - before).Microseconds())
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}
