package housekeeping

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// crdKind is the kind of CustomResourceDefinitions.
var crdKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}

// clusterProfileLoop is the housekeeping loop that only its name selects.
const clusterProfileLoop = "cluster-profile"

// profileIndex indexes clusters by the ClusterProfile that they were made from.
const profileIndex = "metadata.annotations." + v1alpha1.ClusterProfileAnnotation

// ClusterProfileOptions configure the housekeeping loop cluster-profile.
type ClusterProfileOptions struct {
	// Namespaces have the ClusterProfiles.
	Namespaces []string
	// Qualified names each ManagedCluster NAMESPACE.NAME instead of NAME.
	Qualified bool
}

// check returns an error unless there are namespaces exactly if the loop runs.
func (o ClusterProfileOptions) check(runs bool) error {
	if runs != (len(o.Namespaces) > 0) {
		return fmt.Errorf("--housekeeping: the controller %s and --cluster-profile-namespace need each other; for example --housekeeping=*,%[1]s", clusterProfileLoop)
	}
	for i, namespace := range o.Namespaces {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return fmt.Errorf("--cluster-profile-namespace: %q is no namespace: %s", namespace, problems[0])
		}
		if slices.Contains(o.Namespaces[:i], namespace) {
			return fmt.Errorf("--cluster-profile-namespace: %q is given twice", namespace)
		}
	}
	return nil
}

// profileWorkers is how many ManagedClusters are written at once.
const profileWorkers = 4

// An event about a profile is sent again when its text changes, but not within eventPause, and
// otherwise after eventRepeat.
const (
	eventPause  = time.Minute
	eventRepeat = time.Hour
)

// ClusterProfileReconciler makes a ManagedCluster of each ClusterProfile in some namespaces. Each
// request is the name of a ManagedCluster. It changes only ManagedClusters that it marked, and
// deletes one only when it knows that its profile was deleted.
type ClusterProfileReconciler struct {
	Options
	Client client.Client
	// Hub reads past the cache.
	Hub client.Reader
	// Profiles lists and watches ClusterProfiles.
	Profiles dynamic.Interface

	views *profileViews
	mu    sync.Mutex
	// sent are the last events by profile and reason.
	sent map[types.NamespacedName]map[string]sentEvent
}

type sentEvent struct {
	note string
	at   time.Time
}

// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters,verbs=create;patch;delete,roleName=berth-cluster-profiles
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters/status,verbs=patch,roleName=berth-cluster-profiles
// +kubebuilder:rbac:groups=multicluster.x-k8s.io,resources=clusterprofiles,verbs=get;list;watch,roleName=berth-cluster-profiles
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=clusterprofiles.multicluster.x-k8s.io,verbs=get,roleName=berth-cluster-profiles

// SetUp adds the reconciler to a manager.
func (r *ClusterProfileReconciler) SetUp(ctx context.Context, mgr ctrl.Manager) error {
	r.sent = map[types.NamespacedName]map[string]sentEvent{}
	r.views = newProfileViews(r.Options, r.Profiles, r.definition, r.nameOf)
	if err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.ManagedCluster{}, profileIndex, profileOfCluster); err != nil {
		return fmt.Errorf("indexing clusters by ClusterProfile: %w", err)
	}
	concerned := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		m, marked := markOf(o)
		if !marked && len(r.views.wanting(o.GetName())) == 0 {
			return nil
		}
		requests := []reconcile.Request{{NamespacedName: types.NamespacedName{Name: o.GetName()}}}
		if wanted := r.nameOf(m.NamespacedName); marked && wanted != o.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: wanted}})
		}
		return requests
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named(clusterProfileLoop).
		Watches(&v1alpha1.ManagedCluster{}, concerned).
		WatchesRawSource(profileSource{r}).
		WithOptions(controller.Options{MaxConcurrentReconciles: profileWorkers}).
		Complete(r)
}

// profileOfCluster is the index profileIndex.
func profileOfCluster(o client.Object) []string {
	if m, marked := markOf(o); marked {
		return []string{m.String()}
	}
	return nil
}

// profileSource queues the ManagedClusters of profiles that change.
type profileSource struct{ *ClusterProfileReconciler }

// Start implements source.Source. It does not wait for the profiles: a hub without them, or without
// permission to read them, delays nothing else.
func (s profileSource) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	for _, namespace := range s.ClusterProfiles.Namespaces {
		go s.views.follow(ctx, namespace, func(key types.NamespacedName) {
			s.forget(key)
			for _, name := range s.clustersOf(ctx, key) {
				queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
			}
		})
	}
	return nil
}

// String is the name of the source in the log.
func (profileSource) String() string { return "ClusterProfiles" }

// clustersOf returns the names of the ManagedClusters of a profile: the one that it wants, and
// those made from it. Without a name, they are those made from any profile of the namespace.
func (r *ClusterProfileReconciler) clustersOf(ctx context.Context, profile types.NamespacedName) []string {
	var names []string
	var options []client.ListOption
	if profile.Name != "" {
		names = append(names, r.nameOf(profile))
		options = append(options, client.MatchingFields{profileIndex: profile.String()})
	}
	var made v1alpha1.ManagedClusterList
	if err := r.Client.List(ctx, &made, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		r.Log.Error(err, "The ManagedClusters of a ClusterProfile cannot be listed", "profile", profile)
		return names
	}
	for i := range made.Items {
		if m, marked := markOf(&made.Items[i]); marked && m.Namespace == profile.Namespace {
			names = append(names, made.Items[i].Name)
		}
	}
	return names
}

// nameOf returns the name of a profile's ManagedCluster.
func (r *ClusterProfileReconciler) nameOf(profile types.NamespacedName) string {
	if r.ClusterProfiles.Qualified {
		return profile.Namespace + "." + profile.Name
	}
	return profile.Name
}

// Reconcile implements reconcile.Reconciler.
func (r *ClusterProfileReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var c v1alpha1.ManagedCluster
	err := r.Client.Get(ctx, request.NamespacedName, &c)
	if apierrors.IsNotFound(err) {
		return r.create(ctx, request.Name)
	}
	if err != nil || !c.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, err
	}
	owner, marked := markOf(&c)
	if err := r.refuse(ctx, &c, owner.NamespacedName); err != nil || !marked || !slices.Contains(r.ClusterProfiles.Namespaces, owner.Namespace) {
		return ctrl.Result{}, err
	}
	p, complete := r.views.get(owner.NamespacedName)
	switch {
	case p != nil && p.unreadable == "":
		return r.update(ctx, &c, p)
	case p != nil:
		r.warn(p, "ClusterProfileNotReadable", fmt.Sprintf("ManagedCluster %s stays as it is: %s", c.Name, p.unreadable))
	case complete:
		return r.remove(ctx, &c, owner)
	}
	return ctrl.Result{}, nil
}

// refuse warns the profiles that want a ManagedCluster that is not theirs.
func (r *ClusterProfileReconciler) refuse(ctx context.Context, c *v1alpha1.ManagedCluster, owner types.NamespacedName) error {
	for _, p := range r.views.wanting(c.Name) {
		if p.NamespacedName == owner {
			continue
		}
		if has, err := r.hasOtherCluster(ctx, p, c.Name); has || err != nil {
			return err
		}
		note := "exists and was not made from a ClusterProfile; it is not changed"
		if owner.Name != "" {
			note = "was made from ClusterProfile " + owner.String()
		}
		r.warn(p, "ClusterNameTaken", fmt.Sprintf("ManagedCluster %s %s", c.Name, note))
	}
	return nil
}

// hasOtherCluster is true if a ManagedCluster of another name is marked as the profile's: it was
// made with other flags, or a user annotated it. The profile gets an event, and no second cluster.
func (r *ClusterProfileReconciler) hasOtherCluster(ctx context.Context, p *clusterProfile, name string) (bool, error) {
	var made v1alpha1.ManagedClusterList
	if err := r.Client.List(ctx, &made, client.MatchingFields{profileIndex: p.String()}, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing the clusters of a ClusterProfile: %w", err)
	}
	if len(made.Items) == 0 {
		return false, nil
	}
	r.warn(p, "ClusterHasOtherName", fmt.Sprintf("ManagedCluster %s is not made, because ManagedCluster %s has the annotation %s of this profile",
		shown(name), shown(made.Items[0].Name), v1alpha1.ClusterProfileAnnotation))
	return true, nil
}

// create makes the ManagedCluster of the first profile that wants one of this name.
func (r *ClusterProfileReconciler) create(ctx context.Context, name string) (ctrl.Result, error) {
	for _, p := range r.views.wanting(name) {
		if has, err := r.hasOtherCluster(ctx, p, name); err != nil {
			return ctrl.Result{}, err
		} else if has {
			continue
		}
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			r.warn(p, "InvalidClusterName", fmt.Sprintf("%s is no name for a ManagedCluster: %s", shown(name), problems[0]))
			continue
		}
		if p.unreadable != "" {
			r.warn(p, "ClusterProfileNotReadable", "There is no ManagedCluster for it: "+p.unreadable)
			continue
		}
		return r.createFor(ctx, p, name)
	}
	return ctrl.Result{}, nil
}

func (r *ClusterProfileReconciler) createFor(ctx context.Context, p *clusterProfile, name string) (ctrl.Result, error) {
	c := &v1alpha1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ManagedClusterSpec{HubAcceptsClient: true}}
	p.describe(c)
	err := r.Client.Create(ctx, c)
	switch {
	case apierrors.IsAlreadyExists(err):
		// Its event follows.
		return ctrl.Result{}, nil
	case apierrors.IsInvalid(err) || apierrors.IsForbidden(err):
		r.warn(p, "ClusterRefused", err.Error())
		return ctrl.Result{}, err
	case err != nil:
		return ctrl.Result{}, err
	}
	r.Log.Info("A ManagedCluster was made from a ClusterProfile", "cluster", name, "profile", p.NamespacedName)
	return r.updateStatus(ctx, c, p)
}

// update writes what differs between a ManagedCluster and its profile.
func (r *ClusterProfileReconciler) update(ctx context.Context, c *v1alpha1.ManagedCluster, p *clusterProfile) (ctrl.Result, error) {
	base := c.DeepCopy()
	p.describe(c)
	if !equality.Semantic.DeepEqual(base.ObjectMeta, c.ObjectMeta) {
		if err := r.Client.Patch(ctx, c, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})); err != nil {
			return RequeueOnConflict(err)
		}
	}
	return r.updateStatus(ctx, c, p)
}

func (r *ClusterProfileReconciler) updateStatus(ctx context.Context, c *v1alpha1.ManagedCluster, p *clusterProfile) (ctrl.Result, error) {
	if left := p.omissions(); left != "" {
		r.warn(p, "PartlyCopied", fmt.Sprintf("ManagedCluster %s does not have: %s", c.Name, left))
	}
	base := c.DeepCopy()
	p.report(c)
	if equality.Semantic.DeepEqual(base.Status, c.Status) {
		return ctrl.Result{}, nil
	}
	return RequeueOnConflict(r.Client.Status().Patch(ctx, c, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})))
}

// remove deletes a ManagedCluster whose profile was deleted. It asks the API server, because a
// watch shows the same when the CustomResourceDefinition is deleted, and with it all profiles:
// then, and when the definition was created again, the ManagedCluster stays.
func (r *ClusterProfileReconciler) remove(ctx context.Context, c *v1alpha1.ManagedCluster, owner profileMark) (ctrl.Result, error) {
	profile := &metav1.PartialObjectMetadata{}
	profile.SetGroupVersionKind(profileKind)
	err := r.Hub.Get(ctx, owner.NamespacedName, profile)
	if err == nil {
		// The watch is late.
		return ctrl.Result{RequeueAfter: hubRetry}, nil
	}
	if !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
		return ctrl.Result{}, fmt.Errorf("reading ClusterProfile %s: %w", owner.NamespacedName, err)
	}
	// Read after the profile: a definition that still exists now did not end it.
	crd, err := r.definition(ctx)
	switch {
	case apierrors.IsNotFound(err) || errors.Is(err, errTerminating) || err == nil && string(crd) != owner.crd:
		r.Log.Info("A ManagedCluster stays although its ClusterProfile is gone, because their CustomResourceDefinition was deleted",
			"cluster", c.Name, "profile", owner.NamespacedName)
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	err = r.Client.Delete(ctx, c, client.Preconditions{UID: &c.UID, ResourceVersion: &c.ResourceVersion})
	if err == nil {
		r.Log.Info("A ManagedCluster was deleted with its ClusterProfile", "cluster", c.Name, "profile", owner.NamespacedName)
	}
	return RequeueOnConflict(err)
}

// definition returns the UID of the CustomResourceDefinition of ClusterProfiles.
func (r *ClusterProfileReconciler) definition(ctx context.Context) (types.UID, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(crdKind)
	if err := r.Hub.Get(ctx, client.ObjectKey{Name: profileCRD}, crd); err != nil {
		return "", fmt.Errorf("reading the CustomResourceDefinition of ClusterProfiles: %w", err)
	}
	if !crd.DeletionTimestamp.IsZero() {
		return "", errTerminating
	}
	return crd.UID, nil
}

// forget drops the last events of a profile that is gone.
func (r *ClusterProfileReconciler) forget(key types.NamespacedName) {
	if p, _ := r.views.get(key); p == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.sent, key)
	}
}

// warn sends an event about a profile, unless the same one was sent not long ago.
func (r *ClusterProfileReconciler) warn(p *clusterProfile, reason, note string) {
	now := r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.sent[p.NamespacedName][reason]
	if age := now.Sub(last.at); known && (age < eventPause || last.note == note && age < eventRepeat) {
		return
	}
	if r.sent[p.NamespacedName] == nil {
		r.sent[p.NamespacedName] = map[string]sentEvent{}
	}
	r.sent[p.NamespacedName][reason] = sentEvent{note, now}
	r.Event(corev1.ObjectReference{
		APIVersion: profileKind.GroupVersion().String(), Kind: profileKind.Kind, Namespace: p.Namespace, Name: p.Name, UID: p.uid,
	}, corev1.EventTypeWarning, reason, "MakeCluster", note)
}
