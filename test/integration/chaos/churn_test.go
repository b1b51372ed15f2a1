package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// recordedChurn changes what is selected, at random.
type recordedChurn struct {
	random *rand.Rand
	down   map[string]bool
	edits  int
}

// edit makes one change: of a Placement's spec, of a cluster, or by an eviction.
func (c *recordedChurn) edit(ctx context.Context) {
	GinkgoHelper()
	c.edits++
	placement := []string{inSteps, asked, plain}[c.random.IntN(3)]
	switch c.random.IntN(4) {
	case 0:
		c.evict(ctx, placement)
	case 1:
		setWave(ctx, placement, []string{"a", "b"}[c.random.IntN(2)], desiredInSteps)
	default:
		c.toggle(ctx)
	}
}

// toggle takes a cluster down, or the one that is down longest up again.
func (c *recordedChurn) toggle(ctx context.Context) {
	GinkgoHelper()
	name, state := fmt.Sprintf("%s-%02d", recorded, c.random.IntN(2*waveSize)), "down"
	inWave := 0
	for other := range c.down {
		if (other[len(other)-1]-name[len(name)-1])%2 == 0 {
			inWave++
		}
	}
	switch {
	case c.down[name]:
		state = "up"
	case inWave == maxDown:
		return
	}
	Expect(faults.SetLabel(ctx, hub, name, "state", state)).To(Succeed())
	if state == "up" {
		delete(c.down, name)
	} else {
		c.down[name] = true
	}
}

// evict removes a published cluster from a Placement for a few seconds.
func (c *recordedChurn) evict(ctx context.Context, placement string) {
	GinkgoHelper()
	names, err := answer(ctx, recorded, placement)
	Expect(err).NotTo(HaveOccurred())
	if len(names) == 0 {
		return
	}
	eviction := fixture.Eviction(recorded, fmt.Sprintf("%s-%d", placement, c.edits), placement, names[c.random.IntN(len(names))]).Obj()
	eviction.CreationTimestamp, eviction.UID = metav1.Time{}, ""
	eviction.Spec.ExcludeForSeconds = int64(1 + c.random.IntN(3))
	Expect(hub.Create(ctx, eviction)).To(Succeed())
}

func setWave(ctx context.Context, placement, of string, number int32) {
	GinkgoHelper()
	pl := wave(placement, of, number)
	testhub.Edit(ctx, hub, pl.DeepCopy(), func(stored *v1alpha1.Placement) { stored.Spec = pl.Spec })
}

// approvals approves or rejects held changes at random.
type approvals struct {
	all                atomic.Bool
	stop, ended        chan struct{}
	approved, rejected int
}

func startApprovals(ctx context.Context) *approvals {
	a := &approvals{stop: make(chan struct{}), ended: make(chan struct{})}
	random := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), 22))
	go func() {
		defer GinkgoRecover()
		defer close(a.ended)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-a.stop:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			history, err := testhub.Records(ctx, hub, client.InNamespace(recorded))
			Expect(err).NotTo(HaveOccurred())
			for _, record := range history {
				if record.Status.Phase == berthv1alpha1.PhaseHeld && record.Spec.Approval == nil {
					// The first change is approved, so that something is published, and the
					// next one is rejected.
					a.answer(ctx, record, a.all.Load() || a.approved == 0 || a.rejected > 0 && random.IntN(5) < 3)
				}
			}
		}
	}()
	return a
}

func (a *approvals) answer(ctx context.Context, record *berthv1alpha1.PlacementChange, approve bool) {
	GinkgoHelper()
	decision := berthv1alpha1.Rejected
	if approve {
		decision = berthv1alpha1.Approved
	}
	patch := fmt.Sprintf(`{"spec": {"approval": {"decision": %q, "by": "ann"}}}`, decision)
	switch err := hub.Patch(ctx, record.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(patch))); {
	case apierrors.IsInvalid(err) || apierrors.IsNotFound(err):
		// It is not held any more.
	case err != nil:
		Expect(err).NotTo(HaveOccurred())
	case approve:
		a.approved++
	default:
		a.rejected++
	}
}
