package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// hubTimeout bounds each request to the hub.
const hubTimeout = 30 * time.Second

// ErrNoAnswer is the error of a member that does not respond, or is not ready, while its
// Available condition stays as it was.
var ErrNoAnswer = errors.New("the condition Available stays as it was")

// NewHubClient returns a client for NewReporter. Many reporters may share it.
func NewHubClient(hub *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	hub = rest.CopyConfig(hub)
	// API Priority and Fairness limits requests instead.
	hub.QPS, hub.Timeout = -1, hubTimeout
	c, err := client.New(hub, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the hub: %w", err)
	}
	return c, nil
}

// Reporter copies the facts of one member to its ManagedCluster on the hub. Only SetMember may be
// called at the same time as another method.
type Reporter struct {
	name      string
	hub       client.Client
	threshold int
	member    atomic.Pointer[prober]
	lease     *lease
	// failures is how many reports in a row the member did not answer.
	failures int
}

// NewReporter returns a Reporter for the ManagedCluster name. It sends no request yet. threshold is
// how many failures in a row change the Available condition.
func NewReporter(name string, hub client.Client, member *rest.Config, threshold int) (*Reporter, error) {
	r := &Reporter{name: name, hub: hub, threshold: threshold, lease: newLease(hub, name)}
	return r, r.SetMember(member)
}

// SetMember makes the reporter use another connection to the same member.
func (r *Reporter) SetMember(member *rest.Config) error {
	p, err := newProber(member)
	if err == nil {
		r.member.Store(p)
	}
	return err
}

// Once reports once and returns a line about the cluster; it is empty if nothing differs. A member
// that does not respond changes nothing and is the error ErrNoAnswer. Once creates no lease, which
// would expire, but renews one that exists.
func (r *Reporter) Once(ctx context.Context) (string, error) {
	r.lease.existing = true
	cluster, leaseErr, err := r.begin(ctx)
	if err != nil {
		return "", err
	}
	seen, failed := r.member.Load().observe(ctx)
	if failed != nil {
		return "", fmt.Errorf("ManagedCluster %s: %w: %s", r.name, ErrNoAnswer, failed.message)
	}
	return r.write(ctx, cluster, seen, nil, leaseErr)
}

// Run reports at every interval until ctx ends. It passes to say what changes, and each new
// problem. Its error is NotFound if the hub has no such ManagedCluster and required is true.
func (r *Reporter) Run(ctx context.Context, interval time.Duration, required bool, say func(string)) error {
	ctx, cancel := context.WithCancel(ctx)
	var renewals sync.WaitGroup
	renewals.Go(func() { r.lease.keep(ctx) })
	defer renewals.Wait()
	defer cancel()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	said := problems{say: say}
	for {
		line, err := r.report(ctx, &said)
		switch {
		case ctx.Err() != nil:
			return nil
		case apierrors.IsNotFound(err) && required:
			return err
		case err != nil:
			// The next report may succeed.
			said.report("report", err.Error())
		default:
			said.report("report", "")
			// A taint of the hub changes the generation, which is written, but is no change.
			if line != "" {
				said.report("status", line)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// report reports once. A failure below the threshold changes nothing and is the error ErrNoAnswer.
func (r *Reporter) report(ctx context.Context, said *problems) (string, error) {
	cluster, leaseErr, err := r.begin(ctx)
	if err != nil {
		return "", err
	}
	lease := ""
	if leaseErr != nil {
		lease = "the lease is not renewed, so that nothing shows when this reporter stops: " + oneLine(leaseErr)
	}
	said.report("lease", lease)
	seen, failed := r.member.Load().observe(ctx)
	if failed == nil {
		r.failures = 0
	} else if r.failures++; r.failures < r.threshold {
		return "", fmt.Errorf("failure %d of %d in a row, so %w: %s", r.failures, r.threshold, ErrNoAnswer, failed.message)
	}
	return r.write(ctx, cluster, seen, failed, leaseErr)
}

// begin reads the cluster and renews its lease. leaseErr is why the lease was not renewed.
func (r *Reporter) begin(ctx context.Context) (cluster *v1alpha1.ManagedCluster, leaseErr, err error) {
	cluster = &v1alpha1.ManagedCluster{}
	if err := r.hub.Get(ctx, client.ObjectKey{Name: r.name}, cluster); err != nil {
		if apierrors.IsNotFound(err) {
			r.lease.forget()
		}
		return nil, nil, fmt.Errorf("reading ManagedCluster %s: %w", r.name, err)
	}
	return cluster, r.lease.renew(ctx, cluster), nil
}

// write writes what differs and returns a line about it, or "".
func (r *Reporter) write(ctx context.Context, cluster *v1alpha1.ManagedCluster, seen *facts, failed *probeError, leaseErr error) (string, error) {
	line, first := "", true
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if !first {
			if err := r.hub.Get(ctx, client.ObjectKey{Name: r.name}, cluster); err != nil {
				return err
			}
		}
		first = false
		// The hub would turn it to Unknown again at once.
		if leaseErr != nil && failed == nil && leaseExpired(cluster) {
			return fmt.Errorf("the condition Available stays Unknown, because the lease expired and is not renewed: %w", leaseErr)
		}
		base := cluster.DeepCopy()
		fill(cluster, seen, failed)
		if equality.Semantic.DeepEqual(base.Status, cluster.Status) {
			return nil
		}
		line = summary(cluster)
		return r.hub.Status().Patch(ctx, cluster, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	})
	if err != nil {
		return "", fmt.Errorf("writing the status: %w", err)
	}
	return line, nil
}

func leaseExpired(cluster *v1alpha1.ManagedCluster) bool {
	available := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ManagedClusterConditionAvailable)
	return available != nil && available.Reason == v1alpha1.ReasonLeaseUpdateStopped
}

// fill sets the status of a cluster. Where the member does not respond, its facts stay.
func fill(cluster *v1alpha1.ManagedCluster, seen *facts, failed *probeError) {
	available := metav1.Condition{
		Type: v1alpha1.ManagedClusterConditionAvailable, ObservedGeneration: cluster.Generation,
		Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonClusterAvailable, Message: "The member answers and is ready",
	}
	switch {
	case failed == nil:
		status := &cluster.Status
		status.Version.Kubernetes, status.ClusterClaims = seen.version, seen.claims
		status.Capacity, status.Allocatable = seen.capacity, seen.allocatable
	case failed.notReady:
		available.Status, available.Reason, available.Message = metav1.ConditionFalse, v1alpha1.ReasonClusterUnavailable, failed.message
	default:
		available.Status, available.Reason, available.Message = metav1.ConditionUnknown, v1alpha1.ReasonClusterUnreachable, failed.message
	}
	v1alpha1.SetCondition(&cluster.Status.Conditions, available)
}

// summary is a line about a cluster whose status changes.
func summary(cluster *v1alpha1.ManagedCluster) string {
	status := &cluster.Status
	available := meta.FindStatusCondition(status.Conditions, v1alpha1.ManagedClusterConditionAvailable)
	line := fmt.Sprintf("available %s, allocatable cpu %s, memory %s, %d claims, version %s", available.Status,
		amountText(status.Allocatable, v1alpha1.ResourceCPU), amountText(status.Allocatable, v1alpha1.ResourceMemory),
		len(status.ClusterClaims), cmp.Or(status.Version.Kubernetes, "unknown"))
	if available.Status != metav1.ConditionTrue {
		line += ". " + available.Message
	}
	return line
}

func amountText(list v1alpha1.ResourceList, name v1alpha1.ResourceName) string {
	q, ok := list[name]
	if !ok {
		return "unknown"
	}
	return q.String()
}

// problems passes on each problem once, until it changes. It belongs to one goroutine.
type problems struct {
	say  func(string)
	last map[string]string
}

// report passes on the present problem of a kind; "" is none.
func (p *problems) report(kind, problem string) {
	if problem != "" && problem != p.last[kind] {
		p.say(problem)
	}
	if p.last == nil {
		p.last = map[string]string{}
	}
	p.last[kind] = problem
}
