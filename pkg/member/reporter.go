package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// memberTimeout bounds each request to the member.
const memberTimeout = 10 * time.Second

// Reporter copies the state of one member cluster to its ManagedCluster on the hub.
type Reporter struct {
	name   string
	hub    client.Client
	member kubernetes.Interface
	claims dynamic.Interface
}

// NewReporter returns a Reporter for the ManagedCluster name. It sends no request yet.
func NewReporter(name string, hub, member *rest.Config) (*Reporter, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	hubClient, err := client.New(hub, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the hub: %w", err)
	}
	member = rest.CopyConfig(member)
	member.Timeout = memberTimeout
	kube, err := kubernetes.NewForConfig(member)
	if err != nil {
		return nil, fmt.Errorf("connecting to the member: %w", err)
	}
	claims, err := dynamic.NewForConfig(member)
	if err != nil {
		return nil, fmt.Errorf("connecting to the member: %w", err)
	}
	return &Reporter{name: name, hub: hubClient, member: kube, claims: claims}, nil
}

// Report writes the differences and returns a line about the cluster; empty if there is no
// difference. The error is NotFound if the ManagedCluster does not exist.
func (r *Reporter) Report(ctx context.Context) (string, error) {
	var cluster v1alpha1.ManagedCluster
	if err := r.hub.Get(ctx, client.ObjectKey{Name: r.name}, &cluster); err != nil {
		return "", fmt.Errorf("reading ManagedCluster %s: %w", r.name, err)
	}
	base := cluster.DeepCopy()
	available := r.observe(ctx, &cluster.Status)
	available.ObservedGeneration = cluster.Generation
	v1alpha1.SetCondition(&cluster.Status.Conditions, available)
	if equality.Semantic.DeepEqual(base.Status, cluster.Status) {
		return "", nil
	}
	if err := r.hub.Status().Patch(ctx, &cluster, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
		return "", fmt.Errorf("writing the status: %w", err)
	}
	return fmt.Sprintf("available %s, allocatable cpu %s, memory %s, %d claims, version %s", available.Status,
		text(cluster.Status.Allocatable, v1alpha1.ResourceCPU), text(cluster.Status.Allocatable, v1alpha1.ResourceMemory),
		len(cluster.Status.ClusterClaims), cluster.Status.Version.Kubernetes), nil
}

func text(list v1alpha1.ResourceList, name v1alpha1.ResourceName) string {
	q, ok := list[name]
	if !ok {
		return "unknown"
	}
	return q.String()
}

// observe reads the member's state and returns whether it is available. If the member does not
// respond, the earlier state stays.
func (r *Reporter) observe(ctx context.Context, status *v1alpha1.ManagedClusterStatus) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ManagedClusterConditionAvailable, Status: metav1.ConditionUnknown, Reason: "ManagedClusterUnreachable"}
	if _, err := r.member.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err != nil {
		condition.Message = "The member does not answer"
		if answered, ok := errors.AsType[*apierrors.StatusError](err); ok {
			condition.Status, condition.Reason = metav1.ConditionFalse, "ManagedClusterUnavailable"
			condition.Message = fmt.Sprintf("The member answers /readyz with %d", answered.Status().Code)
		}
		return condition
	}
	if err := r.copyFacts(ctx, status); err != nil {
		condition.Message = err.Error()
		return condition
	}
	condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, "ManagedClusterAvailable", "The member answers and is ready"
	return condition
}

func (r *Reporter) copyFacts(ctx context.Context, status *v1alpha1.ManagedClusterStatus) error {
	version, err := r.member.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("asking for the version: %w", err)
	}
	nodes, err := r.member.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing the nodes: %w", err)
	}
	claims, err := r.readClaims(ctx)
	if err != nil {
		return fmt.Errorf("listing the claims: %w", err)
	}
	status.Version.Kubernetes = version.GitVersion
	status.ClusterClaims = claims
	status.Capacity, status.Allocatable = v1alpha1.ResourceList{}, v1alpha1.ResourceList{}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		sum(status.Capacity, node.Status.Capacity)
		// A node that is unschedulable has no allocatable resources.
		if !node.Spec.Unschedulable {
			sum(status.Allocatable, node.Status.Allocatable)
		}
	}
	return nil
}

func sum(into v1alpha1.ResourceList, add corev1.ResourceList) {
	for name, quantity := range add {
		total := into[v1alpha1.ResourceName(name)]
		total.Add(quantity)
		into[v1alpha1.ResourceName(name)] = total
	}
}

// readClaims lists the member's ClusterClaims, sorted by name; none if the member does not serve
// the kind.
func (r *Reporter) readClaims(ctx context.Context) ([]v1alpha1.ManagedClusterClaim, error) {
	resource := schema.GroupVersionResource{Group: v1alpha1.GroupName, Version: "v1alpha1", Resource: "clusterclaims"}
	list, err := r.claims.Resource(resource).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var claims []v1alpha1.ManagedClusterClaim
	for i := range list.Items {
		value, _, err := unstructured.NestedString(list.Items[i].Object, "spec", "value")
		if err == nil && value != "" {
			claims = append(claims, v1alpha1.ManagedClusterClaim{Name: list.Items[i].GetName(), Value: value})
		}
	}
	return claims, nil
}
