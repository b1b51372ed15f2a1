package framework

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// PanicError is the error of a plugin that panicked.
type PanicError struct{ point, value string }

func (e *PanicError) Error() string { return fmt.Sprintf("panic in %s: %s", e.point, e.value) }

// maxPanicText is the maximum length of a panic's text, in bytes.
const maxPanicText = 1024

// panicLog limits the log: a plugin may panic for each cluster or object.
var panicLog = rate.Sometimes{First: 10, Interval: time.Second}

// Recover makes the panic of a plugin an Error, and logs it with its stack. The engine defers it
// around all calls of plugins. method is what was called; plugin returns the name.
func Recover(ctx context.Context, method string, plugin func() string, failure **Status) {
	value := recover()
	if value == nil {
		return
	}
	name := plugin()
	status := AsStatus(&PanicError{method, v1alpha1.CutText(fmt.Sprint(value), maxPanicText)}).WithPlugin(name)
	panicLog.Do(func() {
		klog.FromContext(ctx).Error(status.Err(), "A plugin panicked", "plugin", name, "method", method, "stack", string(debug.Stack()))
	})
	*failure = status
}

// Less is Less of the plugin. If it panics, the older Placement is decided first.
func Less(plugin QueueSortPlugin, a, b *v1alpha1.Placement) (less bool) {
	var failure *Status
	defer func() {
		if failure != nil {
			less = a.CreationTimestamp.Before(&b.CreationTimestamp)
		}
	}()
	defer Recover(context.Background(), "Less", plugin.Name, &failure)
	return plugin.Less(a, b)
}
