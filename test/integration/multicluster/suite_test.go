// Package multicluster tests the PlacementDecisions of ClusterProfiles on a real kube-apiserver.
// They appear, follow the decision, never miss a cluster that stays, and survive a controller that
// is killed.
package multicluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/test/faults"
	"github.com/berth-dev/berth/test/testhub"
)

// patience is how long a step may take on a busy machine.
const patience = 30 * time.Second

var hub *testhub.Hub

// argsVariable holds DecisionPublisher's arguments for a controller in a process of its own.
const argsVariable = "BERTH_TEST_ARGS"

// TestMain is the controller when it is started as one.
func TestMain(m *testing.M) {
	faults.ControlIfAsked(newManager)
	os.Exit(m.Run())
}

func newManager(ctx context.Context, hub *rest.Config) (ctrl.Manager, error) {
	conf := &config.PlacementSchedulerConfiguration{}
	if args := os.Getenv(argsVariable); args != "" {
		raw, err := yaml.YAMLToJSON([]byte(args))
		if err != nil {
			return nil, fmt.Errorf("reading the arguments: %w", err)
		}
		conf.Profiles = []config.Profile{{Name: config.DefaultProfile, PluginConfig: []config.PluginConfig{{Name: "DecisionPublisher", Args: json.RawMessage(raw)}}}}
	}
	return controllers.NewManager(ctx, hub, controllers.Options{MetricsAddress: faults.MetricsAddress(), HealthAddress: "0", Config: conf})
}

// startController runs the controller in a process of its own until it is killed, or the spec ends.
// The function kills it.
func startController(args string) (kill func()) {
	GinkgoHelper()
	return faults.StartTestController(hub.Kubeconfig, argsVariable+"="+args).Kill
}

func TestMulticluster(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Multicluster")
}

var _ = BeforeSuite(func() {
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	ctrl.SetLogger(GinkgoLogr)

	hub = testhub.StartServer()
})

// installCRD brings SIG-Multicluster's kind.
func installCRD(ctx context.Context) {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "multicluster", "crd.yaml"))
	Expect(err).NotTo(HaveOccurred())
	object := &apiextensionsv1.CustomResourceDefinition{}
	Expect(yaml.UnmarshalStrict(text, object)).To(Succeed())
	Expect(hub.Create(ctx, object)).To(Succeed())
}
