package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

const berthArgs = "controller --kubeconfig {kubeconfig} --metrics-bind-address {metrics} --leader-elect=false --health-probe-bind-address=0 --record {recording}"

// allRows are the rows of the table, in the order of measurement.
var allRows = []string{"cold", "hot", "heartbeat", "hot-predicate", "hot-read", "read", "hot-last", "busy", "busy-policies", "hot-all", "memory", "steps", "evictions", "drain", "churn", "recording", "replay", "lock"}

// options are the flags of the command.
type options struct {
	// controller is the binary, args are its arguments with the placeholders {kubeconfig} and
	// {metrics} (host:port) and {recording} (a folder).
	controller, args string
	// kubeconfig is that of a hub with the CRDs; if empty, a hub is started from assets.
	kubeconfig, assets string
	sizes              []size
	rows               []string
	// per is the number of clusters that a Placement asks for, churn that of the Placement in the
	// churn row.
	per, churn int
	// rollout is the number of clusters of the Placement in the steps row, evictions that of the
	// PlacementEvictions in the evictions row.
	rollout, evictions int
	// repeats is the number of samples of slow rows; samples and budget limit each hot row.
	repeats, samples, heartbeats int
	budget                       time.Duration
	// length is how long the busy rows take.
	length time.Duration
	// cycles is the prefix of the metrics that count scheduling cycles.
	cycles string
	json   string
}

// size is the number of clusters and Placements of a hub.
type size struct {
	Clusters   int `json:"clusters"`
	Placements int `json:"placements"`
}

func (s size) String() string { return fmt.Sprintf("%d × %d", s.Clusters, s.Placements) }

func main() {
	if runInformersIfAsked() || runTimerIfAsked() {
		return
	}
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(2)
	}
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = runAll(ctx, o, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("load", flag.ExitOnError)
	flags.StringVar(&o.controller, "controller", "bin/berth", "binary of the controller")
	flags.StringVar(&o.args, "args", berthArgs, "its arguments; {kubeconfig} is the hub's, {metrics} a host:port for metrics, {recording} a folder for the recording, if it has any")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "measure on this hub, which has the CRDs and no such controller, instead of starting one")
	flags.StringVar(&o.assets, "assets", "", "folder with etcd and kube-apiserver (default: KUBEBUILDER_ASSETS, then bin/hub)")
	clusters := flags.Int("clusters", 1000, "clusters of the fleet")
	placements := flags.Int("placements", 1000, "Placements")
	sizes := flags.String("sizes", "", "several sizes instead, such as 100x100,1000x1000, each on a hub of its own")
	rows := flags.String("rows", strings.Join(allRows, ","), "what to measure")
	flags.IntVar(&o.per, "per", 3, "clusters that each Placement wants")
	flags.IntVar(&o.churn, "churn", 5000, "clusters of the Placement whose pages are counted")
	flags.IntVar(&o.rollout, "rollout", 1000, "clusters of the Placement whose change is published in ten steps")
	flags.IntVar(&o.evictions, "evictions", 500, "PlacementEvictions that are created at once, at most one for each Placement")
	flags.IntVar(&o.repeats, "repeats", 3, "cold starts, changes that move all Placements and back, changes in steps, and joins")
	flags.IntVar(&o.samples, "samples", 200, "changes in each hot row, at most; one less if odd, as every other takes one back")
	flags.IntVar(&o.heartbeats, "heartbeats", 1000, "heartbeats")
	flags.DurationVar(&o.budget, "budget", 30*time.Second, "no more samples are taken in a hot row after this time")
	flags.DurationVar(&o.length, "length", time.Minute, "how long each busy row takes")
	flags.StringVar(&o.cycles, "cycles", `controller_runtime_reconcile_total{controller="placement"`, "how the metrics begin that count cycles")
	flags.StringVar(&o.json, "json", "", "write the results to this file, too")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.sizes = []size{{*clusters, *placements}}
	if *sizes != "" {
		o.sizes = nil
		for text := range strings.SplitSeq(*sizes, ",") {
			var s size
			if _, err := fmt.Sscanf(text, "%dx%d", &s.Clusters, &s.Placements); err != nil {
				return o, fmt.Errorf("-sizes: %q is not like 1000x1000", text)
			}
			o.sizes = append(o.sizes, s)
		}
	}
	o.rows = strings.Split(*rows, ",")
	return o, o.validate()
}

func (o *options) validate() error {
	for _, row := range o.rows {
		if !slices.Contains(allRows, row) {
			return fmt.Errorf("-rows: there is no row %q; there are %s", row, strings.Join(allRows, ", "))
		}
	}
	for _, s := range o.sizes {
		if s.Clusters < 2*o.per+2 || s.Placements < 2 {
			return fmt.Errorf("%s is too small: at least %d clusters and 2 Placements", s, 2*o.per+2)
		}
	}
	if o.per < 1 || o.churn < 2 || o.rollout < 1 || o.evictions < 1 || o.repeats < 1 || o.samples < 2 || o.heartbeats < 1 {
		return fmt.Errorf("-per, -rollout, -evictions, -repeats and -heartbeats are at least 1, -churn and -samples at least 2")
	}
	return nil
}
