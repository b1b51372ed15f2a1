package controllers

import (
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/berth-dev/berth/pkg/access"
)

// Permissions that a guarded metrics endpoint needs.
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create,roleName=berth-metrics-access
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create,roleName=berth-metrics-access

// guardMetrics is a server.Options.FilterProvider. It does not use the manager's HTTP client, whose
// timeouts are for watches.
func guardMetrics(cfg *rest.Config, _ *http.Client) (server.Filter, error) {
	hub, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("building the client that asks who may read metrics: %w", err)
	}
	return func(log logr.Logger, next http.Handler) (http.Handler, error) {
		if _, open := next.(openHandler); open {
			return next, nil
		}
		g := access.NewGuard(hub, log, next)
		if debug, ok := next.(*debugHandler); ok {
			return &guardedDebugger{guard: g, debugHandler: debug}, nil
		}
		return g, nil
	}, nil
}
