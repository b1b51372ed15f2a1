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

// maxNamespaces is how many namespaces are watched for one viewer who may not list all of them.
const maxNamespaces = 3

// namespaceWorlds are the further LiveWorlds of a viewer who may not list all namespaces.
type namespaceWorlds struct {
	// follow keeps a LiveWorld up to date until its context ends; nil without further ones. ctx
	// ends with the viewer.
	follow func(ctx context.Context, l *LiveWorld, namespace string)
	ctx    context.Context

	mu     sync.Mutex
	worlds []*namespaceWorld
}

type namespaceWorld struct {
	namespace string
	world     *LiveWorld
	stop      context.CancelFunc
	used      time.Time
}

// find returns the world of a namespace: main, if that has it.
func (all *namespaceWorlds) find(main *LiveWorld, namespace string, o simulator.Options) (*LiveWorld, error) {
	if main == nil || namespace == "" {
		return main, nil
	}
	if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
		return nil, fmt.Errorf("ns: %w: %q is no namespace: %s", errInvalid, namespace, problems[0])
	}
	if shown, known := main.namespace(); all.follow == nil || !known || shown == "" || shown == namespace {
		return main, nil
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if i := slices.IndexFunc(all.worlds, func(s *namespaceWorld) bool { return s.namespace == namespace }); i >= 0 {
		all.worlds[i].used = time.Now()
		return all.worlds[i].world, nil
	}
	l, err := NewLiveWorld(o)
	if err != nil {
		return nil, err
	}
	if len(all.worlds) >= maxNamespaces {
		all.evict()
	}
	ctx, stop := context.WithCancel(all.ctx)
	context.AfterFunc(ctx, l.stop)
	all.worlds = append(all.worlds, &namespaceWorld{namespace, l, stop, time.Now()})
	go all.follow(ctx, l, namespace)
	return l, nil
}

// evict ends one world and its streams: the one that was used least recently. One that no page
// follows comes first.
func (all *namespaceWorlds) evict() {
	last := slices.MinFunc(all.worlds, func(a, b *namespaceWorld) int {
		return cmp.Or(cmp.Compare(min(a.world.streams.Load(), 1), min(b.world.streams.Load(), 1)), a.used.Compare(b.used))
	})
	last.stop()
	close(last.world.gone)
	all.worlds = slices.DeleteFunc(all.worlds, func(s *namespaceWorld) bool { return s == last })
}

// namespace returns the only namespace whose objects are listed; empty for all. known is false
// until the hub has said what the viewer may list.
func (l *LiveWorld) namespace() (namespace string, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.scope.namespace, l.scope.known
}
