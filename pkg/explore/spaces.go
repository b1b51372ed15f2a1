package explore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/pkg/simulator"
)

// maxSpaces is how many namespaces are watched for one viewer who may not list all of them.
const maxSpaces = 3

// spaces are further Hubs of a viewer who may not list all namespaces: each has one namespace.
type spaces struct {
	// follow keeps a Hub up to date until its context ends; nil if there are no further Hubs. ctx
	// ends with the viewer.
	follow func(ctx context.Context, h *Hub, namespace string)
	ctx    context.Context

	mu   sync.Mutex
	hubs []*space
}

type space struct {
	namespace string
	hub       *Hub
	stop      context.CancelFunc
	used      time.Time
}

// hub returns the Hub of a namespace: main, if that has it.
func (all *spaces) hub(main *Hub, namespace string, o simulator.Options) (*Hub, error) {
	if main == nil || namespace == "" {
		return main, nil
	}
	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return nil, fmt.Errorf("ns: %w: %q is no namespace: %s", errInvalid, namespace, problems[0])
	}
	if shown, known := main.space(); all.follow == nil || !known || shown == "" || shown == namespace {
		return main, nil
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if i := slices.IndexFunc(all.hubs, func(s *space) bool { return s.namespace == namespace }); i >= 0 {
		all.hubs[i].used = time.Now()
		return all.hubs[i].hub, nil
	}
	h, err := NewHub(o)
	if err != nil {
		return nil, err
	}
	if len(all.hubs) >= maxSpaces {
		all.evict()
	}
	ctx, stop := context.WithCancel(all.ctx)
	context.AfterFunc(ctx, h.stop)
	all.hubs = append(all.hubs, &space{namespace, h, stop, time.Now()})
	go all.follow(ctx, h, namespace)
	return h, nil
}

// evict ends one Hub and its streams: that which was used least recently, but rather one that no
// page follows.
func (all *spaces) evict() {
	last := slices.MinFunc(all.hubs, func(a, b *space) int {
		return cmp.Or(cmp.Compare(min(a.hub.streams.Load(), 1), min(b.hub.streams.Load(), 1)), a.used.Compare(b.used))
	})
	last.stop()
	close(last.hub.gone)
	all.hubs = slices.DeleteFunc(all.hubs, func(s *space) bool { return s == last })
}

// space returns the only namespace whose objects are listed, empty for all. known is false until
// the hub has said what the viewer may list.
func (h *Hub) space() (namespace string, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.scope.namespace, h.scope.known
}
