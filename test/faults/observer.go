package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/test/readers"
)

// observerVariable holds the Orders, as JSON, for a test binary that runs as the observer.
const observerVariable = "BERTH_TEST_OBSERVER"

// Watched is a Placement that the observer follows.
type Watched struct {
	Namespace, Name string
	// Core are the clusters that are in every decision.
	Core []string
}

// Orders configure what the observer reads.
type Orders struct {
	Kubeconfig string
	Placements []Watched
	// Pollers is the number of concurrent polls. Each waits for PollPause between two polls, which
	// leaves processor time to what is observed.
	Pollers   int
	PollPause time.Duration
}

// Seen is what the observer has read and found so far.
type Seen struct {
	// Polls counts the lists read. States and Statuses count the page and Placement states that the
	// watches reported. Events counts the events about the Placements, at the end.
	Polls, States, Statuses, Events int
	// Pages and Groups are the largest numbers in one decision.
	Pages, Groups int
	// Violations counts broken promises, ByLaw counts them by law of docs/guarantees.md, and
	// Examples has the first ones.
	Violations int
	ByLaw      map[int]int
	Examples   []string
	// Errors counts failed reads; FirstError is the first error.
	Errors     int
	FirstError string
}

// observer checks all that one process reads.
type observer struct {
	Orders
	hub  client.WithWatch
	http *http.Client
	host string

	mu sync.Mutex
	Seen
	answers map[string]*answerLog // by namespace/name
}

// ObserveIfAsked runs the observer in this process if StartObserver started it, and then does not
// return. TestMain calls it.
func ObserveIfAsked() {
	text := os.Getenv(observerVariable)
	if text == "" {
		return
	}
	if err := observe(text); err != nil {
		_, _ = os.Stderr.WriteString("observer: " + err.Error() + "\n")
		os.Exit(1)
	}
	os.Exit(0)
}

// observe reads until its standard input ends, and prints a report four times a second and at the
// end.
func observe(text string) error {
	o := &observer{answers: map[string]*answerLog{}, Seen: Seen{ByLaw: map[int]int{}}}
	if err := json.Unmarshal([]byte(text), &o.Orders); err != nil {
		return fmt.Errorf("reading the orders: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return fmt.Errorf("finding the hub: %w", err)
	}
	config.QPS = -1
	config.DisableCompression = true
	if o.hub, err = client.NewWithWatch(config, client.Options{Scheme: NewScheme()}); err != nil {
		return fmt.Errorf("building the client: %w", err)
	}
	if o.http, err = rest.HTTPClientFor(config); err != nil {
		return fmt.Errorf("building the polls' client: %w", err)
	}
	o.host = config.Host
	ctx, cancel := context.WithCancel(context.Background())
	for _, w := range o.Placements {
		o.answers[w.key()] = &answerLog{since: map[string]uint64{}}
	}
	var readers sync.WaitGroup
	for i := range o.Pollers {
		readers.Go(func() { o.poll(ctx, i) })
	}
	for _, w := range o.Placements {
		readers.Go(func() { o.followPages(ctx, w) })
		readers.Go(func() { o.followStatus(ctx, w) })
	}
	readers.Go(func() {
		for tick := time.Tick(250 * time.Millisecond); ctx.Err() == nil; <-tick {
			o.print()
		}
	})
	_, err = io.Copy(io.Discard, os.Stdin)
	// The last writes are still on their way through the watches.
	caughtUp, done := context.WithTimeout(ctx, 10*time.Second)
	o.catchUp(caughtUp)
	done()
	cancel()
	readers.Wait()
	o.checkLogs(context.Background())
	o.print()
	return err
}

func (w Watched) key() string { return w.Namespace + "/" + w.Name }

// catchUp waits until the watches have reported the current state.
func (o *observer) catchUp(ctx context.Context) {
	for _, w := range o.Placements {
		_, pages, err := o.list(ctx, w, "")
		if err != nil {
			o.failed(ctx, err)
			continue
		}
		for tick := time.Tick(20 * time.Millisecond); ctx.Err() == nil && !o.hasSeen(w, pages); <-tick {
		}
	}
}

func (o *observer) hasSeen(w Watched, pages []readers.Page) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	states := o.answers[w.key()].states
	return len(pages) == 0 || len(states) > 0 && len(states[len(states)-1].pages) == len(pages)
}

func (o *observer) print() {
	o.mu.Lock()
	defer o.mu.Unlock()
	// Standard output is the only place for the error.
	_ = json.NewEncoder(os.Stdout).Encode(o.Seen)
}
