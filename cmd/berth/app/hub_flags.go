package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// hubFlags select the hub and the user: the flags of kubectl.
type hubFlags struct {
	config    *genericclioptions.ConfigFlags
	namespace string
}

// add adds the flags, but not -n. --cluster is a ManagedCluster everywhere, and nothing is cached.
func (f *hubFlags) add(cmd *cobra.Command) {
	f.config = genericclioptions.NewConfigFlags(false)
	f.config.Namespace, f.config.ClusterName, f.config.CacheDir = nil, nil, nil
	f.config.AddFlags(cmd.Flags())
	cmd.Flags().Lookup("kubeconfig").Usage = "kubeconfig of the hub"
	cmd.Flags().Lookup("context").Usage = "the kubeconfig's context to use (default: its current one)"
	f.config.Namespace = &f.namespace
	complete(cmd, "context", f.completeContexts)
}

func (f *hubFlags) addNamespace(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", usage)
	complete(cmd, "namespace", f.completeNamespaces)
}

// connect returns a client that reads the hub directly, in the consumers' versions, and the
// namespace to use.
func (f *hubFlags) connect() (hub client.Client, namespace string, err error) {
	loader := f.config.ToRawKubeConfigLoader()
	cfg, err := connect(loader, "hub", "kubeconfig")
	if err != nil {
		return nil, "", err
	}
	cfg.QPS = -1
	if namespace, _, err = loader.Namespace(); err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kinds.AddToScheme, authenticationv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, "", err
		}
	}
	if hub, err = client.New(cfg, client.Options{Scheme: scheme}); err != nil {
		return nil, "", fmt.Errorf("connecting to the hub: %w", err)
	}
	return hub, namespace, nil
}

// complete registers the completion of a flag's values. It panics if the command lacks the flag.
func complete(cmd *cobra.Command, flag string, with cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, with); err != nil {
		panic(err)
	}
}

// completePlacements completes one argument with the names of the namespace's Placements that are
// wanted; nil wants all.
func (f *hubFlags) completePlacements(wanted func(pl *v1alpha1.Placement) bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var list v1alpha1.PlacementList
		return f.names(cmd.Context(), &list, func() (names []string) {
			for i := range list.Items {
				if wanted == nil || wanted(&list.Items[i]) {
					names = append(names, list.Items[i].Name)
				}
			}
			return names
		})
	}
}

func (f *hubFlags) completeClusters(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var list v1alpha1.ManagedClusterList
	return f.names(cmd.Context(), &list, func() (names []string) {
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names
	})
}

// completeClusterEdits completes the cluster name at the start of an edit, but not the text after
// the colon.
func (f *hubFlags) completeClusterEdits(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if strings.Contains(begun, ":") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, directive := f.completeClusters(cmd, args, begun)
	for i := range names {
		names[i] += ":"
	}
	return names, directive | cobra.ShellCompDirectiveNoSpace
}

// completeNamespaces proposes the namespaces that have Placements which the user may list.
func (f *hubFlags) completeNamespaces(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var list v1alpha1.PlacementList
	return f.names(cmd.Context(), &list, func() (names []string) {
		for i := range list.Items {
			names = append(names, list.Items[i].Namespace)
		}
		slices.Sort(names)
		return slices.Compact(names)
	}, client.InNamespace(metav1.NamespaceAll))
}

// names lists objects for a completion. If that fails, it proposes nothing and reports nothing.
func (f *hubFlags) names(
	ctx context.Context, list client.ObjectList, of func() []string, opts ...client.ListOption,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	hub, namespace, err := f.connect()
	if err == nil {
		err = hub.List(ctx, list, append([]client.ListOption{client.InNamespace(namespace)}, opts...)...)
	}
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return of(), cobra.ShellCompDirectiveNoFileComp
}

func (f *hubFlags) completeContexts(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := f.config.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// kubeconfigAt loads the kubeconfig at path. Without a path it uses KUBECONFIG, the default
// kubeconfig or the pod's service account.
func kubeconfigAt(path string) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
}

// errNoKubeconfig is the error for no kubeconfig at all.
var errNoKubeconfig = errors.New("no configuration")

// connect reads a kubeconfig. If there is none, the error names the searched paths.
func connect(loader clientcmd.ClientConfig, what, flag string) (*rest.Config, error) {
	cfg, err := loader.ClientConfig()
	// Without any configuration kubectl's flags lead to a server on this machine.
	if clientcmd.IsEmptyConfig(err) || err == nil && cfg.Host == clientcmd.ClusterDefaults.Server && !hasClusters(loader) {
		return nil, fmt.Errorf("finding the %s: %w in %s: set --%s or KUBECONFIG",
			what, errNoKubeconfig, strings.Join(loader.ConfigAccess().GetLoadingPrecedence(), ", "), flag)
	}
	if err != nil {
		return nil, fmt.Errorf("finding the %s: %w", what, err)
	}
	return cfg, nil
}

func hasClusters(loader clientcmd.ClientConfig) bool {
	raw, err := loader.RawConfig()
	return err != nil || len(raw.Clusters) > 0
}
