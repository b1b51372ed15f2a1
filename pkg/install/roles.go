package install

import (
	"context"
	"fmt"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/config/rbac"
)

// Roles applies the roles for people.
func Roles(ctx context.Context, config *rest.Config) error {
	if err := applyFiles(ctx, config, rbac.Roles); err != nil {
		return fmt.Errorf("installing the roles: %w", err)
	}
	return nil
}

// RoleFor returns the first of the roles for people that permits a verb on a resource; empty if
// none does.
func RoleFor(verb, group, resource string) string {
	for _, role := range roles() {
		for _, rule := range role.Rules {
			if slices.Contains(rule.Verbs, verb) && slices.Contains(rule.APIGroups, group) && slices.Contains(rule.Resources, resource) {
				return role.Name
			}
		}
	}
	return ""
}

// roles are the roles for people. They are part of the program, so they can be read.
var roles = sync.OnceValue(func() []rbacv1.ClusterRole {
	objects, _ := readObjects(rbac.Roles, "user_roles.yaml")
	all := make([]rbacv1.ClusterRole, len(objects))
	for i, object := range objects {
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &all[i])
	}
	return all
})
