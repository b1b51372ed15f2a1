package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// observerVariable holds the orders, as JSON, of a test binary that is to be the observer.
const observerVariable = "BERTH_TEST_OBSERVER"

// Watched is a Placement that the observer follows.
type Watched struct {
	Namespace, Name string
	// Core are the clusters that belong to every answer.
	Core []string
}

// Orders say what the observer reads.
type Orders struct {
	Kubeconfig string
	Placements []Watched
	// Pollers is how many polls run at once.
	Pollers int
	// Intruder says that others write pages, too. Core clusters that are missing are then told as Gaps only, for the test to say
	// whose work it was, and pages need not be what the controller would write.
	Intruder bool
}

// Seen is what the observer has read and found, so far.
type Seen struct {
	// Polls are the lists read; States and Statuses are the pages' and the Placements' that watches went through, one write after
	// the other; Events are those about the Placements, counted at the end.
	Polls, States, Statuses, Events int
	// Pages and Groups are the most that one answer had.
	Pages, Groups int
	// Violations counts the promises broken, ByLaw the same by the architecture's laws; Examples are the first of them.
	Violations int
	ByLaw      map[int]int
	Examples   []string
	// Gaps are the writes that took a core cluster away.
	Gaps []Gap
	// Errors are readings that failed.
	Errors int
}

// Gap is a write of a page after which a core cluster was missing that had been there before.
type Gap struct {
	Placement, Page string
	// Version is the hub's. A deletion has the one of the page as it was deleted.
	Version uint64
	Deleted bool
	Missing int
}

// MadeBy says whether a controller made the gap.
func (g Gap) MadeBy(m Made) bool {
	return m.Versions[g.Version] && !g.Deleted || g.Deleted && m.Deleted[g.Page] > 0
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

// ObserveIfAsked makes this process the observer when StartObserver has started it, and does not return then. TestMain calls it.
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

// observe reads until its standard input ends, and prints a report four times a second and at the end.
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
	var readers sync.WaitGroup
	for i := range o.Pollers {
		readers.Go(func() { o.poll(ctx, i) })
	}
	for _, w := range o.Placements {
		o.answers[w.key()] = &answerLog{since: map[string]uint64{}}
		readers.Go(func() { o.followPages(ctx, w) })
		readers.Go(func() { o.followStatus(ctx, w) })
	}
	readers.Go(func() {
		for tick := time.Tick(250 * time.Millisecond); ctx.Err() == nil; <-tick {
			o.print()
		}
	})
	_, err = io.Copy(io.Discard, os.Stdin)
	// What was written last is on its way through the watches.
	caughtUp, done := context.WithTimeout(ctx, 10*time.Second)
	o.catchUp(caughtUp)
	done()
	cancel()
	readers.Wait()
	o.judgeLogs(context.Background())
	o.print()
	return err
}

func (w Watched) key() string { return w.Namespace + "/" + w.Name }

// catchUp waits until the watches have shown what is there now.
func (o *observer) catchUp(ctx context.Context) {
	for _, w := range o.Placements {
		_, pages, err := o.list(ctx, w, "")
		if err != nil {
			o.failed(ctx)
			continue
		}
		for tick := time.Tick(20 * time.Millisecond); ctx.Err() == nil && !o.hasSeen(w, pages); <-tick {
		}
	}
}

func (o *observer) hasSeen(w Watched, pages []Page) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	states := o.answers[w.key()].states
	return len(pages) == 0 || len(states) > 0 && len(states[len(states)-1].pages) == len(pages)
}

func (o *observer) print() {
	o.mu.Lock()
	defer o.mu.Unlock()
	// The reader of standard output is the only one there is to tell.
	_ = json.NewEncoder(os.Stdout).Encode(o.Seen)
}

// list reads what the promises are about and no more: decoding all of it takes most of the time of a poll.
func (o *observer) list(ctx context.Context, w Watched, version string) (at string, pages []Page, err error) {
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
	query := url.Values{"labelSelector": {v1alpha1.PlacementLabel + "=" + w.Name}, "resourceVersion": {version}}
	address := o.host + "/apis/" + v1alpha1.GroupVersionV1Beta1.String() + "/namespaces/" + w.Namespace + "/placementdecisions?" + query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
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
		p := Page{Name: item.Metadata.Name, Labels: item.Metadata.Labels}
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
		w, version := o.Placements[i%len(o.Placements)], ""
		if i/len(o.Placements)%2 == 0 {
			version = "0"
		}
		at, pages, err := o.list(ctx, w, version)
		if err != nil {
			o.failed(ctx)
			continue
		}
		o.mu.Lock()
		o.Polls++
		o.judge(w, at, pages)
		o.mu.Unlock()
	}
}

// followPages takes in every single write through a watch.
func (o *observer) followPages(ctx context.Context, w Watched) {
	selecting := client.MatchingLabels{v1alpha1.PlacementLabel: w.Name}
	for ctx.Err() == nil {
		at, listed, err := o.list(ctx, w, "")
		if err != nil {
			o.failed(ctx)
			continue
		}
		pages := map[string]Page{}
		for _, p := range listed {
			pages[p.Name] = p
		}
		o.state(w, at, pages, true)
		watch, err := o.hub.Watch(ctx, &v1alpha1.PlacementDecisionList{}, client.InNamespace(w.Namespace), selecting, from(at))
		if err != nil {
			o.failed(ctx)
			continue
		}
		for event := range watch.ResultChan() {
			object, ok := event.Object.(*v1alpha1.PlacementDecision)
			if !ok {
				break
			}
			last := slices.Collect(maps.Values(pages))
			delete(pages, object.Name)
			gone := event.Type == "DELETED"
			if !gone {
				pages[object.Name] = pageOf(object)
			}
			o.state(w, object.ResourceVersion, pages, false)
			now := slices.Collect(maps.Values(pages))
			o.mu.Lock()
			o.States++
			o.gap(w, object, gone, last, now)
			o.judge(w, object.ResourceVersion, now)
			o.mu.Unlock()
		}
		watch.Stop()
	}
}

// followStatus takes in every status of a Placement.
func (o *observer) followStatus(ctx context.Context, w Watched) {
	selecting := client.MatchingFields{"metadata.name": w.Name}
	for ctx.Err() == nil {
		list := &v1alpha1.PlacementList{}
		if err := o.hub.List(ctx, list, client.InNamespace(w.Namespace), selecting); err != nil {
			o.failed(ctx)
			continue
		}
		o.mu.Lock()
		for i := range list.Items {
			o.answers[w.key()].status(&list.Items[i], true)
		}
		o.mu.Unlock()
		watch, err := o.hub.Watch(ctx, &v1alpha1.PlacementList{}, client.InNamespace(w.Namespace), selecting, from(list.ResourceVersion))
		if err != nil {
			o.failed(ctx)
			continue
		}
		for event := range watch.ResultChan() {
			pl, ok := event.Object.(*v1alpha1.Placement)
			if !ok {
				break
			}
			o.mu.Lock()
			o.Statuses++
			o.answers[w.key()].status(pl, false)
			o.mu.Unlock()
		}
		watch.Stop()
	}
}

func from(version string) *client.ListOptions {
	return &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}}
}

func (o *observer) failed(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ctx.Err() == nil {
		o.Errors++
	}
}

// broken notes that a promise was broken. The caller holds the lock.
func (o *observer) broken(law int, format string, args ...any) {
	o.Violations++
	o.ByLaw[law]++
	if len(o.Examples) < 10 {
		o.Examples = append(o.Examples, fmt.Sprintf("law %d: ", law)+fmt.Sprintf(format, args...))
	}
}

// gap notes a write that took core clusters away. The caller holds the lock.
func (o *observer) gap(w Watched, object *v1alpha1.PlacementDecision, gone bool, last, now []Page) {
	before, after := clustersOf(last), clustersOf(now)
	missing := 0
	for _, cluster := range w.Core {
		if before[cluster] && !after[cluster] {
			missing++
		}
	}
	if missing > 0 && len(o.Gaps) < 1000 {
		version, _ := strconv.ParseUint(object.ResourceVersion, 10, 64) // 0, which nobody made, if it is none
		o.Gaps = append(o.Gaps, Gap{Placement: w.Name, Page: object.Name, Version: version, Deleted: gone, Missing: missing})
	}
}

// judge holds one answer to the promises. The caller holds the lock.
func (o *observer) judge(w Watched, version string, pages []Page) {
	at, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		o.Errors++
		return
	}
	groups := map[string]bool{}
	for _, page := range pages {
		groups[page.Labels[v1alpha1.DecisionGroupIndexLabel]] = true
		if o.Intruder {
			continue
		}
		switch n := len(page.Clusters); {
		case n == 0:
			o.broken(1, "%s at %d: %s lists no cluster", w.key(), at, page.Name)
		case n > v1alpha1.MaxDecisionsPerPage:
			o.broken(2, "%s at %d: %s lists %d clusters", w.key(), at, page.Name, n)
		}
		if _, ok := page.Labels[v1alpha1.DecisionGroupNameLabel]; !ok {
			o.broken(2, "%s at %d: %s has no group name", w.key(), at, page.Name)
		}
	}
	for i := range len(groups) {
		if !groups[strconv.Itoa(i)] && !o.Intruder {
			o.broken(2, "%s at %d: of %d groups none has the index %d", w.key(), at, len(groups), i)
		}
	}
	if missing := o.missing(w, at, clustersOf(pages)); len(missing) > 0 && !o.Intruder {
		law := 2
		switch {
		case len(missing) == len(w.Core):
			law = 1 // all of the answer is gone
		case len(missing) > len(w.Core)/4:
			law = 7 // so much at once is what a controller does that does not know the fleet yet
		}
		o.broken(law, "%s at %d: missing: %s", w.key(), at, strings.Join(missing[:min(len(missing), 5)], " "))
	}
	o.Pages, o.Groups = max(o.Pages, len(pages)), max(o.Groups, len(groups))
}

// missing are the core clusters that an answer lacks and had before.
func (o *observer) missing(w Watched, at uint64, listed map[string]bool) (names []string) {
	since := o.answers[w.key()].since
	for _, cluster := range w.Core {
		seen, ever := since[cluster]
		switch {
		case listed[cluster] && (!ever || at < seen):
			since[cluster] = at
		case !listed[cluster] && ever && at >= seen:
			names = append(names, cluster)
		}
	}
	return names
}

func clustersOf(pages []Page) map[string]bool {
	listed := map[string]bool{}
	for _, p := range pages {
		for _, cluster := range p.Clusters {
			listed[cluster] = true
		}
	}
	return listed
}

// judgeLogs holds to the promises what only the end shows: that each status spoke of what was published, and that each event
// tells of a write that happened, once.
func (o *observer) judgeLogs(ctx context.Context) {
	namespaces := map[string]bool{}
	for _, w := range o.Placements {
		namespaces[w.Namespace] = true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, log := range o.answers {
		if !o.Intruder {
			log.judgeStatuses(func(format string, args ...any) { o.broken(5, key+": "+format, args...) })
		}
	}
	for namespace := range namespaces {
		list := &eventsv1.EventList{}
		if err := o.hub.List(ctx, list, client.InNamespace(namespace)); err != nil {
			o.Errors++
			continue
		}
		told := map[string]int{}
		for i := range list.Items {
			e := &list.Items[i]
			log := o.answers[namespace+"/"+e.Regarding.Name]
			if log == nil || e.Related == nil {
				continue
			}
			o.Events++
			what := e.Reason + " " + e.Related.Name + " at " + e.Related.ResourceVersion
			if told[what]++; told[what] == 2 {
				o.broken(5, "%s/%s: told twice: %s", namespace, e.Regarding.Name, what)
			}
			if !log.happened(e.Related.ResourceVersion) {
				o.broken(5, "%s/%s: never happened: %s", namespace, e.Regarding.Name, what)
			}
		}
	}
}
