package flicker

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// observerVariable holds the orders, as JSON, of a test binary that is to be the observer.
const observerVariable = "BERTH_FLICKER_OBSERVER"

// orders say what the observer reads.
type orders struct {
	Kubeconfig, Namespace string
	Placements            []string
	// Core are the clusters that belong to every answer.
	Core []string
	// Pollers is how many polls run at once.
	Pollers int
}

// report is what the observer has seen.
type report struct {
	// Polls are the lists read; States are those that a watch went through, one write after the other.
	Polls, States int
	// Pages and Groups are the most that one answer had.
	Pages, Groups int
	// Violations counts the promises broken; Examples are the first of them.
	Violations int
	Examples   []string
	// Errors are readings that failed.
	Errors int
}

// observer checks all that one process reads.
type observer struct {
	orders
	hub   client.WithWatch
	http  *http.Client
	pages string // the URL

	mu sync.Mutex
	report
	// since is the hub's version at which a core cluster was first seen in a Placement's answer.
	since map[string]map[string]uint64
}

// observe reads until its standard input ends, and prints a report four times a second and at the end.
func observe(text string) error {
	o := &observer{since: map[string]map[string]uint64{}}
	if err := json.Unmarshal([]byte(text), &o.orders); err != nil {
		return fmt.Errorf("reading the orders: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return fmt.Errorf("finding the hub: %w", err)
	}
	config.QPS = -1
	config.DisableCompression = true
	if o.hub, err = client.NewWithWatch(config, client.Options{Scheme: newScheme()}); err != nil {
		return fmt.Errorf("building the client: %w", err)
	}
	if o.http, err = rest.HTTPClientFor(config); err != nil {
		return fmt.Errorf("building the polls' client: %w", err)
	}
	o.pages = config.Host + "/apis/" + v1alpha1.GroupVersionV1Beta1.String() + "/namespaces/" + o.Namespace + "/placementdecisions"
	ctx, cancel := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	for i := range o.Pollers {
		readers.Go(func() { o.poll(ctx, i) })
	}
	for _, name := range o.Placements {
		o.since[name] = map[string]uint64{}
		readers.Go(func() { o.follow(ctx, name) })
	}
	readers.Go(func() {
		for tick := time.Tick(250 * time.Millisecond); ctx.Err() == nil; <-tick {
			o.print()
		}
	})
	_, err = io.Copy(io.Discard, os.Stdin)
	cancel()
	readers.Wait()
	o.print()
	return err
}

func (o *observer) print() {
	o.mu.Lock()
	defer o.mu.Unlock()
	// The reader of standard output is the only one there is to tell.
	_ = json.NewEncoder(os.Stdout).Encode(o.report)
}

// selecting is what a consumer asks for.
func (o *observer) selecting(placement, version string) *client.ListOptions {
	options := &client.ListOptions{Namespace: o.Namespace, Raw: &metav1.ListOptions{ResourceVersion: version}}
	client.MatchingLabels{v1alpha1.PlacementLabel: placement}.ApplyToList(options)
	return options
}

// list reads what the promises are about and no more: decoding all of it takes most of the time of a poll.
func (o *observer) list(ctx context.Context, placement, version string) (at string, pages []page, err error) {
	var raw struct {
		Metadata struct{ ResourceVersion string }
		Items    []struct {
			Metadata struct {
				Name   string
				Labels map[string]string
			}
			Status struct {
				Decisions []struct{ ClusterName string }
			}
		}
	}
	query := url.Values{"labelSelector": {v1alpha1.PlacementLabel + "=" + placement}, "resourceVersion": {version}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.pages+"?"+query.Encode(), nil)
	if err != nil {
		return "", nil, err
	}
	response, err := o.http.Do(request)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return "", nil, fmt.Errorf("the hub answers %s", response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&raw); err != nil {
		return "", nil, err
	}
	for _, item := range raw.Items {
		p := page{Name: item.Metadata.Name, Labels: item.Metadata.Labels}
		for _, d := range item.Status.Decisions {
			p.Clusters = append(p.Clusters, d.ClusterName)
		}
		pages = append(pages, p)
	}
	return raw.Metadata.ResourceVersion, pages, nil
}

// poll reads one Placement's pages after the other's; half of the time from the API server's cache, as informers
// begin, the others as they are in the store, for which the API server takes its time.
func (o *observer) poll(ctx context.Context, first int) {
	for i := first; ctx.Err() == nil; i++ {
		placement, version := o.Placements[i%len(o.Placements)], ""
		if i/len(o.Placements)%2 == 0 {
			version = "0"
		}
		at, pages, err := o.list(ctx, placement, version)
		if err != nil {
			o.failed(ctx)
			continue
		}
		o.mu.Lock()
		o.Polls++
		o.judge(placement, at, pages)
		o.mu.Unlock()
	}
}

// follow takes in every single write through a watch.
func (o *observer) follow(ctx context.Context, placement string) {
	for ctx.Err() == nil {
		at, listed, err := o.list(ctx, placement, "")
		if err != nil {
			o.failed(ctx)
			continue
		}
		pages := map[string]page{}
		for _, p := range listed {
			pages[p.Name] = p
		}
		watch, err := o.hub.Watch(ctx, &v1alpha1.PlacementDecisionList{}, o.selecting(placement, at))
		if err != nil {
			o.failed(ctx)
			continue
		}
		for event := range watch.ResultChan() {
			object, ok := event.Object.(*v1alpha1.PlacementDecision)
			if !ok {
				break
			}
			delete(pages, object.Name)
			if event.Type != "DELETED" {
				pages[object.Name] = pageOf(object)
			}
			o.mu.Lock()
			o.States++
			o.judge(placement, object.ResourceVersion, slices.Collect(maps.Values(pages)))
			o.mu.Unlock()
		}
		watch.Stop()
	}
}

func (o *observer) failed(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ctx.Err() == nil {
		o.Errors++
	}
}

// judge holds one answer to the promises. The caller holds the lock.
func (o *observer) judge(placement, version string, pages []page) {
	at, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		o.Errors++
		return
	}
	broken := func(format string, args ...any) {
		o.Violations++
		if len(o.Examples) < 10 {
			o.Examples = append(o.Examples, fmt.Sprintf("%s at %d: ", placement, at)+fmt.Sprintf(format, args...))
		}
	}
	listed, groups := map[string]bool{}, map[string]bool{}
	for _, page := range pages {
		if n := len(page.Clusters); n == 0 || n > v1alpha1.MaxDecisionsPerPage {
			broken("%s lists %d clusters", page.Name, n)
		}
		if _, ok := page.Labels[v1alpha1.DecisionGroupNameLabel]; !ok {
			broken("%s has no group name", page.Name)
		}
		groups[page.Labels[v1alpha1.DecisionGroupIndexLabel]] = true
		for _, cluster := range page.Clusters {
			listed[cluster] = true
		}
	}
	for i := range len(groups) {
		if !groups[strconv.Itoa(i)] {
			broken("of %d groups none has the index %d", len(groups), i)
		}
	}
	since := o.since[placement]
	for _, cluster := range o.Core {
		seen, ever := since[cluster]
		switch {
		case listed[cluster] && (!ever || at < seen):
			since[cluster] = at
		case !listed[cluster] && ever && at >= seen:
			broken("%s is missing", cluster)
		}
	}
	o.Pages, o.Groups = max(o.Pages, len(pages)), max(o.Groups, len(groups))
}

// observation is an observer at work, seen from the test.
type observation struct {
	command *exec.Cmd
	orders  io.Closer
	ended   chan struct{}

	mu     sync.Mutex
	latest report
}

// startObserver runs this very binary as the observer.
func startObserver(what orders) *observation {
	GinkgoHelper()
	what.Kubeconfig = direct
	text, err := json.Marshal(what)
	Expect(err).NotTo(HaveOccurred())
	self, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	o := &observation{command: exec.Command(self), ended: make(chan struct{})}
	o.command.Env = append(os.Environ(), observerVariable+"="+string(text))
	o.command.Stderr = GinkgoWriter
	o.orders, err = o.command.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	out, err := o.command.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(o.command.Start()).To(Succeed())
	go func() {
		defer close(o.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var r report
			if json.Unmarshal(lines.Bytes(), &r) == nil {
				o.mu.Lock()
				o.latest = r
				o.mu.Unlock()
			}
		}
	}()
	DeferCleanup(func() { _ = o.orders.Close() })
	return o
}

func (o *observation) soFar() report {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.latest
}

// stop ends the observer and returns its last report.
func (o *observation) stop() report {
	GinkgoHelper()
	Expect(o.orders.Close()).To(Succeed())
	Eventually(o.ended).Should(BeClosed())
	Expect(o.command.Wait()).To(Succeed())
	return o.soFar()
}
