package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/changes"
)

// placementUse is the usage of arguments that name Placements.
const placementUse = "[TYPE/]NAME… [-n NAMESPACE] | -A"

// placementHelp describes the arguments in a help text.
const placementHelp = `A NAME is a Placement, or TYPE/NAME of a Placement, PlacementChange or PlacementDecision, such as pl/web or pch/web-3, or NAMESPACE/NAME. `

// placementRef is a Placement that an argument names.
type placementRef struct {
	types.NamespacedName
	// revision is that of the named PlacementChange; 0 if a Placement is named.
	revision int64
}

// placementFlags select a hub and Placements on it.
type placementFlags struct {
	hubFlags
	all bool
}

func (f *placementFlags) add(cmd *cobra.Command) {
	f.hubFlags.add(cmd)
	f.addNamespace(cmd, "namespace of the Placements (default: the kubeconfig's)")
	cmd.Flags().BoolVarP(&f.all, "all-namespaces", "A", false, "all Placements of all namespaces")
}

// placementsOrAll checks the arguments of a command that, without arguments, shows all Placements
// of the namespace.
func (f *placementFlags) placementsOrAll(cmd *cobra.Command, args []string) error {
	if f.all && len(args) > 0 {
		return fmt.Errorf("%s takes names or -A, not both", cmd.CommandPath())
	}
	return nil
}

// namedPlacements checks the arguments of a command that needs a name or -A.
func (f *placementFlags) namedPlacements(cmd *cobra.Command, args []string) error {
	if len(args) == 0 && !f.all {
		return fmt.Errorf("%s needs the name of a Placement, or -A for all", cmd.CommandPath())
	}
	return f.placementsOrAll(cmd, args)
}

// refs returns the Placements that the arguments name. Without arguments, it returns the wanted
// Placements of the namespace or, with -A, of all namespaces. If wanted is nil, all are wanted.
func (f *placementFlags) refs(
	ctx context.Context, hub client.Client, namespace string, args []string, wanted func(pl *v1alpha1.Placement) bool,
) ([]placementRef, error) {
	if len(args) == 0 {
		return f.listed(ctx, hub, namespace, wanted)
	}
	refs := make([]placementRef, 0, len(args))
	for _, arg := range args {
		ref, err := f.resolve(ctx, hub, namespace, arg)
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

func (f *placementFlags) listed(
	ctx context.Context, hub client.Client, namespace string, wanted func(pl *v1alpha1.Placement) bool,
) ([]placementRef, error) {
	where := "namespace " + namespace
	if f.all {
		namespace, where = "", "any namespace"
	}
	var list v1alpha1.PlacementList
	if err := hub.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, actions.ListFailed(err, namespace)
	}
	if len(list.Items) == 0 {
		return nil, fmt.Errorf("there are no Placements in %s", where)
	}
	var refs []placementRef
	for i := range list.Items {
		if wanted == nil || wanted(&list.Items[i]) {
			refs = append(refs, placementRef{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return refs, nil
}

// states reads the Placements that the arguments name with what their states depend on; without
// arguments all of the namespace or, with -A, of all namespaces, in one list of each kind. It can
// return actions.ErrNoRecords beside them.
func (f *placementFlags) states(ctx context.Context, hub client.Client, namespace string, args []string) ([]changes.StateInput, error) {
	if len(args) == 0 {
		where := "namespace " + namespace
		if f.all {
			namespace, where = "", "any namespace"
		}
		inputs, err := actions.ReadStates(ctx, hub, namespace)
		if len(inputs) == 0 && (err == nil || errors.Is(err, actions.ErrNoRecords)) {
			err = fmt.Errorf("there are no Placements in %s", where)
		}
		return inputs, err
	}
	refs, err := f.refs(ctx, hub, namespace, args, nil)
	if err != nil {
		return nil, err
	}
	var noRecords error
	inputs := make([]changes.StateInput, len(refs))
	for i, ref := range refs {
		inputs[i], err = actions.ReadState(ctx, hub, ref.NamespacedName)
		if err != nil && !errors.Is(err, actions.ErrNoRecords) {
			return nil, err
		}
		noRecords = cmp.Or(noRecords, err)
	}
	return inputs, noRecords
}

// forEach calls act for each Placement. It continues after errors, except after a usageError.
func forEach(refs []placementRef, act func(placementRef) error) error {
	var all []error
	for _, ref := range refs {
		err := act(ref)
		all = append(all, err)
		if usage := (*usageError)(nil); errors.As(err, &usage) {
			break
		}
	}
	return errors.Join(all...)
}

// resolve returns the Placement of one argument. It reads the hub only for a PlacementChange or a
// PlacementDecision.
func (f *hubFlags) resolve(ctx context.Context, hub client.Client, namespace, arg string) (placementRef, error) {
	kind, key, err := kinds.ParseName(arg, kindOf[*v1alpha1.Placement](), namespace)
	switch {
	case err != nil:
		return placementRef{}, usagef("%w; the types are placement, placementchange and placementdecision", err)
	case f.namespace != "" && key.Namespace != f.namespace && kind.Namespaced:
		return placementRef{}, usagef("%q is not in namespace %s of -n", arg, f.namespace)
	}
	switch kind.New().(type) {
	case *v1alpha1.Placement:
		return placementRef{NamespacedName: key}, nil
	case *berthv1alpha1.PlacementChange:
		record := &berthv1alpha1.PlacementChange{}
		err := get(ctx, hub, key, record, kind)
		key.Name = record.Spec.Placement
		return placementRef{key, record.Spec.Revision}, err
	case *v1alpha1.PlacementDecision:
		page := &v1alpha1.PlacementDecision{}
		if err := get(ctx, hub, key, page, kind); err != nil {
			return placementRef{}, err
		}
		if key.Name = page.Labels[v1alpha1.PlacementLabel]; key.Name == "" {
			return placementRef{}, fmt.Errorf("PlacementDecision %s/%s has no label %s", page.Namespace, page.Name, v1alpha1.PlacementLabel)
		}
		return placementRef{NamespacedName: key}, nil
	}
	return placementRef{}, usagef("%q is a %s; the types are placement, placementchange and placementdecision", arg, kind.Name)
}

// kindOf returns the kind of a Go type of the table.
func kindOf[T any]() kinds.Kind {
	var object T
	kind, _ := kinds.Of(object)
	return kind
}

func get(ctx context.Context, hub client.Client, key types.NamespacedName, object client.Object, kind kinds.Kind) error {
	err := hub.Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("there is no %s %s", kind.Name, key)
	}
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", kind.Name, key, err)
	}
	return nil
}

// clusterName returns the name in NAME or TYPE/NAME of a cluster, the value of a flag, or of an
// argument if flag is empty. An empty text gives an empty name.
func clusterName(flag, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	kind, key, err := kinds.ParseName(text, kindOf[*v1alpha1.ManagedCluster](), "")
	if err == nil && kind.Name != kindOf[*v1alpha1.ManagedCluster]().Name {
		err = fmt.Errorf("%q is a %s, not a ManagedCluster", text, kind.Name)
	}
	if err != nil && flag != "" {
		err = fmt.Errorf("--%s: %w", flag, err)
	}
	if err != nil {
		return "", &usageError{err}
	}
	return key.Name, nil
}

// placementKey reads a Placement that a flag names; nil if it names none. namespace may be empty.
func placementKey(flag, text, namespace string) (*types.NamespacedName, error) {
	if text == "" {
		return nil, nil
	}
	kind, key, err := kinds.ParseName(text, kindOf[*v1alpha1.Placement](), namespace)
	if err == nil && kind.Name != kindOf[*v1alpha1.Placement]().Name {
		err = fmt.Errorf("%q is a %s, not a Placement", text, kind.Name)
	}
	if err != nil {
		return nil, usagef("--%s: %w", flag, err)
	}
	return &key, nil
}
