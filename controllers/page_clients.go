package controllers

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// wholePagesOf writes a page in one request. The client must use v1alpha1 of Berth's CRDs, where
// PlacementDecision has no status subresource.
func wholePagesOf(c client.Client) framework.PageClient { return wholePages{asBerth(c)} }

// asBerth returns a client whose writes have FieldManager, whatever the program is called.
func asBerth(c client.Client) client.Client { return client.WithFieldOwner(c, framework.FieldManager) }

type wholePages struct{ client client.Client }

func (w wholePages) Read(ctx context.Context, namespace, name string) (*v1alpha1.PlacementDecision, error) {
	return readPage(ctx, w.client, namespace, name)
}

func (w wholePages) Create(ctx context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	page = page.DeepCopy()
	return page, written(page, w.client.Create(ctx, page))
}

func (w wholePages) Update(ctx context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	page = page.DeepCopy()
	return page, written(page, w.client.Update(ctx, page))
}

// written removes the managed fields of a response, because Berth is the writer.
func written(page *v1alpha1.PlacementDecision, err error) error {
	page.ManagedFields = nil
	return err
}

func (w wholePages) Delete(ctx context.Context, page *v1alpha1.PlacementDecision) error {
	return deletePage(ctx, w.client, page)
}

// steppedPagesOf writes a page on CRDs whose PlacementDecision has a status subresource. It creates
// the page without the Placement's label, writes the decisions, then the label, so that readers
// that select by label never see an empty page. The reader must not use a cache.
func steppedPagesOf(c client.Client, reader client.Reader) framework.PageClient {
	return steppedPages{asBerth(c), reader}
}

type steppedPages struct {
	client client.Client
	reader client.Reader
}

func (s steppedPages) Read(ctx context.Context, namespace, name string) (*v1alpha1.PlacementDecision, error) {
	return readPage(ctx, s.reader, namespace, name)
}

func (s steppedPages) Create(ctx context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	page = withoutRevision(page)
	bare := page.DeepCopy()
	delete(bare.Labels, v1alpha1.PlacementLabel)
	if err := s.client.Create(ctx, bare); err != nil {
		return nil, err
	}
	whole := page.DeepCopy()
	whole.UID, whole.ResourceVersion = bare.UID, bare.ResourceVersion
	return s.Update(ctx, whole)
}

func (s steppedPages) Update(ctx context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	page = withoutRevision(page)
	filled := page.DeepCopy()
	if err := s.client.Status().Update(ctx, filled); err != nil {
		return nil, fmt.Errorf("writing the decisions: %w", err)
	}
	labelled := page.DeepCopy()
	labelled.ResourceVersion = filled.ResourceVersion
	if err := written(labelled, s.client.Update(ctx, labelled)); err != nil {
		return nil, fmt.Errorf("writing the labels: %w", err)
	}
	return labelled, nil
}

// withoutRevision removes the revision, because writing metadata would need another request when
// only the clusters change.
func withoutRevision(page *v1alpha1.PlacementDecision) *v1alpha1.PlacementDecision {
	page = page.DeepCopy()
	delete(page.Annotations, berthv1alpha1.RevisionAnnotation)
	return page
}

func (s steppedPages) Delete(ctx context.Context, page *v1alpha1.PlacementDecision) error {
	return deletePage(ctx, s.client, page)
}

func (w wholePages) Fence(ctx context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	return fencePage(ctx, w.client, page)
}

func (s steppedPages) Fence(ctx context.Context, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	return fencePage(ctx, s.client, page)
}

// fencePage sets an annotation under a field manager of its own, because the field manager of a
// page says who wrote it last.
func fencePage(ctx context.Context, c client.Client, page *v1alpha1.PlacementDecision) (*v1alpha1.PlacementDecision, error) {
	fenced := page.DeepCopy()
	fenced.ManagedFields = nil
	metav1.SetMetaDataAnnotation(&fenced.ObjectMeta, berthv1alpha1.FenceAnnotation, page.ResourceVersion)
	err := c.Update(ctx, fenced, client.FieldOwner(framework.FenceFieldManager))
	fenced.ManagedFields = page.ManagedFields
	return fenced, err
}

func readPage(ctx context.Context, reader client.Reader, namespace, name string) (*v1alpha1.PlacementDecision, error) {
	page := &v1alpha1.PlacementDecision{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, page); err != nil {
		return nil, err
	}
	framework.KeepOtherWriter(page)
	return page, nil
}

// deletePage deletes the page if its version is the planned one. A page that does not exist is not
// an error.
func deletePage(ctx context.Context, c client.Client, page *v1alpha1.PlacementDecision) error {
	err := c.Delete(ctx, page.DeepCopy(), client.Preconditions{UID: &page.UID, ResourceVersion: &page.ResourceVersion},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	return client.IgnoreNotFound(err)
}
