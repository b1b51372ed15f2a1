package app

import (
	"regexp"

	"github.com/berth-dev/berth/pkg/install"
)

// refusal is how the API server refuses a request for want of a permission.
var refusal = regexp.MustCompile(`cannot ([a-z]+) resource "([a-z]+)[a-z/]*" in API group "([^"]*)"(?: in the namespace "[^"]*"| at the cluster scope)?`)

// withRoles adds to each refusal in a message the role that gives the permission.
func withRoles(message string) string {
	return refusal.ReplaceAllStringFunc(message, func(text string) string {
		of := refusal.FindStringSubmatch(text)
		if role := install.RoleFor(of[1], of[3], of[2]); role != "" {
			text += " (the role " + role + " permits it)"
		}
		return text
	})
}
