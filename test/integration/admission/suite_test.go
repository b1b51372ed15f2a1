// Package admission tests, on a real API server with real users, that no user can submit a
// Placement as another user.
package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	webhooks "github.com/berth-dev/berth/config/webhook"
	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
	"github.com/berth-dev/berth/test/testhub"
)

const (
	group     = "cluster.open-cluster-management.io"
	userInfo  = "yunikorn.apache.org/user.info"
	userLabel = "yunikorn.apache.org/username"
	queue     = "yunikorn.apache.org/queue"
	namespace = "team"
	// soon is how long the API server may take to act on a webhook configuration.
	soon = 20 * time.Second
)

var (
	hub *testhub.Hub
	// serving says where the handlers are and with which certificate; stopServing ends them.
	serving     envtest.WebhookInstallOptions
	stopServing func()
	// clientCA is the file with the authority of the API server's client certificate.
	clientCA string

	// settings and administrator are what the handlers go by.
	settings      atomic.Pointer[identity.AccessControl]
	administrator atomic.Pointer[string]
)

func TestAdmission(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Admission")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	folder := GinkgoT().TempDir()
	clientCA = makeClientCertificates(folder)
	hub = testhub.StartServer(func(e *envtest.Environment) {
		e.ControlPlane.GetAPIServer().Configure().Set("admission-control-config-file", filepath.Join(folder, "admission.yaml"))
	})
	for _, name := range []string{namespace, "berth-system"} {
		testhub.CreateNamespace(ctx, hub, name)
	}
	letEverybodyIn(ctx)

	Expect(serving.PrepWithoutInstalling()).To(Succeed())
	putInForce(nil)
	startServing()
	DeferCleanup(func() { stopServing() })
	mutating, validating, err := webhooks.At(fmt.Sprintf("https://%s:%d", serving.LocalServingHost, serving.LocalServingPort),
		serving.LocalServingCAData, "berth-system", "yunikorn-configs")
	Expect(err).NotTo(HaveOccurred())
	Expect(hub.Create(ctx, mutating)).To(Succeed())
	Expect(hub.Create(ctx, validating)).To(Succeed())
	Expect(hub.Create(ctx, tamperers())).To(Succeed())
	awaitWebhooks(ctx)
})

// letEverybodyIn gives the rights that are not at issue.
func letEverybodyIn(ctx context.Context) {
	GinkgoHelper()
	Expect(hub.Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "everybody"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{group}, Resources: []string{"*"}, Verbs: []string{"*"}},
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}},
		},
	})).To(Succeed())
	Expect(hub.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "everybody"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "everybody"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:authenticated"}},
	})).To(Succeed())
}

// configure applies settings until the spec ends. Their names come without the prefix.
func configure(values map[string]string) {
	GinkgoHelper()
	putInForce(values)
	DeferCleanup(putInForce, map[string]string{})
}

func putInForce(values map[string]string) {
	GinkgoHelper()
	full := map[string]string{}
	for key, value := range values {
		full["admissionController.accessControl."+key] = value
	}
	control, warnings := identity.ParseAccessControl(full)
	Expect(warnings).To(BeEmpty())
	settings.Store(&control)
}

func startServing() {
	GinkgoHelper()
	verify, err := admission.VerifyClients(clientCA)
	Expect(err).NotTo(HaveOccurred())
	server := webhook.NewServer(webhook.Options{
		Host: serving.LocalServingHost, Port: serving.LocalServingPort, CertDir: serving.LocalServingCertDir,
		TLSOpts: []func(*tls.Config){verify},
	})
	Expect(admission.Register(server, admission.Options{
		Access: func() identity.AccessControl { return *settings.Load() },
		PublishedQueue: func(_ context.Context, placement types.NamespacedName, uid types.UID) string {
			return placement.Namespace + " " + string(uid)
		},
		GuardedTags: func(string) []string { return []string{"team"} },
		Administers: func(record string, who identity.Identity) bool {
			name := administrator.Load()
			return name != nil && who.User == *name && strings.HasPrefix(record, namespace+" ") && record != namespace+" "
		},
		QueueConfig: types.NamespacedName{Namespace: "berth-system", Name: "yunikorn-configs"},
		CheckQueues: func(text []byte) ([]string, error) {
			if string(text) == "broken" {
				return nil, errors.New("line 1: broken")
			}
			return []string{"line 1: odd"}, nil
		},
	})).To(Succeed())
	server.Register("/replace", tamper(webhook.JSONPatchOp{Operation: "replace", Path: "/metadata/annotations/yunikorn.apache.org~1user.info", Value: `{"user":"eve"}`}))
	server.Register("/remove", tamper(webhook.JSONPatchOp{Operation: "remove", Path: "/metadata/annotations"}))

	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- server.Start(ctx) }()
	stopServing = func() {
		cancel()
		Eventually(stopped).WithTimeout(soon).Should(Receive(BeNil()))
	}
}

func awaitWebhooks(ctx context.Context) {
	GinkgoHelper()
	probe := newPlacement("v1beta1", "probe")
	Eventually(func(g Gomega) {
		g.Expect(hub.As("probe").Create(ctx, probe.DeepCopy(), client.DryRunAll)).To(Succeed())
		for _, how := range []string{"replace", "remove"} {
			forged := probe.DeepCopy()
			forged.SetLabels(map[string]string{"tamper": how})
			g.Expect(hub.As("probe").Create(ctx, forged, client.DryRunAll)).To(MatchError(ContainSubstring("verify.placements.berth.dev")))
		}
	}).WithTimeout(soon).Should(Succeed())
}

// tamper changes every object it is asked about.
func tamper(patch webhook.JSONPatchOp) *webhook.Admission {
	return &webhook.Admission{Handler: tampering{patch}}
}

type tampering struct{ patch webhook.JSONPatchOp }

func (t tampering) Handle(context.Context, webhook.AdmissionRequest) webhook.AdmissionResponse {
	return webhook.Patched("", t.patch)
}

// tamperers run after Berth's webhook, by their name, on Placements whose label asks for it.
func tamperers() *admissionregistrationv1.MutatingWebhookConfiguration {
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "zz-tamperers"}}
	for _, how := range []string{"replace", "remove"} {
		url := fmt.Sprintf("https://%s:%d/%s", serving.LocalServingHost, serving.LocalServingPort, how)
		none := admissionregistrationv1.SideEffectClassNone
		configuration.Webhooks = append(configuration.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name:                    how + ".tamper.example.com",
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: serving.LocalServingCAData},
			SideEffects:             &none,
			AdmissionReviewVersions: []string{"v1"},
			ObjectSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{"tamper": how}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{"placements"}},
			}},
		})
	}
	return configuration
}

// placement is a Placement in a version, removed when the spec ends if it comes to exist.
func placement(version, name string) *unstructured.Unstructured {
	GinkgoHelper()
	object := newPlacement(version, name)
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(hub.Delete(ctx, object.DeepCopy()))).To(Succeed())
	})
	return object
}

func newPlacement(version, name string) *unstructured.Unstructured {
	GinkgoHelper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(group + "/" + version)
	object.SetKind("Placement")
	object.SetNamespace(namespace)
	object.SetName(name)
	Expect(unstructured.SetNestedField(object.Object, int64(3), "spec", "numberOfClusters")).To(Succeed())
	return object
}

func annotated(object *unstructured.Unstructured, value string) *unstructured.Unstructured {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[userInfo] = value
	object.SetAnnotations(annotations)
	return object
}

func labelled(object *unstructured.Unstructured, key, value string) *unstructured.Unstructured {
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[key] = value
	object.SetLabels(labels)
	return object
}

// stored is the object as it is on the server, read in the version given.
func stored(ctx context.Context, object *unstructured.Unstructured, version string) *unstructured.Unstructured {
	GinkgoHelper()
	found := &unstructured.Unstructured{}
	found.SetAPIVersion(group + "/" + version)
	found.SetKind(object.GetKind())
	Expect(hub.Get(ctx, client.ObjectKeyFromObject(object), found)).To(Succeed())
	return found
}
