package member

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/pkg/caches"
)

// startPace spreads the first reports of many members.
const startPace = 5 * time.Millisecond

// Fleet reports the members that the Secrets of a namespace describe, until they are deleted.
type Fleet struct {
	// Hub is of NewHubClient, Secrets reads Secrets on the hub.
	Hub       client.Client
	Secrets   kubernetes.Interface
	Namespace string
	Interval  time.Duration
	// FailureThreshold is how many failures in a row change a member's Available condition.
	FailureThreshold int
	// Say receives lines about members and Secrets. It must be safe for concurrent use.
	Say func(line string)

	// described are the Secrets by name, as they were read last. running are the reporters by the
	// name of their ManagedCluster.
	described map[string]*description
	running   map[string]*runningReporter
	counts    string
}

// description is what one Secret describes. If the Secret is invalid, err says why, and member and
// config are of the last valid version, if there was one.
type description struct {
	uid     types.UID
	version string
	created time.Time
	member  string
	config  *rest.Config
	err     error
	// said is the problem of the Secret that was passed on.
	said problems
}

type runningReporter struct {
	*Reporter
	config *rest.Config
	stop   func()
}

// Run follows the Secrets until ctx ends.
func (f *Fleet) Run(ctx context.Context) error {
	// The informers repeat a failed list forever and only log it.
	if _, err := f.Secrets.CoreV1().Secrets(f.Namespace).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("listing the Secrets of namespace %s: %w", f.Namespace, err)
	}
	f.described, f.running = map[string]*description{}, map[string]*runningReporter{}
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	var stores []cache.Store
	for _, selector := range []string{MemberLabel, argoCDLabel + "=" + argoCDCluster} {
		store, err := f.watch(ctx, selector, notify)
		if err != nil {
			return err
		}
		stores = append(stores, store)
	}
	defer f.stopAll()
	notify()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			f.sync(ctx, secretsIn(stores))
		}
	}
}

// watch returns a store of the Secrets that the selector selects, with their initial list.
func (f *Fleet) watch(ctx context.Context, selector string, notify func()) (cache.Store, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(f.Secrets, 0, informers.WithNamespace(f.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector }))
	informer := factory.Core().V1().Secrets().Informer()
	if err := informer.SetTransform(caches.Transform(caches.Reporter)); err != nil {
		return nil, fmt.Errorf("watching Secrets: %w", err)
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { notify() }, UpdateFunc: func(_, _ any) { notify() }, DeleteFunc: func(any) { notify() },
	})
	if err != nil {
		return nil, fmt.Errorf("watching Secrets: %w", err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, errors.New("the Secrets could not be listed in time")
	}
	return informer.GetStore(), nil
}

// secretsIn returns the Secrets of all stores, each once, by name.
func secretsIn(stores []cache.Store) map[string]*corev1.Secret {
	secrets := map[string]*corev1.Secret{}
	for _, store := range stores {
		for _, o := range store.List() {
			if s, ok := o.(*corev1.Secret); ok {
				secrets[s.Name] = s
			}
		}
	}
	return secrets
}

// sync starts, changes and stops reporters, so that they are those that the Secrets describe.
func (f *Fleet) sync(ctx context.Context, secrets map[string]*corev1.Secret) {
	for name := range f.described {
		if secrets[name] == nil {
			delete(f.described, name)
		}
	}
	for name, s := range secrets {
		f.describe(name, s)
	}
	wanted := f.descriptionsByMember()
	for member, r := range f.running {
		if wanted[member] == nil {
			r.stop()
			delete(f.running, member)
			f.Say(fmt.Sprintf("ManagedCluster %s: is no longer reported, because no Secret describes it", member))
		}
	}
	for member, d := range wanted {
		f.run(ctx, member, d, len(wanted))
	}
	invalid := 0
	for _, d := range f.described {
		if d.err != nil {
			invalid++
		}
	}
	if counts := fmt.Sprintf("Namespace %s: members: %d, invalid Secrets: %d", f.Namespace, len(wanted), invalid); counts != f.counts {
		f.counts = counts
		f.Say(counts)
	}
}

// describe reads a Secret if it changed.
func (f *Fleet) describe(name string, s *corev1.Secret) {
	d := f.described[name]
	if d == nil || d.uid != s.UID {
		d = &description{uid: s.UID, created: s.CreationTimestamp.Time, said: problems{say: f.Say}}
		f.described[name] = d
	}
	if d.version == s.ResourceVersion {
		return
	}
	d.version = s.ResourceVersion
	member, config, err := readSecret(s)
	d.err = err
	if err == nil {
		d.member, d.config = member, config
	}
	problem := ""
	if err != nil {
		problem = err.Error()
		if d.config != nil {
			problem += "; its last valid version stays in use"
		}
	}
	d.said.report("invalid", problem)
}

// descriptionsByMember returns the description of each member. Of two Secrets for one member the
// older one is used.
func (f *Fleet) descriptionsByMember() map[string]*description {
	names := slices.SortedFunc(maps.Keys(f.described), func(a, b string) int {
		if order := f.described[a].created.Compare(f.described[b].created); order != 0 {
			return order
		}
		return strings.Compare(a, b)
	})
	wanted, from := map[string]*description{}, map[string]string{}
	for _, name := range names {
		d := f.described[name]
		if d.config == nil {
			continue
		}
		problem := ""
		if wanted[d.member] == nil {
			wanted[d.member], from[d.member] = d, name
		} else {
			problem = fmt.Sprintf("Secret %s/%s: is not used, because Secret %s already describes ManagedCluster %s", f.Namespace, name, from[d.member], d.member)
		}
		d.said.report("second", problem)
	}
	return wanted
}

// run starts the reporter of a member, or gives it the new connection.
func (f *Fleet) run(ctx context.Context, member string, d *description, members int) {
	say := func(line string) { f.Say("ManagedCluster " + member + ": " + line) }
	if r := f.running[member]; r != nil {
		if r.config != d.config {
			r.config = d.config
			if err := r.SetMember(d.config); err != nil {
				say(err.Error())
			}
		}
		return
	}
	reporter, err := NewReporter(member, f.Hub, d.config, f.FailureThreshold)
	if err != nil {
		say(err.Error())
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		select {
		case <-time.After(time.Duration(rand.Int64N(int64(min(f.Interval, time.Duration(members)*startPace))))):
		case <-ctx.Done():
			return
		}
		if err := reporter.Run(ctx, f.Interval, false, say); err != nil {
			say(err.Error())
		}
	})
	f.running[member] = &runningReporter{Reporter: reporter, config: d.config, stop: func() { cancel(); done.Wait() }}
}

func (f *Fleet) stopAll() {
	for _, r := range f.running {
		r.stop()
	}
}
