// Package mistakes applies files with one mistake each to a real API server with the controller and
// its webhooks, and compares the line that the user sees.
package mistakes

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/pkg/install"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var hub *testhub.Hub

func TestMistakes(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(20 * time.Second)
	RunSpecs(t, "Mistakes")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	hub = testhub.Start(ctx)
	for _, name := range []string{"shop", "empty"} {
		testhub.CreateNamespace(ctx, hub, name)
	}
	Expect(hub.Create(ctx, fixture.Set("eu"))).To(Succeed())
	Expect(hub.Create(ctx, fixture.Binding("shop", "eu"))).To(Succeed())
	Expect(hub.Create(ctx, fixture.Cluster("paris").Set("eu").Obj())).To(Succeed())
	Expect(hub.Create(ctx, fixture.Placement("shop", "stored").Obj())).To(Succeed())

	serving := envtest.WebhookInstallOptions{}
	Expect(serving.PrepWithoutInstalling()).To(Succeed())
	DeferCleanup(serving.Cleanup)
	controller := hub.StartController(controllers.Options{Housekeeping: []string{"*"}, Webhooks: &webhook.Options{
		Host: serving.LocalServingHost, Port: serving.LocalServingPort, CertDir: serving.LocalServingCertDir,
	}})
	DeferCleanup(controller.Stop)
	address := "https://" + net.JoinHostPort(serving.LocalServingHost, strconv.Itoa(serving.LocalServingPort))
	Expect(install.ValidationWebhooks(ctx, hub.Config, address, serving.LocalServingCAData)).To(Succeed())
	// Policies and webhooks take a moment to be used, and the fleet to be listed.
	for _, file := range []string{"12-unknown-builtin", "30-set-not-bound", "41-set-badselector", "47-priority", "44-quantity", "46-anno-approval", "79-policy-not-required"} {
		want := readFile(filepath.Join("files", file+".yaml")).want[0]
		Eventually(func() []string { return apply(ctx, file, true) }).Should(ContainElement(want), file)
	}
})

// file is a YAML file with a mistake. Its comments are the lines that the user sees: the error, the
// warnings, or the condition.
type file struct {
	want []string
	yaml string
}

func readFile(path string) file {
	text, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	f := file{yaml: string(text)}
	for line := range strings.SplitSeq(f.yaml, "\n") {
		if comment, ok := strings.CutPrefix(line, "# "); ok {
			f.want = append(f.want, comment)
		}
	}
	Expect(f.want).NotTo(BeEmpty(), fmt.Sprintf("%s does not say what the user sees", path))
	return f
}
