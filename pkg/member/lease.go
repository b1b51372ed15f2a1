package member

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycoordinationv1 "k8s.io/client-go/applyconfigurations/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// leaseJitter spreads the renewals of many members: a period is up to so much shorter.
const leaseJitter = 0.1

// lease renews the lease of one ManagedCluster, as Open Cluster Management's agent does. It is
// safe for concurrent use.
type lease struct {
	hub  client.Client
	name string
	// existing renews a lease only if it exists. Otherwise the lease is created.
	existing bool

	mu sync.Mutex
	// period is how often the lease is renewed; 0 while the hub has no such ManagedCluster.
	period time.Duration
	due    time.Time
	err    error
	// moved receives a value when due changes.
	moved chan struct{}
}

func newLease(hub client.Client, name string) *lease {
	return &lease{hub: hub, name: name, moved: make(chan struct{}, 1)}
}

// renew renews the lease of a cluster that was read, if that is due. It returns why the lease was
// not renewed last time.
func (l *lease) renew(ctx context.Context, cluster *v1alpha1.ManagedCluster) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	period := cluster.LeaseDuration()
	if period != l.period {
		l.period, l.due = period, time.Time{}
		select {
		case l.moved <- struct{}{}:
		default:
		}
	}
	l.renewIfDue(ctx)
	return l.err
}

// forget stops renewals until renew is called again.
func (l *lease) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.period = 0
}

// keep renews the lease on time until ctx ends, also while a report waits for the member.
func (l *lease) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.moved:
			continue
		case <-time.After(l.untilDue()):
		}
		l.mu.Lock()
		l.renewIfDue(ctx)
		l.mu.Unlock()
	}
}

func (l *lease) untilDue() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.period == 0 {
		return v1alpha1.DefaultLeaseDuration
	}
	return time.Until(l.due)
}

func (l *lease) renewIfDue(ctx context.Context) {
	if l.period == 0 || time.Now().Before(l.due) {
		return
	}
	l.err = l.write(ctx)
	l.due = time.Now().Add(l.period - time.Duration(rand.Float64()*leaseJitter*float64(l.period)))
}

func (l *lease) write(ctx context.Context) error {
	object := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.name, Name: v1alpha1.ManagedClusterLeaseName}}
	now := metav1.NowMicro()
	patch := fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, now.UTC().Format(metav1.RFC3339Micro))
	err := l.hub.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch))
	if !apierrors.IsNotFound(err) {
		return err
	}
	if l.existing {
		return nil
	}
	// Unlike a create request, an apply request has the name in its address, so that the permission
	// to create can be limited to it.
	err = l.hub.Apply(ctx, applycoordinationv1.Lease(object.Name, l.name).
		WithLabels(map[string]string{v1alpha1.ClusterNameLabel: l.name}).
		WithSpec(applycoordinationv1.LeaseSpec().WithHolderIdentity(v1alpha1.ManagedClusterLeaseName).WithRenewTime(now)),
		client.FieldOwner("berth-report"))
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the hub has no namespace %s: create it with kubectl create namespace %s", l.name, l.name)
	}
	return err
}
