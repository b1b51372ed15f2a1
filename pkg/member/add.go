package member

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Addition adds a cluster to a hub, with what its reporter needs. What exists already stays.
type Addition struct {
	// Hub needs the kinds of api/v1alpha1, Namespaces and Secrets.
	Hub client.Client
	// DryRun lets the hub check what would be written, and writes nothing.
	DryRun bool
	// Name is that of the ManagedCluster, Set that of its ManagedClusterSet; empty for none.
	Name, Set string
	// Labels are further labels of the ManagedCluster.
	Labels map[string]string
	// Namespace is that of the reporter's Secrets.
	Namespace string
	// Kubeconfig is the path of the member's kubeconfig, Context the name of one of its contexts;
	// empty for the current one.
	Kubeconfig, Context string
	// Step is called with what is being done, Done with each object and what became of it.
	Step func(step string)
	Done func(object, what string)
}

// Add asks the member whether it is ready, and writes the ManagedCluster, the namespace of its
// lease and the Secret of the reporter. It writes nothing if the hub would refuse one of them.
func (a *Addition) Add(ctx context.Context) error {
	if problems := validation.IsDNS1123Label(a.Name); len(problems) > 0 {
		return fmt.Errorf("NAME: %q cannot be the name of a cluster, which is also that of a namespace: it has at most 63 lower-case letters, digits and -", a.Name)
	}
	kubeconfig, err := a.readKubeconfig()
	if err != nil {
		return err
	}
	a.Step("reading the hub")
	if err := a.checkSet(ctx); err != nil {
		return err
	}
	a.Step("asking the member")
	if err := a.askMember(ctx, kubeconfig); err != nil {
		return err
	}
	a.Step("writing to the hub")
	done := a.Done
	if !a.DryRun {
		done = func(string, string) {}
	}
	if err := a.write(ctx, client.NewDryRunClient(a.Hub), kubeconfig, done); err != nil || a.DryRun {
		return err
	}
	return a.write(ctx, a.Hub, kubeconfig, a.Done)
}

// readKubeconfig returns the part of the kubeconfig that the context uses, with the content of the
// files that it names.
func (a *Addition) readKubeconfig() ([]byte, error) {
	fail := func(err error) ([]byte, error) { return nil, fmt.Errorf("kubeconfig %s: %w", a.Kubeconfig, err) }
	config, err := clientcmd.LoadFromFile(a.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of the member: %w", err)
	}
	if a.Context != "" {
		config.CurrentContext = a.Context
	}
	if config.CurrentContext == "" {
		return fail(errors.New("current-context: is not set"))
	}
	if err := clientcmdapi.MinifyConfig(config); err != nil {
		return fail(fmt.Errorf("current-context %q: %w", config.CurrentContext, err))
	}
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return fail(err)
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fail(err)
	}
	if _, err := readKubeconfig(data); err != nil {
		return fail(err)
	}
	return data, nil
}

// askMember requires that the member is ready and that its facts can be read.
func (a *Addition) askMember(ctx context.Context, kubeconfig []byte) error {
	config, err := readKubeconfig(kubeconfig)
	if err != nil {
		return err
	}
	p, err := newProber(config)
	if err != nil {
		return err
	}
	if _, failed := p.observe(ctx); failed != nil {
		return fmt.Errorf("the member at %s: %w", config.Host, failed)
	}
	return nil
}

// checkSet requires a set that clusters join by their label.
func (a *Addition) checkSet(ctx context.Context) error {
	if a.Set == "" {
		return nil
	}
	set := &v1alpha1.ManagedClusterSet{}
	err := a.Hub.Get(ctx, client.ObjectKey{Name: a.Set}, set)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no ManagedClusterSet %s: create it first", a.Set)
	case err != nil:
		return fmt.Errorf("reading ManagedClusterSet %s: %w", a.Set, err)
	case set.Spec.ClusterSelector.SelectorType == v1alpha1.LabelSelector:
		return fmt.Errorf("ManagedClusterSet %s: spec.clusterSelector.selectorType: the set has the clusters that its labelSelector matches; no cluster can be put into it by name", a.Set)
	}
	return nil
}

// write creates or changes what the cluster needs on a hub. On one that only checks, a Secret
// cannot be checked if its namespace does not exist yet.
func (a *Addition) write(ctx context.Context, hub client.Client, kubeconfig []byte, done func(object, what string)) error {
	ensure := func(name string, object client.Object, change func() error) (controllerutil.OperationResult, error) {
		what, err := controllerutil.CreateOrUpdate(ctx, hub, object, change)
		if err != nil {
			return what, fmt.Errorf("%s: %w", name, err)
		}
		done(name, string(what))
		return what, nil
	}
	created := map[string]bool{}
	for _, namespace := range slices.Compact([]string{a.Name, a.Namespace}) {
		what, err := ensure("Namespace "+namespace, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, func() error { return nil })
		if err != nil {
			return err
		}
		created[namespace] = what == controllerutil.OperationResultCreated
	}
	cluster := &v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: a.Name}}
	if _, err := ensure("ManagedCluster "+a.Name, cluster, func() error {
		for key, value := range a.Labels {
			metav1.SetMetaDataLabel(&cluster.ObjectMeta, key, value)
		}
		return a.joinSet(cluster)
	}); err != nil {
		return err
	}
	name := fmt.Sprintf("Secret %s/%s", a.Namespace, a.Name)
	if created[a.Namespace] && hub != a.Hub {
		done(name, string(controllerutil.OperationResultCreated))
		return nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}}
	_, err := ensure(name, secret, func() error {
		if secret.ResourceVersion != "" && secret.Labels[MemberLabel] != a.Name {
			return fmt.Errorf("metadata.labels[%s]: %q is not %q: the Secret is not that of this cluster; use another namespace", MemberLabel, secret.Labels[MemberLabel], a.Name)
		}
		metav1.SetMetaDataLabel(&secret.ObjectMeta, MemberLabel, a.Name)
		secret.Data = map[string][]byte{kubeconfigKey: kubeconfig}
		return nil
	})
	return err
}

// joinSet puts a cluster that is in no set into the set.
func (a *Addition) joinSet(cluster *v1alpha1.ManagedCluster) error {
	switch now := cluster.Labels[v1alpha1.ClusterSetLabel]; now {
	case a.Set:
	case "":
		metav1.SetMetaDataLabel(&cluster.ObjectMeta, v1alpha1.ClusterSetLabel, a.Set)
	default:
		if a.Set != "" {
			return fmt.Errorf("metadata.labels[%[1]s]: the cluster is in the set %[2]s; to move it: kubectl label managedcluster %[3]s %[1]s=%[4]s --overwrite",
				v1alpha1.ClusterSetLabel, now, a.Name, a.Set)
		}
	}
	return nil
}
