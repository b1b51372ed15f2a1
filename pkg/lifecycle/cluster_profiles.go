package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/decisions"
)

// DecisionPublisherArgs are the arguments of DecisionPublisher. Without arguments it writes only
// PlacementDecisions of cluster.open-cluster-management.io.
type DecisionPublisherArgs struct {
	// ClusterProfiles configures PlacementDecisions of multicluster.x-k8s.io/v1alpha1, which list
	// the same clusters.
	ClusterProfiles ClusterProfileOutput `json:"clusterProfiles,omitzero"`
}

// ClusterProfileOutput configures pages that refer to ClusterProfiles.
type ClusterProfileOutput struct {
	// Enabled turns these pages on. The hub must serve the kind and permit the controller to list
	// and write it. Default false.
	Enabled bool `json:"enabled,omitempty"`
	// Namespace is the namespace of the ClusterProfiles, which have the names of their
	// ManagedClusters. Default: the namespace of the Placement.
	Namespace string `json:"namespace,omitempty"`
	// Names is plain, or qualified: ManagedClusters are named NAMESPACE.NAME after their
	// ClusterProfiles, as with the controller's flag --cluster-profile-names=qualified. Then
	// namespace must not be set. Default plain.
	Names string `json:"names,omitempty"`
	// SchedulerName is the value of the pages' field schedulerName. Default "berth".
	SchedulerName string `json:"schedulerName,omitempty"`
}

const (
	defaultSchedulerName = "berth"
	plainNames           = "plain"
	qualifiedNames       = "qualified"
)

func (o ClusterProfileOutput) validate() error {
	var errs []error
	if o.Namespace != "" {
		for _, mistake := range validation.IsDNS1123Label(o.Namespace) {
			errs = append(errs, fmt.Errorf("clusterProfiles.namespace: %s", mistake))
		}
	}
	switch {
	case o.Names != plainNames && o.Names != qualifiedNames:
		errs = append(errs, fmt.Errorf("clusterProfiles.names: %q is not %s or %s", o.Names, plainNames, qualifiedNames))
	case o.Names == qualifiedNames && o.Namespace != "":
		errs = append(errs, errors.New("clusterProfiles.namespace: must not be set with qualified names, which contain it"))
	}
	if strings.TrimSpace(o.SchedulerName) == "" {
		errs = append(errs, errors.New("clusterProfiles.schedulerName: must not be empty"))
	}
	return errors.Join(errs...)
}

// profilePages writes pages of ClusterProfiles. It reads the published pages from the API server
// each time, not from a cache, so that a lost response or a restart does no harm.
type profilePages struct {
	decisions.Profiles
	// hub reads unstructured objects without a cache.
	hub client.Client
	// unanswered has the keys of Placements with a page whose last write was not answered.
	unanswered *sync.Map
}

// publish executes the writes from the published pages to those of the plan. After a failure the
// successful writes stay.
func (p *profilePages) publish(ctx context.Context, pl *v1alpha1.Placement, plan decisions.Plan) error {
	key := types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}
	if _, some := p.unanswered.Load(key); some {
		if err := p.fence(ctx, pl); err != nil {
			return fmt.Errorf("changing the versions of the PlacementDecisions of ClusterProfiles after a write without answer: %w", err)
		}
		p.unanswered.Delete(key)
	}
	err := p.publishFrom(ctx, pl, plan, readBy(pl))
	if apierrors.IsAlreadyExists(err) {
		// The page is another object's, lost its label, or is of a late request.
		err = p.publishFrom(ctx, pl, plan)
	}
	return err
}

// readBy selects the pages that readers select.
func readBy(pl *v1alpha1.Placement) client.MatchingLabels {
	return client.MatchingLabels{decisions.DecisionKeyLabel: pl.Name}
}

// publishFrom is publish from the pages of the namespace that options select.
func (p *profilePages) publishFrom(ctx context.Context, pl *v1alpha1.Placement, plan decisions.Plan, options ...client.ListOption) error {
	published, err := p.list(ctx, pl, options...)
	if err != nil {
		return fmt.Errorf("reading the PlacementDecisions of ClusterProfiles: %w", err)
	}
	failed, err := p.write(ctx, p.Plan(pl, published, plan))
	if isUnanswered(err) {
		p.unanswered.Store(types.NamespacedName{Namespace: pl.Namespace, Name: pl.Name}, struct{}{})
	}
	if err != nil {
		return fmt.Errorf("%s of PlacementDecision %s/%s of ClusterProfiles: %w", failed.Op, failed.Page.Namespace, failed.Page.Name, err)
	}
	return nil
}

// list returns the pages in the Placement's namespace that options select.
func (p *profilePages) list(ctx context.Context, pl *v1alpha1.Placement, options ...client.ListOption) ([]decisions.ProfilePage, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(profileKind("List"))
	if err := p.hub.List(ctx, list, append(options, client.InNamespace(pl.Namespace))...); err != nil {
		return nil, withHint(err)
	}
	pages := make([]decisions.ProfilePage, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &pages[i]); err != nil {
			return nil, fmt.Errorf("decoding %s: %w", list.Items[i].GetName(), err)
		}
	}
	return pages, nil
}

// fence gives the pages of the Placement other versions, so that earlier writes of them are
// refused. A page that is gone, or has changed since it was read, has another version already.
func (p *profilePages) fence(ctx context.Context, pl *v1alpha1.Placement) error {
	published, err := p.list(ctx, pl, readBy(pl))
	if err != nil {
		return err
	}
	for _, page := range published {
		if by := metav1.GetControllerOfNoCopy(&page); by != nil && by.UID != pl.UID {
			continue
		}
		metav1.SetMetaDataAnnotation(&page.ObjectMeta, berthv1alpha1.FenceAnnotation, page.ResourceVersion)
		_, err := p.write(ctx, []decisions.ProfileWrite{{Op: decisions.Update, Page: page}})
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// withHint adds what to do if the hub does not serve the kind.
func withHint(err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("clusterProfiles is enabled, but the hub does not serve PlacementDecisions of %s: install that CRD, or disable clusterProfiles: %w",
			decisions.ProfileGroupVersion, err)
	}
	return err
}

// write executes writes in order. It returns the one that failed.
func (p *profilePages) write(ctx context.Context, writes []decisions.ProfileWrite) (decisions.ProfileWrite, error) {
	versions := map[string]metav1.Object{}
	for _, w := range writes {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&w.Page)
		if err != nil {
			return w, fmt.Errorf("encoding: %w", err)
		}
		page := &unstructured.Unstructured{Object: content}
		page.SetManagedFields(nil)
		if last := versions[w.Page.Name]; last != nil {
			page.SetUID(last.GetUID())
			page.SetResourceVersion(last.GetResourceVersion())
		}
		switch w.Op {
		case decisions.Create:
			err = p.hub.Create(ctx, page)
		case decisions.Update:
			err = p.hub.Update(ctx, page)
		default:
			uid, version := page.GetUID(), page.GetResourceVersion()
			err = client.IgnoreNotFound(p.hub.Delete(ctx, page, client.Preconditions{UID: &uid, ResourceVersion: &version}))
		}
		if err != nil {
			return w, err
		}
		versions[w.Page.Name] = page
	}
	return decisions.ProfileWrite{}, nil
}

func profileKind(suffix string) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(decisions.ProfileGroupVersion, decisions.ProfileKind+suffix)
}
