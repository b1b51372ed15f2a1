// Package queues tests queues on a real API server with Berth's webhooks and real users: which
// cluster sets a Placement may use, records and messages, and the effect of a new configuration or
// a restart. It also tests that nothing changes without queues.
package queues

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	webhooks "github.com/berth-dev/berth/config/webhook"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// patience is how long a step may take on a busy machine; most take milliseconds.
const patience = 20 * time.Second

var (
	hub *testhub.Hub
	// unaware is an administrator whose requests the API server logs.
	unaware *rest.Config
	// serving says where the handlers are and with which certificate.
	serving envtest.WebhookInstallOptions
	// audit is the API server's log of requests.
	audit string
	// berth is the controller under test.
	berth *testhub.Controller
	// said receives the log lines of the controller that was started last.
	said chan string

	queueConfig = types.NamespacedName{Namespace: "berth-system", Name: "yunikorn-configs"}
)

func TestQueues(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Queues")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(patience)
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	ctrl.SetLogger(GinkgoLogr)

	folder := GinkgoT().TempDir()
	audit = filepath.Join(folder, "audit.log")
	policy := filepath.Join(folder, "policy.yaml")
	Expect(os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Request, userGroups: [unaware]}, {level: None}]\n"), 0o600)).To(Succeed())
	var environment *envtest.Environment
	hub = testhub.StartServer(func(e *envtest.Environment) {
		environment = e
		e.ControlPlane.GetAPIServer().Configure().
			Set("audit-policy-file", policy).Set("audit-log-path", audit).Set("audit-log-mode", "blocking")
	})
	user, err := environment.AddUser(envtest.User{Name: "unaware", Groups: []string{"system:masters", "unaware"}}, hub.Config)
	Expect(err).NotTo(HaveOccurred())
	unaware = user.Config()
	makeFleet(ctx)
	Expect(serving.PrepWithoutInstalling()).To(Succeed())
})

// makeFleet makes three cluster sets of two clusters each, all bound to both namespaces, and gives
// everybody the rights that are not at issue.
func makeFleet(ctx context.Context) {
	GinkgoHelper()
	for _, name := range []string{"berth-system", "team", "other"} {
		testhub.CreateNamespace(ctx, hub, name)
	}
	for _, set := range []string{"dev", "prod", "lab"} {
		Expect(hub.Create(ctx, fixture.Set(set))).To(Succeed())
		for _, namespace := range []string{"team", "other"} {
			Expect(hub.Create(ctx, fixture.Binding(namespace, set))).To(Succeed())
		}
		for i := range 2 {
			Expect(hub.Create(ctx, fixture.Cluster(fmt.Sprintf("%s-%d", set, i+1)).Set(set).Obj())).To(Succeed())
		}
	}
	Expect(hub.Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "everybody"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"placements"}, Verbs: []string{"*"}},
			{APIGroups: []string{berthv1alpha1.GroupName}, Resources: []string{"placementexplanations"}, Verbs: []string{"*"}},
		},
	})).To(Succeed())
	Expect(hub.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "everybody"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "everybody"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:authenticated"}},
	})).To(Succeed())
}

// start runs the controller with the rights of config.
func start(config *rest.Config, o controllers.Options) *testhub.Controller {
	GinkgoHelper()
	said = make(chan string, 10000)
	to := said
	o.Log = funcr.New(func(prefix, args string) {
		GinkgoWriter.Println(prefix, args)
		select {
		case to <- args:
		default:
		}
	}, funcr.Options{})
	return testhub.StartController(config, o)
}

// withQueues are the options with which berth up runs the controller. Its handlers listen where the
// webhooks point.
func withQueues() controllers.Options {
	return controllers.Options{QueueConfig: queueConfig, Webhooks: &webhook.Options{
		Host: serving.LocalServingHost, Port: serving.LocalServingPort, CertDir: serving.LocalServingCertDir,
	}}
}

// guard has the API server ask the controller about every Placement.
func guard(ctx context.Context) {
	GinkgoHelper()
	mutating, validating, err := webhooks.At(fmt.Sprintf("https://%s:%d", serving.LocalServingHost, serving.LocalServingPort),
		serving.LocalServingCAData, queueConfig.Namespace, queueConfig.Name)
	Expect(err).NotTo(HaveOccurred())
	Expect(hub.Create(ctx, mutating)).To(Succeed())
	Expect(hub.Create(ctx, validating)).To(Succeed())
	Eventually(answers).WithContext(ctx).Should(Succeed())
}

// answers says whether forgeries are refused by now.
func answers(ctx context.Context) error {
	forged := fixture.Placement("team", "probe").Annotation(userInfo, `{"user":"eve"}`).Obj()
	err := hub.As("probe").Create(ctx, forged, client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), "not allowed to set user annotation") {
		return fmt.Errorf("the webhooks do not answer yet: %w", err)
	}
	return nil
}

// withoutGuard takes the webhooks away, as before queues are switched on, until the function
// returned is called.
func withoutGuard(ctx context.Context) (again func()) {
	GinkgoHelper()
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	for _, configuration := range []client.Object{mutating, validating} {
		Expect(hub.Get(ctx, client.ObjectKey{Name: webhooks.Name}, configuration)).To(Succeed())
		Expect(hub.Delete(ctx, configuration)).To(Succeed())
		configuration.SetResourceVersion("")
	}
	probe := fixture.Placement("team", "probe").Annotation(userInfo, `{"user":"eve"}`).Obj()
	Eventually(func() error { return hub.Create(ctx, probe.DeepCopy(), client.DryRunAll) }).Should(Succeed())
	return func() {
		Expect(hub.Create(ctx, mutating)).To(Succeed())
		Expect(hub.Create(ctx, validating)).To(Succeed())
	}
}
