package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/report"
)

const floorNamespace = "load-floor"

// floor is the reference: a plain client that makes the writes of a decision without deciding.
type floor struct {
	hub       *hub
	per       int
	page      *v1alpha1.PlacementDecision
	placement *v1alpha1.Placement
	turn      int
}

func newFloor(ctx context.Context, h *hub, per int) (*floor, error) {
	f := &floor{hub: h, per: per, placement: floorPlacement("single")}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: floorNamespace}}, f.placement,
	} {
		if err := h.Create(ctx, object); err != nil {
			return nil, fmt.Errorf("preparing the floor: %w", err)
		}
	}
	// The controller reports that the Placement is disabled. It has nothing to write if the
	// condition is there.
	meta.SetStatusCondition(&f.placement.Status.Conditions, report.Disabled(f.placement))
	if err := h.Status().Update(ctx, f.placement); err != nil {
		return nil, fmt.Errorf("preparing the floor: %w", err)
	}
	f.page = floorPage(f.placement)
	if err := h.Create(ctx, f.page); err != nil {
		return nil, fmt.Errorf("preparing the floor: %w", err)
	}
	return f, nil
}

// floorPage is the first page of a Placement, with the labels and the owner that every page has.
func floorPage(placement *v1alpha1.Placement) *v1alpha1.PlacementDecision {
	owner := metav1.NewControllerRef(placement, v1alpha1.GroupVersionV1Beta1.WithKind("Placement"))
	return &v1alpha1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
		Namespace: placement.Namespace, Name: placement.Name + "-decision-1", OwnerReferences: []metav1.OwnerReference{*owner},
		Labels: map[string]string{v1alpha1.PlacementLabel: placement.Name, v1alpha1.DecisionGroupIndexLabel: "0"},
	}}
}

// floorPlacement is a Placement that controllers do not decide.
func floorPlacement(name string) *v1alpha1.Placement {
	return &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{
		Namespace: floorNamespace, Name: name, Annotations: map[string]string{v1alpha1.PlacementDisableAnnotation: "true"},
	}}
}

// fill replaces the clusters of a page by names that do not exist and are on no other page.
func (f *floor) fill(page *v1alpha1.PlacementDecision) {
	f.turn++
	page.Status.Decisions = nil
	for i := range f.per {
		page.Status.Decisions = append(page.Status.Decisions,
			v1alpha1.ClusterDecision{ClusterName: fmt.Sprintf("floor-%s-%d", page.Name, (f.turn+i)%(f.per+1))})
	}
}

func setStatus(placement *v1alpha1.Placement, n int) {
	placement.Status.NumberOfSelectedClusters = int32(n)
	meta.RemoveStatusCondition(&placement.Status.Conditions, v1alpha1.PlacementConditionSatisfied)
	meta.SetStatusCondition(&placement.Status.Conditions, metav1.Condition{
		Type: v1alpha1.PlacementConditionSatisfied, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAllDecisionsScheduled,
		Message: "All cluster decisions scheduled",
	})
}

// measureOne measures two writes in sequence: a page and a status.
func (f *floor) measureOne(ctx context.Context) (time.Duration, error) {
	f.fill(f.page)
	setStatus(f.placement, f.turn)
	begin := time.Now()
	if err := f.hub.Status().Update(ctx, f.page); err != nil {
		return 0, fmt.Errorf("writing the floor's page: %w", err)
	}
	if err := f.hub.Status().Update(ctx, f.placement); err != nil {
		return 0, fmt.Errorf("writing the floor's status: %w", err)
	}
	return time.Since(begin), nil
}

// measurePages measures n writes, in sequence, of a page of some clusters.
func (f *floor) measurePages(ctx context.Context, n, clusters int) (time.Duration, error) {
	wide := &floor{hub: f.hub, per: clusters, page: f.page.DeepCopy()}
	wide.page.Name, wide.page.ResourceVersion = "wide", ""
	if err := f.hub.Create(ctx, wide.page); err != nil {
		return 0, fmt.Errorf("creating the floor's page: %w", err)
	}
	begin := time.Now()
	for range n {
		wide.fill(wide.page)
		if err := f.hub.Status().Update(ctx, wide.page); err != nil {
			return 0, fmt.Errorf("writing the floor's page: %w", err)
		}
	}
	elapsed := time.Since(begin)
	return elapsed, f.hub.Delete(ctx, wide.page)
}

// measureLists measures the lists of all kinds that decisions depend on, at the same time.
func (f *floor) measureLists(ctx context.Context) (time.Duration, error) {
	begin, all := time.Now(), kinds.All()
	err := each(len(all), func(i int) error { return f.hub.List(ctx, all[i].NewList().(client.ObjectList)) })
	if err != nil {
		return 0, fmt.Errorf("listing: %w", err)
	}
	return time.Since(begin), nil
}

// measureMany measures the writes for n Placements: three each, to create a page, fill it and write
// the status, and then one each, to change the page. It deletes its objects at the end. No
// controller may run.
func (f *floor) measureMany(ctx context.Context, n int) (three, one time.Duration, err error) {
	pages, placements := make([]*v1alpha1.PlacementDecision, n), make([]*v1alpha1.Placement, n)
	for i := range n {
		placements[i] = floorPlacement(fmt.Sprintf("p-%05d", i))
	}
	if err := each(n, func(i int) error { return f.hub.Create(ctx, placements[i]) }); err != nil {
		return 0, 0, fmt.Errorf("creating the floor's Placements: %w", err)
	}
	for i := range n {
		pages[i] = floorPage(placements[i])
	}
	filled := make([]v1alpha1.PlacementDecisionStatus, n)
	again := make([]v1alpha1.PlacementDecisionStatus, n)
	for i, page := range pages {
		f.fill(page)
		filled[i] = page.Status
		f.fill(page)
		again[i] = page.Status
	}
	begin := time.Now()
	err = each(n, func(i int) error {
		if err := f.hub.Create(ctx, pages[i]); err != nil {
			return err
		}
		pages[i].Status = filled[i]
		if err := f.hub.Status().Update(ctx, pages[i]); err != nil {
			return err
		}
		setStatus(placements[i], f.per)
		return f.hub.Status().Update(ctx, placements[i])
	})
	three = time.Since(begin)
	if err != nil {
		return 0, 0, fmt.Errorf("writing the floor: %w", err)
	}
	begin = time.Now()
	err = each(n, func(i int) error {
		pages[i].Status = again[i]
		return f.hub.Status().Update(ctx, pages[i])
	})
	one = time.Since(begin)
	if err != nil {
		return 0, 0, fmt.Errorf("writing the floor again: %w", err)
	}
	err = each(n, func(i int) error {
		if err := f.hub.Delete(ctx, pages[i]); err != nil {
			return err
		}
		return f.hub.Delete(ctx, placements[i])
	})
	if err != nil {
		return 0, 0, fmt.Errorf("removing the floor: %w", err)
	}
	return three, one, nil
}
