// Package consumers tests what reads decisions on a real kube-apiserver: the server of
// `berth generator`, and pkg/client.
package consumers

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var hub *testhub.Hub

func TestConsumers(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Consumers")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	ctrl.SetLogger(GinkgoLogr)
	hub = testhub.Start(ctx)
	berth := hub.StartController(controllers.Options{})
	DeferCleanup(berth.Stop)
})

// team creates a namespace with a set of clusters: NAME-1, NAME-2 and so on, the odd ones of the
// region eu and the even ones of us.
func team(ctx context.Context, name string, clusters int) {
	GinkgoHelper()
	hub.ApplyYAML(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+name+"}")
	objects := []client.Object{fixture.Set(name), fixture.Binding(name, name)}
	for n := range clusters {
		region := []string{"eu", "us"}[n%2]
		objects = append(objects, fixture.Cluster(fmt.Sprintf("%s-%d", name, n+1)).Set(name).Label("region", region).Obj())
	}
	for _, object := range objects {
		Expect(hub.Create(ctx, object)).To(Succeed())
	}
}

// patch merges text into the Placement web of a namespace.
func patch(ctx context.Context, namespace, text string) {
	GinkgoHelper()
	Expect(testhub.Patch(ctx, hub, fixture.Placement(namespace, "web").Obj(), text)).To(Succeed())
}
