package actions

import (
	authorizationv1 "k8s.io/api/authorization/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// Permission is one that an action needs.
type Permission struct {
	Verb, Group, Resource string
	// Namespace is empty for objects without a namespace, and for all namespaces.
	Namespace string
}

// String says the permission in words, such as "create placementevictions in namespace shop".
func (p Permission) String() string {
	text := p.Verb + " " + p.Resource
	if p.Namespace != "" {
		text += " in namespace " + p.Namespace
	}
	return text
}

// Review returns what asks the hub whether the user has the permission.
func (p Permission) Review() *authorizationv1.SelfSubjectAccessReview {
	return &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: p.Verb, Group: p.Group, Resource: p.Resource, Namespace: p.Namespace},
	}}
}

// Needs returns the permissions that a request needs, that to write first.
func (r Request) Needs() []Permission {
	ocm := func(verb, resource string) Permission {
		return Permission{verb, v1alpha1.GroupName, resource, r.Placement.Namespace}
	}
	own := func(verb, resource string) Permission {
		return Permission{verb, berthv1alpha1.GroupName, resource, r.Placement.Namespace}
	}
	placement, records, pages := ocm("get", "placements"), own("list", "placementchanges"), ocm("list", "placementdecisions")
	switch r.Verb {
	case Approve, Reject:
		return []Permission{own("patch", "placementchanges"), placement, records}
	case Evict:
		return []Permission{own("create", "placementevictions"), placement, pages}
	case Drain, Undrain:
		return []Permission{
			{"patch", v1alpha1.GroupName, "managedclusters", ""}, {"get", v1alpha1.GroupName, "managedclusters", ""},
			{"list", v1alpha1.GroupName, "placementdecisions", ""}, {"list", v1alpha1.GroupName, "placements", ""},
		}
	case Suspend:
		return []Permission{own("create", "disruptionpolicies"), own("get", "disruptionpolicies"), placement, records}
	case Resume:
		needs := []Permission{own("delete", "disruptionpolicies"), own("get", "disruptionpolicies"), placement, records}
		if r.Comment != "" { // The policy is gone, so the Placement has it.
			needs = append(needs, ocm("patch", "placements"))
		}
		return needs
	case Undo, Pin:
		return []Permission{ocm("patch", "placements"), placement, records, pages}
	case Unpin:
		return []Permission{ocm("patch", "placements"), placement}
	}
	return nil
}
