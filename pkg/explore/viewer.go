package explore

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/simulator"
)

// Viewer is one user who looks at a hub.
type Viewer struct {
	// Live is the world now, as the viewer may see it; nil with a recording only.
	Live *LiveWorld
	// Client has the viewer's permissions; nil with a recording only. It must know the kinds of
	// events.k8s.io/v1.
	Client client.Client
	// User is the viewer's name; empty if the hub has to be asked.
	User string
	// Hub is the address of the hub and Context that of the kubeconfig; both may be empty.
	Hub, Context string
	// CSRF is what a POST request must repeat.
	CSRF string

	options simulator.Options
	// asked is the name that the hub answered.
	asked struct {
		sync.Mutex
		name string
	}
	// slots bounds the comparisons of whole fleets.
	slots       chan struct{}
	past        *past
	whatIfs     whatIfs
	survey      survey
	permissions permissions
	namespaces  namespaceWorlds
	// streams is how many pages of the viewer follow the hub.
	streams atomic.Int32
}

// userTimeout is how long the page waits for the name of the viewer.
const userTimeout = 2 * time.Second

// userName returns the viewer's name as the hub knows it; empty if the hub does not say.
func (v *Viewer) userName(ctx context.Context) string {
	if v.User != "" || v.Client == nil {
		return v.User
	}
	v.asked.Lock()
	defer v.asked.Unlock()
	if v.asked.name == "" {
		ctx, cancel := context.WithTimeout(ctx, userTimeout)
		defer cancel()
		review := &authenticationv1.SelfSubjectReview{}
		if v.Client.Create(ctx, review) == nil {
			v.asked.name = review.Status.UserInfo.Username
		}
	}
	return v.asked.name
}

// maxStreams is how many pages of one viewer may follow the hub at a time.
const maxStreams = 8

// errStreams is the error for one more.
var errStreams = fmt.Errorf("%d pages of this user follow the hub already: close one of them", maxStreams)

// openStream counts a stream, until end is called.
func (v *Viewer) openStream() (end func(), err error) {
	if v.streams.Add(1) > maxStreams {
		v.streams.Add(-1)
		return nil, errStreams
	}
	return func() { v.streams.Add(-1) }, nil
}

// close ends the computations of a viewer who is gone.
func (v *Viewer) close() {
	v.whatIfs.close()
	v.survey.close()
	v.Live.stop()
}

// NewViewer returns a Viewer. dir is the folder of a recording; empty for none.
func NewViewer(o simulator.Options, live *LiveWorld, c client.Client, dir string) *Viewer {
	v := &Viewer{Live: live, Client: c, CSRF: rand.Text(), options: o, slots: make(chan struct{}, maxComparisons)}
	v.whatIfs.running = make(chan struct{}, 1)
	if dir != "" {
		v.past = &past{dir: dir, plugins: o.Plugins}
	}
	return v
}

// NewFollowingViewer returns a Viewer for whom a hub is followed until ctx ends.
// dir is the folder of a recording; empty for none.
func NewFollowingViewer(ctx context.Context, o simulator.Options, f Follower, dir string) (*Viewer, error) {
	return newFollowingViewer(ctx, o, f, dir, func() {})
}

// newFollowingViewer calls ended when the hub does not accept the credentials any more.
func newFollowingViewer(ctx context.Context, o simulator.Options, f Follower, dir string, ended func()) (*Viewer, error) {
	c, err := NewClient(f.Config)
	if err != nil {
		return nil, err
	}
	live, err := NewLiveWorld(o)
	if err != nil {
		return nil, err
	}
	v := NewViewer(o, live, c, dir)
	v.Hub, v.Context = f.Config.Host, f.Context
	context.AfterFunc(ctx, v.close)
	v.namespaces.ctx = ctx
	v.namespaces.follow = func(ctx context.Context, l *LiveWorld, namespace string) {
		follower := Follower{Config: f.Config, Namespace: namespace, Queues: f.Queues, final: f.final}
		if err := follower.Follow(ctx, l); apierrors.IsUnauthorized(err) {
			ended()
		}
	}
	go v.namespaces.follow(ctx, live, f.Namespace)
	return v, nil
}

// worldOf returns a world by its name. namespace is the one to show if the viewer may not list all
// namespaces.
func (v *Viewer) worldOf(ctx context.Context, name, namespace string) (anyWorld, error) {
	switch {
	case name == "" && v.Live != nil:
		return v.namespaces.find(v.Live, namespace, v.options)
	case name == "":
		return nil, fmt.Errorf("the hub: %w: only a recording is shown", errUnknown)
	case strings.HasPrefix(name, worldAt):
		if v.past == nil {
			return nil, fmt.Errorf("the world %q: %w: berth explore was started without --recording", name, errUnknown)
		}
		return v.past.state(ctx, name)
	}
	w, err := v.whatIfs.find(name)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fixed == nil {
		return nil, fmt.Errorf("the what-if %q: %w: it is not done, or failed", name, errUnknown)
	}
	return w.fixed, nil
}

// maxEvents is how many events the details of a Placement have.
const maxEvents = 30

// addEvents adds the newest events regarding a Placement.
func (v *Viewer) addEvents(ctx context.Context, d *PlacementDetails) {
	if v.Client == nil {
		return
	}
	key := keyOf(d.Placement)
	var list eventsv1.EventList
	err := v.Client.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingFieldsSelector{Selector: fields.SelectorFromSet(fields.Set{
		"regarding.kind": "Placement", "regarding.name": key.Name,
	})})
	switch {
	case apierrors.IsForbidden(err):
		d.EventsNote = fmt.Sprintf("You need: list events.events.k8s.io in namespace %s", key.Namespace)
	case err != nil:
		d.EventsNote = "reading the events: " + err.Error()
	}
	d.Events = newestEvents(list.Items, maxEvents)
}

func newestEvents(items []eventsv1.Event, limit int) []Event {
	events := make([]Event, 0, len(items))
	for i := range items {
		e := &items[i]
		shown := Event{Time: e.EventTime.Time, Type: e.Type, Reason: e.Reason, Note: e.Note, Count: 1}
		if e.Series != nil {
			shown.Time, shown.Count = e.Series.LastObservedTime.Time, e.Series.Count
		}
		if shown.Time.IsZero() {
			shown.Time = e.CreationTimestamp.Time
		}
		events = append(events, shown)
	}
	slices.SortStableFunc(events, func(a, b Event) int { return b.Time.Compare(a.Time) })
	return events[:min(len(events), limit)]
}

// isLive is true for the current state of a hub.
func isLive(shown anyWorld) bool {
	_, live := shown.(*LiveWorld)
	return live
}

// placement returns the details of a Placement in a world.
func (v *Viewer) placement(ctx context.Context, shown anyWorld, name string) (*PlacementDetails, error) {
	var offers []actions.Request
	d, err := ask1(ctx, shown, question{key: keyOf(name)}, func(w *world, a answer) (*PlacementDetails, error) {
		if subject := w.inventory.Subject(keyOf(name)); subject != nil {
			offers = w.placementOffers(subject)
		}
		return w.placement(name, a)
	})
	if err != nil {
		return nil, err
	}
	if isLive(shown) {
		v.addEvents(ctx, d)
		d.Actions = v.actionsFor(ctx, offers)
	}
	return d, nil
}

// cluster returns the details of a cluster in a world.
func (v *Viewer) cluster(ctx context.Context, shown anyWorld, name string) (d *ClusterDetails, err error) {
	var offers []actions.Request
	err = shown.use(func(w *world, _ int64) error {
		d, err = w.cluster(name)
		offers = w.clusterOffers(name)
		return err
	})
	if err == nil && isLive(shown) {
		d.Actions = v.actionsFor(ctx, offers)
	}
	return d, err
}

// cell returns one cell of a world.
func (v *Viewer) cell(ctx context.Context, shown anyWorld, placement, cluster string) (*Cell, error) {
	c, err := ask1(ctx, shown, question{keyOf(placement), cluster}, func(w *world, a answer) (*Cell, error) { return w.cell(placement, cluster, a) })
	if err == nil && isLive(shown) && c.Published {
		c.Actions = v.actionsFor(ctx, []actions.Request{{Verb: actions.Evict, Placement: keyOf(placement), Cluster: cluster}})
	}
	return c, err
}
