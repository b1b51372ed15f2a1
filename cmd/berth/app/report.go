package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
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
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// memberTimeout bounds each question to the member.
const memberTimeout = 10 * time.Second

type reportOptions struct {
	kubeconfig string
	member     string
	interval   time.Duration
	once       bool
}

func newReportCommand() *cobra.Command {
	o := reportOptions{}
	cmd := &cobra.Command{
		Use:   "report NAME --member-kubeconfig FILE",
		Short: "Keep one ManagedCluster's status true without an agent in the cluster",
		Long: `Keep one ManagedCluster's status true without an agent in the cluster.

report reads the member's nodes, version and ClusterClaims, and writes allocatable, capacity, claims, version and the Available
condition of the ManagedCluster on the hub, when they differ. A member that does not answer is reported as Unknown, one that
says it is not ready as False; what was known of it stays.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.member == "" {
				return usagef("--member-kubeconfig is required")
			}
			if o.interval < time.Second {
				return usagef("--interval: %s is less than a second", o.interval)
			}
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the hub")
	flags.StringVar(&o.member, "member-kubeconfig", "", "kubeconfig of the member cluster")
	flags.DurationVar(&o.interval, "interval", 30*time.Second, "how often the member is asked")
	flags.BoolVar(&o.once, "once", false, "report once and exit")
	return cmd
}

func (o *reportOptions) run(ctx context.Context, name string, out io.Writer) error {
	hubConfig, err := connect(kubeconfigAt(o.kubeconfig), "hub", "kubeconfig")
	if err != nil {
		return err
	}
	memberConfig, err := connect(kubeconfigAt(o.member), "member", "member-kubeconfig")
	if err != nil {
		return err
	}
	r, err := newReporter(name, hubConfig, memberConfig)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(o.interval)
	defer ticker.Stop()
	for {
		changed, err := r.report(ctx)
		switch {
		case err != nil && (o.once || apierrors.IsNotFound(err)):
			return err
		case err != nil:
			// The hub may be back the next time.
			say(out, "ManagedCluster %s: %v\n", name, err)
		case changed != "":
			say(out, "ManagedCluster %s: %s\n", name, changed)
		}
		if o.once {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// kubeconfigAt is a kubeconfig; without a path, what KUBECONFIG or the pod says.
func kubeconfigAt(path string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
}

// connect reads a kubeconfig and says plainly when there is none.
func connect(loader clientcmd.ClientConfig, what, flag string) (*rest.Config, error) {
	cfg, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("finding the %s: no configuration in %s: give --%s, or set KUBECONFIG",
			what, strings.Join(loader.ConfigAccess().GetLoadingPrecedence(), ", "), flag)
	}
	if err != nil {
		return nil, fmt.Errorf("finding the %s: %w", what, err)
	}
	return cfg, nil
}

// reporter copies facts of one member to the hub.
type reporter struct {
	name   string
	hub    client.Client
	member kubernetes.Interface
	claims dynamic.Interface
}

func newReporter(name string, hub, member *rest.Config) (*reporter, error) {
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
	return &reporter{name: name, hub: hubClient, member: kube, claims: claims}, nil
}

// report writes what differs and says what that was; empty when nothing did.
func (r *reporter) report(ctx context.Context) (string, error) {
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

// observe asks the member and returns whether it is available. Where it does not answer, what was known stays.
func (r *reporter) observe(ctx context.Context, status *v1alpha1.ManagedClusterStatus) metav1.Condition {
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

func (r *reporter) copyFacts(ctx context.Context, status *v1alpha1.ManagedClusterStatus) error {
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
		// Nothing can be allocated on a node that takes no pods.
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

// readClaims lists the member's ClusterClaims, in order of their names; none where it does not have the kind.
func (r *reporter) readClaims(ctx context.Context) ([]v1alpha1.ManagedClusterClaim, error) {
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
