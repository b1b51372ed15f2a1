package explore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/preview"
)

// scope is what a viewer may list.
type scope struct {
	// known is true if the hub was asked.
	known bool
	// namespace is the only one whose objects are listed; empty for all.
	namespace string
	kinds     []kinds.Kind
	// missing are the permissions that the viewer lacks, in words.
	missing []string
}

// whole reports whether the viewer may list everything that decisions depend on.
func (s scope) whole() bool { return s.namespace == "" && len(s.missing) == 0 }

// asker asks the controller for a viewer who may not list everything.
func (s scope) asker(hub client.Client) *preview.Asker {
	return &preview.Asker{Hub: hub, Forbidden: fmt.Errorf("you need: %s", strings.Join(s.missing, ", "))}
}

// lists reports whether the viewer may list a kind. Objects that were not listed, such as those of
// a test, are all known.
func (s scope) lists(name string) bool {
	return !s.known || slices.ContainsFunc(s.kinds, func(k kinds.Kind) bool { return k.Name == name })
}

// knowsSets reports whether the viewer may list what says in which sets clusters are.
func (s scope) knowsSets() bool { return s.lists("ManagedClusterSet") && s.lists("ManagedCluster") }

// same reports whether two viewers may list the same.
func (s scope) same(other scope) bool {
	return s.namespace == other.namespace && fmt.Sprint(s.missing) == fmt.Sprint(other.missing) && len(s.kinds) == len(other.kinds)
}

// scopeOf asks the hub what a viewer may list: of all namespaces, or else of one.
func scopeOf(ctx context.Context, hub client.Client, namespace string) (scope, error) {
	s := scope{known: true}
	allNamespaces, err := s.add(ctx, hub, "")
	if err != nil || allNamespaces && s.whole() {
		return s, err
	}
	if !allNamespaces {
		s = scope{known: true, namespace: cmp.Or(namespace, "default")}
		if _, err := s.add(ctx, hub, s.namespace); err != nil {
			return s, err
		}
	}
	return s, s.addExplanations(ctx, hub)
}

// add lists one object of each kind, in a namespace or in all. It returns false if the Placements
// of all namespaces are wanted and may not be listed.
func (s *scope) add(ctx context.Context, hub client.Reader, namespace string) (bool, error) {
	for _, kind := range kinds.All() {
		options := []client.ListOption{client.Limit(1)}
		where := ""
		if kind.Namespaced && namespace != "" {
			options, where = append(options, client.InNamespace(namespace)), " in namespace "+namespace
		}
		err := hub.List(ctx, kind.NewList(), options...)
		switch {
		case err == nil:
			s.kinds = append(s.kinds, kind)
		case kind.Optional() && (meta.IsNoMatchError(err) || apierrors.IsNotFound(err)):
		case !apierrors.IsForbidden(err):
			return false, fmt.Errorf("listing %s: %w", kind.Plural, err)
		case namespace == "" && kind.Name == "Placement":
			return false, nil
		default:
			s.missing = append(s.missing, "list "+kind.Plural+where)
		}
	}
	return true, nil
}

// addExplanations asks whether the viewer may create and read PlacementExplanations.
func (s *scope) addExplanations(ctx context.Context, hub client.Client) error {
	for _, verb := range []string{"create", "get"} {
		needs := actions.Permission{Verb: verb, Group: berthv1alpha1.GroupName, Resource: "placementexplanations", Namespace: s.namespace}
		review := needs.Review()
		if err := hub.Create(ctx, review); err != nil {
			return fmt.Errorf("asking the hub for the permission to %s: %w", needs, err)
		}
		if !review.Status.Allowed {
			s.missing = append(s.missing, needs.String())
		}
	}
	return nil
}
