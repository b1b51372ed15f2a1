package install

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

var (
	config *rest.Config
	// hub is the person who administers the hub.
	hub client.Client
	// auditLog is a file to which the API server writes every request.
	auditLog string
	// warnings are what the API server warned of since they were last cleared.
	warnings bytes.Buffer
)

func TestInstall(t *testing.T) {
	os.Getenv("BERTH_INPUTS") // makes it part of what go test's cache knows this run by
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	RunSpecs(t, "Install")
}

// The hub checks what OpenShift's checks of owner references, too, and tells what everybody asks.
var _ = BeforeSuite(func() {
	ctrl.SetLogger(GinkgoLogr)
	folder := GinkgoT().TempDir()
	auditLog = filepath.Join(folder, "audit.log")
	policy := filepath.Join(folder, "policy.yaml")
	Expect(os.WriteFile(policy, []byte(`{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [{"level": "Metadata"}]}`), 0o600)).To(Succeed())
	environment := &envtest.Environment{BinaryAssetsDirectory: assets(), CRDDirectoryPaths: []string{certManagerCRDs()}}
	environment.ControlPlane.GetAPIServer().Configure().
		Set("authorization-mode", "RBAC").
		Set("enable-admission-plugins", "OwnerReferencesPermissionEnforcement").
		Set("audit-policy-file", policy).
		Set("audit-log-path", auditLog)
	var err error
	config, err = environment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)
	config.QPS = -1
	config.WarningHandler = rest.NewWarningWriter(&warnings, rest.WarningWriterOptions{})
	hub, err = client.New(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
})

// assets is the folder of etcd and kube-apiserver.
func assets() string {
	if folder := os.Getenv("KUBEBUILDER_ASSETS"); folder != "" {
		return folder
	}
	return filepath.Join(root, "bin", "hub")
}

// certManagerCRDs is the folder of cert-manager's CRDs in its module.
func certManagerCRDs() string {
	GinkgoHelper()
	module := output(context.Background(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager")
	return filepath.Join(strings.TrimSpace(module), "deploy", "crds")
}

// apply is kubectl apply --server-side with strict validation. Its error names object and field.
func apply(ctx context.Context, object *unstructured.Unstructured, options ...client.ApplyOption) error {
	options = append(options, client.FieldOwner("installer"), client.ForceOwnership)
	if err := hub.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), options...); err != nil {
		return fmt.Errorf("%s: %w", title(object), err)
	}
	return nil
}

// known says whether the local hub has the object's kind.
func known(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().Group != "monitoring.coreos.com"
}
