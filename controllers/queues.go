package controllers

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/scheduler/report"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
)

// Permissions for queues. The ConfigMap is in the controller's namespace.
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=list;watch,roleName=berth-queues
// +kubebuilder:rbac:groups="",namespace=berth-system,resources=configmaps,verbs=list;watch,roleName=berth-queues

// queueConfig reads the queues' ConfigMap on every replica, because every replica answers admission
// requests.
type queueConfig struct {
	name   types.NamespacedName
	cache  cache.Cache
	queues *admission.Queues
	events *eventSender
	log    logr.Logger
	// read is closed when the ConfigMap has been read, or is known to be missing.
	read chan struct{}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*queueConfig) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (c *queueConfig) Start(ctx context.Context) error {
	// An admission request looks up a Placement's queue in its pages. Every replica caches pages in
	// advance, so that no request has to wait for the first list.
	if _, err := informerOf(ctx, c.cache, &v1alpha1.PlacementDecision{}); err != nil {
		return fmt.Errorf("watching PlacementDecisions: %w", err)
	}
	informer, err := informerOf(ctx, c.cache, &corev1.ConfigMap{})
	if err != nil {
		return fmt.Errorf("watching ConfigMap %s: %w", c.name, err)
	}
	missing := fmt.Sprintf("ConfigMap %s does not exist", c.name)
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.configure(obj) },
		UpdateFunc: func(_, obj any) { c.configure(obj) },
		DeleteFunc: func(any) {
			c.log.Info("The queue configuration was deleted; the last valid one stays in use", "configMap", c.name.String())
			c.queues.Unconfigured(missing)
		},
	})
	if err != nil {
		return fmt.Errorf("handling ConfigMap %s: %w", c.name, err)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil
	}
	if err := c.cache.Get(ctx, c.name, &corev1.ConfigMap{}); err != nil {
		c.queues.Unconfigured(missing)
		c.log.Info("The queue configuration does not exist; no Placement is admitted", "configMap", c.name.String())
	}
	close(c.read)
	<-ctx.Done()
	return nil
}

func (c *queueConfig) configure(obj any) {
	config, ok := obj.(*corev1.ConfigMap)
	if !ok || client.ObjectKeyFromObject(config) != c.name {
		return
	}
	warnings, err := c.queues.Configure(config)
	for _, warning := range warnings {
		c.log.Info("A setting in the queue configuration has no effect", "configMap", c.name.String(), "warning", warning)
		c.events.SendAbout(config, report.Event{Type: corev1.EventTypeWarning, Reason: "QueueConfigWarning", Action: "ReadQueueConfig", Note: warning})
	}
	if err != nil {
		c.log.Error(err, "The queue configuration is invalid; the last valid one stays in use", "configMap", c.name.String())
		c.events.SendAbout(config, report.Event{Type: corev1.EventTypeWarning, Reason: "QueueConfigInvalid", Action: "ReadQueueConfig", Note: err.Error()})
	}
}

// setUpQueues sets up queues for the feed: the reader of their ConfigMap and, if configured, the
// webhooks.
func (f *feed) setUpQueues(mgr ctrl.Manager, o Options, events *eventSender) error {
	if o.QueueConfig.Name == "" {
		return nil
	}
	f.queues = admission.NewQueues(admission.QueuesOptions{
		UserLabel: os.Getenv(identity.UserLabelEnv), Published: f.inventory.Published, Recorded: f.inventory.RecordedQueue, Now: o.Now,
		OnAffected: f.enqueueIfStarted, Clusters: f.inventory.MaxClusters,
	})
	config := &queueConfig{
		name: o.QueueConfig, cache: mgr.GetCache(), queues: f.queues, events: events,
		log: o.Log.WithName("queues"), read: make(chan struct{}),
	}
	f.queuesRead = config.read
	if err := mgr.Add(config); err != nil {
		return fmt.Errorf("adding the queue configuration: %w", err)
	}
	if o.Webhooks == nil {
		return nil
	}
	return registerWebhooks(mgr, f.queues, o.QueueConfig)
}

// registerWebhooks registers the admission handlers with the manager's webhook server.
func registerWebhooks(mgr ctrl.Manager, queues *admission.Queues, name types.NamespacedName) error {
	return admission.Register(mgr.GetWebhookServer(), admission.Options{
		Access: queues.Access, UserLabel: os.Getenv(identity.UserLabelEnv),
		QueueConfig: name, CheckQueues: func(text []byte) ([]string, error) { return checkQueues(mgr, text) },
		GuardedTags: queues.GuardedTags, Administers: queues.Administers,
		PublishedQueue: func(ctx context.Context, placement types.NamespacedName, uid types.UID) string {
			return publishedQueue(ctx, mgr, placement, uid)
		},
	})
}

// checkTimeout is how long a check of a queue configuration may wait for the cache.
const checkTimeout = 3 * time.Second

// checkQueues validates a queue configuration for the Placements of the hub. If they cannot be
// listed, it validates the text alone.
func checkQueues(mgr ctrl.Manager, text []byte) (warnings []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	placements, pages := &v1alpha1.PlacementList{}, &v1alpha1.PlacementDecisionList{}
	namespaces := &metav1.PartialObjectMetadataList{}
	namespaces.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
	for _, list := range []client.ObjectList{placements, pages, namespaces} {
		if err := mgr.GetClient().List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			mgr.GetLogger().Error(err, "Listing the Placements failed; the queue configuration is checked without them")
			return admission.CheckQueues(text)
		}
	}
	hub := admission.Submitted{}
	for i := range placements.Items {
		hub.Placements = append(hub.Placements, &placements.Items[i])
	}
	for i := range pages.Items {
		hub.Pages = append(hub.Pages, &pages.Items[i])
	}
	for i := range namespaces.Items {
		hub.Namespaces = append(hub.Namespaces, &namespaces.Items[i])
	}
	return admission.CheckQueuesFor(text, os.Getenv(identity.UserLabelEnv), hub)
}

// publishedQueue returns the queue annotation of the pages of the Placement with this UID. The
// first page by name with the annotation counts. It is empty without one, or if the pages cannot be
// listed.
func publishedQueue(ctx context.Context, mgr ctrl.Manager, placement types.NamespacedName, uid types.UID) string {
	if uid == "" {
		return ""
	}
	pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: placement.Namespace, Name: placement.Name, UID: uid}}
	pages := &v1alpha1.PlacementDecisionList{}
	err := mgr.GetClient().List(ctx, pages, client.InNamespace(placement.Namespace), client.MatchingLabels{v1alpha1.PlacementLabel: placement.Name})
	if err != nil {
		mgr.GetLogger().Error(err, "Listing the PlacementDecisions failed; no user counts as an administrator of the queue", "placement", placement.String())
		return ""
	}
	slices.SortFunc(pages.Items, func(a, b v1alpha1.PlacementDecision) int { return strings.Compare(a.Name, b.Name) })
	for i := range pages.Items {
		page := &pages.Items[i]
		if annotation := page.Annotations[v1alpha1.QueueAnnotation]; annotation != "" && pl.Publishes(page) && pl.Controls(page) {
			return annotation
		}
	}
	return ""
}

// namespaceMetadata is a Namespace of which only the metadata is read.
func namespaceMetadata() *metav1.PartialObjectMetadata {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace
}
