package world

import (
	"reflect"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// newQueue is the field of controller-runtime's controllers that makes their queues.
type newQueue = func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request]

// nameless is a manager whose queues have no names, and so no metrics: each queue would count twice
// a second what is in it, which takes a tenth of the processor time of worlds.
type nameless struct{ ctrl.Manager }

// newNameless returns a manager as controller-runtime makes it, with such queues.
func newNameless(cfg *rest.Config, o ctrl.Options) (ctrl.Manager, error) {
	mgr, err := manager.New(cfg, o)
	return nameless{mgr}, err
}

// Add implements manager.Manager.
func (m nameless) Add(r manager.Runnable) error {
	of := reflect.Indirect(reflect.ValueOf(r))
	if of.Kind() == reflect.Struct && of.FieldByName("Runnable").IsValid() { // a loop in another one
		of = reflect.Indirect(of.FieldByName("Runnable").Elem())
	}
	if of.Kind() == reflect.Struct {
		if field := of.FieldByName("NewQueue"); field.IsValid() {
			named := field.Interface().(newQueue)
			field.Set(reflect.ValueOf(func(_ string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
				return named("", limiter)
			}))
		}
	}
	return m.Manager.Add(r)
}
