package member

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/test/fixture"
)

// TestLeaseIsKept: between two reports the lease is renewed once in each period of the cluster, and
// not after the cluster is gone.
func TestLeaseIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub := &countingHub{Client: memoryHub(t, new(atomic.Pointer[error]), []string{"a"})}
		ctx, cancel := context.WithCancel(t.Context())
		l := newLease(hub, "a")
		var done sync.WaitGroup
		done.Go(func() { l.keep(ctx) })
		c := fixture.Cluster("a").Obj()
		c.Spec.LeaseDurationSeconds = 10
		pass := func(d time.Duration) int64 {
			before := hub.patches.Load()
			time.Sleep(d)
			synctest.Wait()
			return hub.patches.Load() - before
		}
		if got := pass(time.Hour); got != 0 {
			t.Errorf("%d renewals before the cluster is known", got)
		}
		if err := l.renew(ctx, c); err != nil {
			t.Fatal(err)
		}
		if got := pass(100 * time.Second); got < 10 || got > 12 {
			t.Errorf("%d renewals in 10 periods", got)
		}
		c.Spec.LeaseDurationSeconds = 0
		if err := l.renew(ctx, c); err != nil {
			t.Fatal(err)
		}
		if got := pass(10 * time.Minute); got < 10 || got > 12 {
			t.Errorf("%d renewals in 10 periods of the default", got)
		}
		l.forget()
		if got := pass(time.Hour); got != 0 {
			t.Errorf("%d renewals after the cluster is gone", got)
		}
		cancel()
		done.Wait()
	})
}

// countingHub counts renewals.
type countingHub struct {
	client.Client
	patches atomic.Int64
}

func (h *countingHub) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	h.patches.Add(1)
	return h.Client.Patch(ctx, o, patch, options...)
}
