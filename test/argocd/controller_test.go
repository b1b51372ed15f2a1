package argocd

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/argoproj/argo-cd/v3/applicationset/controllers"
	"github.com/argoproj/argo-cd/v3/applicationset/generators"
	appsetmetrics "github.com/argoproj/argo-cd/v3/applicationset/metrics"
	"github.com/argoproj/argo-cd/v3/applicationset/progressivesync"
	"github.com/argoproj/argo-cd/v3/applicationset/utils"
	argov1alpha1 "github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/db"
	"github.com/argoproj/argo-cd/v3/util/settings"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// argoCD is Argo CD's ApplicationSet controller, with the clients and rights of its service
// account.
type argoCD struct {
	config   *rest.Config
	kube     kubernetes.Interface
	dynamic  dynamic.Interface
	clusters *settings.ClusterInformer
	stopped  chan error
}

func newArgoCD(ctx context.Context) *argoCD {
	GinkgoHelper()
	a := &argoCD{config: rest.CopyConfig(config)}
	a.config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:argocd:argocd-applicationset-controller",
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:argocd", "system:authenticated"},
	}
	a.config.WarningHandler = rest.NoWarnings{} // of the finalizer's name, at each Application
	var err error
	a.kube, err = kubernetes.NewForConfig(a.config)
	Expect(err).NotTo(HaveOccurred())
	a.dynamic, err = dynamic.NewForConfig(a.config)
	Expect(err).NotTo(HaveOccurred())
	a.clusters, err = settings.NewClusterInformer(a.kube, namespace)
	Expect(err).NotTo(HaveOccurred())
	go a.clusters.Run(ctx.Done())
	Expect(toolscache.WaitForCacheSync(ctx.Done(), a.clusters.HasSynced)).To(BeTrue())
	return a
}

func (a *argoCD) generator(ctx context.Context) generators.Generator {
	return generators.NewDuckTypeGenerator(ctx, a.dynamic, a.kube, namespace, a.clusters)
}

// run starts the controller as its command does; it runs until ctx ends, and says in stopped how it
// went.
func (a *argoCD) run(ctx context.Context) {
	GinkgoHelper()
	skip := true
	manager, err := ctrl.NewManager(a.config, ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		// A controller of the same name may have run before.
		Controller: ctrlconfig.Controller{SkipNameValidation: &skip},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
	})
	Expect(err).NotTo(HaveOccurred())
	syncing := utils.NewCacheSyncingClient(manager.GetClient(), manager.GetCache())
	// The metrics of a controller that ran before are registered already.
	ctrlmetrics.Registry = prometheus.NewRegistry()
	metrics := appsetmetrics.NewApplicationsetMetrics(utils.NewAppsetLister(manager.GetClient()), nil,
		func(*argov1alpha1.ApplicationSet) bool { return true })
	reconciler := &controllers.ApplicationSetReconciler{
		Generators: map[string]generators.Generator{
			"ClusterDecisionResource": a.generator(ctx),
			"Plugin":                  generators.NewPluginGenerator(syncing, namespace),
		},
		Client:                   syncing,
		Scheme:                   scheme,
		Recorder:                 manager.GetEventRecorderFor("applicationset-controller"), //nolint:staticcheck // what Argo CD takes
		Renderer:                 &utils.Render{},
		Policy:                   argov1alpha1.ApplicationsSyncPolicySync,
		KubeClientset:            a.kube,
		ArgoDB:                   db.NewDB(namespace, settings.NewSettingsManager(ctx, a.kube, namespace), a.kube),
		ArgoCDNamespace:          namespace,
		ApplicationSetNamespaces: []string{namespace},
		Metrics:                  &metrics,
		ClusterInformer:          a.clusters,
	}
	reconciler.ProgressiveSyncManager = progressivesync.NewManager(syncing, manager.GetAPIReader(), reconciler)
	Expect(reconciler.SetupWithManager(manager, false, 1)).To(Succeed())
	a.stopped = make(chan error, 1)
	go func() { a.stopped <- manager.Start(ctx) }()
}

// applications follows the Applications, and does for each that is deleted what the application
// controller would: lets it go.
type applications struct {
	prefix  string // of the names that count
	mu      sync.Mutex
	live    map[string]bool // clusters that have one
	deleted []string        // clusters whose Application was deleted, since the last call of taken
	total   int
}

// prefix comes before the cluster's name in the Applications of the user's guide.
const prefix = "book-import-"

// watchApplications starts with a hub that has none with the prefix.
func watchApplications(ctx context.Context, prefix string) *applications {
	GinkgoHelper()
	apps := &applications{prefix: prefix, live: map[string]bool{}}
	watcher, err := hub.Watch(ctx, &argov1alpha1.ApplicationList{}, client.InNamespace(namespace))
	Expect(err).NotTo(HaveOccurred())
	go func() {
		defer GinkgoRecover()
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			if ctx.Err() != nil {
				return
			}
			app, ok := event.Object.(*argov1alpha1.Application)
			Expect(ok).To(BeTrue(), "the watch of Applications ended: %v", event.Object)
			apps.see(event.Type, app)
			if app.DeletionTimestamp != nil && len(app.Finalizers) > 0 && event.Type != watch.Deleted {
				letGo(ctx, app)
			}
		}
		Expect(ctx.Err()).To(HaveOccurred(), "the watch of Applications ended")
	}()
	return apps
}

// letGo lets a deleted Application go. The end of the specs ends a request in progress too.
func letGo(ctx context.Context, app *argov1alpha1.Application) {
	app.Finalizers = nil
	if err := hub.Update(ctx, app); ctx.Err() == nil {
		Expect(client.IgnoreNotFound(err)).To(Succeed())
	}
}

func (a *applications) see(event watch.EventType, app *argov1alpha1.Application) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name, ok := strings.CutPrefix(app.Name, a.prefix)
	switch {
	case !ok:
	case event == watch.Deleted || app.DeletionTimestamp != nil:
		if a.live[name] {
			a.deleted = append(a.deleted, name)
			a.total++
		}
		delete(a.live, name)
	default:
		a.live[name] = true
	}
}

// clusters is a check for Eventually: those that have an Application.
func (a *applications) clusters() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := []string{}
	for name := range a.live {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// taken returns the clusters whose Application was deleted since the last call.
func (a *applications) taken() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.deleted
	a.deleted = nil
	slices.Sort(taken)
	return taken
}

// applicationSet is the one of the user's guide.
func applicationSet(ctx context.Context) *argov1alpha1.ApplicationSet {
	GinkgoHelper()
	set := &argov1alpha1.ApplicationSet{}
	Expect(hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "book-import"}, set)).To(Succeed())
	return set
}

// conditionOf is a check for Eventually: "status reason: message" of the ApplicationSet.
func conditionOf(ctx context.Context, kind argov1alpha1.ApplicationSetConditionType) func() string {
	return func() string {
		for _, c := range applicationSet(ctx).Status.Conditions {
			if c.Type == kind {
				return string(c.Status) + " " + c.Reason + ": " + c.Message
			}
		}
		return "not reported yet"
	}
}

// refresh makes Argo CD reconcile now, and waits until this and all earlier reconciliations end.
func refresh(ctx context.Context) {
	GinkgoHelper()
	const annotation = "argocd.argoproj.io/application-set-refresh"
	// A new value: one that is there since a time without pages tells Argo CD nothing.
	patch(ctx, applicationSet(ctx), `{"metadata":{"annotations":{%q:%q}}}`, annotation, time.Now().Format(time.RFC3339Nano))
	Eventually(func() map[string]string { return applicationSet(ctx).Annotations }).ShouldNot(HaveKey(annotation))
}

// revision is a check for Eventually: what revision of its source the Application of a cluster is
// to follow.
func revision(ctx context.Context, cluster string) func() string {
	return func() string { return application(ctx, cluster).Spec.Source.TargetRevision }
}

func application(ctx context.Context, cluster string) *argov1alpha1.Application {
	GinkgoHelper()
	app := &argov1alpha1.Application{}
	Expect(hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: prefix + cluster}, app)).To(Succeed())
	return app
}
