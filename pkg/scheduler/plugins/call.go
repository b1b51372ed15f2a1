package plugins

import (
	"context"
	"fmt"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Call calls a method of a plugin. If it panics, the result is an Error.
func Call(ctx context.Context, method string, p framework.Plugin, do func() *framework.Status) *framework.Status {
	return CallNamed(ctx, method, p.Name, do)
}

// CallNamed calls methods of plugins. If one panics, the result is an Error with the name that
// plugin returns then.
func CallNamed(ctx context.Context, method string, plugin func() string, do func() *framework.Status) (status *framework.Status) {
	defer framework.Recover(ctx, method, plugin, &status)
	return do()
}

// Unexpected returns an Error for a code that the extension point does not allow. It returns an
// Error unchanged.
func Unexpected(p framework.Plugin, point string, status *framework.Status) *framework.Status {
	if status.Code() == framework.Error {
		return status.WithPlugin(p.Name())
	}
	return framework.AsStatus(fmt.Errorf("%s returned %s: %s", point, status.Code(), status.Reason())).WithPlugin(p.Name())
}
