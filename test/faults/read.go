package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/readers"
)

// list decodes only the fields that the promises need: decoding all fields would take most of the
// time of a poll.
func (o *observer) list(ctx context.Context, w Watched, version string) (at string, pages []readers.Page, err error) {
	var raw struct {
		Metadata struct{ ResourceVersion string }
		Items    []struct {
			Metadata struct {
				Name   string
				Labels map[string]string
			}
			Status struct {
				Decisions []struct{ ClusterName string }
			}
		}
	}
	query := url.Values{"labelSelector": {v1alpha1.PlacementLabel + "=" + w.Name}, "resourceVersion": {version}}
	address := o.host + "/apis/" + v1alpha1.GroupVersionV1Beta1.String() + "/namespaces/" + w.Namespace + "/placementdecisions?" + query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", nil, err
	}
	response, err := o.http.Do(request)
	for err == nil && response.StatusCode == http.StatusTooManyRequests {
		// A hub that is too busy for a reader breaks no promise.
		_ = response.Body.Close()
		select {
		case <-time.After(100 * time.Millisecond):
			response, err = o.http.Do(request)
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return "", nil, fmt.Errorf("the hub answers %s", response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&raw); err != nil {
		return "", nil, err
	}
	for _, item := range raw.Items {
		p := readers.Page{Name: item.Metadata.Name, Labels: item.Metadata.Labels}
		for _, d := range item.Status.Decisions {
			p.Clusters = append(p.Clusters, d.ClusterName)
		}
		pages = append(pages, p)
	}
	return raw.Metadata.ResourceVersion, pages, nil
}

// poll reads the pages of one Placement after the other. Half of the polls read the API server's
// cache, as informers do at their start; the others read etcd, which is slower.
func (o *observer) poll(ctx context.Context, first int) {
	for i := first; ctx.Err() == nil; i++ {
		select {
		case <-ctx.Done():
		case <-time.After(o.PollPause):
		}
		w, version := o.Placements[i%len(o.Placements)], ""
		if i/len(o.Placements)%2 == 0 {
			version = "0"
		}
		at, pages, err := o.list(ctx, w, version)
		if err != nil {
			o.failed(ctx, err)
			continue
		}
		o.mu.Lock()
		o.Polls++
		o.check(w, at, pages)
		o.mu.Unlock()
	}
}

// followPages records every single write through a watch.
func (o *observer) followPages(ctx context.Context, w Watched) {
	selecting := client.MatchingLabels{v1alpha1.PlacementLabel: w.Name}
	for ctx.Err() == nil {
		at, listed, err := o.list(ctx, w, "")
		if err != nil {
			o.failed(ctx, err)
			continue
		}
		pages := map[string]readers.Page{}
		for _, p := range listed {
			pages[p.Name] = p
		}
		o.state(w, at, pages, true)
		watch, err := o.hub.Watch(ctx, &v1alpha1.PlacementDecisionList{}, client.InNamespace(w.Namespace), selecting, from(at))
		if err != nil {
			o.failed(ctx, err)
			continue
		}
		for event := range watch.ResultChan() {
			object, ok := event.Object.(*v1alpha1.PlacementDecision)
			if !ok {
				break
			}
			delete(pages, object.Name)
			if event.Type != "DELETED" {
				pages[object.Name] = readers.PageOf(object)
			}
			o.state(w, object.ResourceVersion, pages, false)
			o.mu.Lock()
			o.States++
			o.check(w, object.ResourceVersion, slices.Collect(maps.Values(pages)))
			o.mu.Unlock()
		}
		watch.Stop()
	}
}

// followStatus records every status of a Placement.
func (o *observer) followStatus(ctx context.Context, w Watched) {
	selecting := client.MatchingFields{"metadata.name": w.Name}
	for ctx.Err() == nil {
		list := &v1alpha1.PlacementList{}
		if err := o.hub.List(ctx, list, client.InNamespace(w.Namespace), selecting); err != nil {
			o.failed(ctx, err)
			continue
		}
		o.mu.Lock()
		for i := range list.Items {
			o.answers[w.key()].status(&list.Items[i], true)
		}
		o.mu.Unlock()
		watch, err := o.hub.Watch(ctx, &v1alpha1.PlacementList{}, client.InNamespace(w.Namespace), selecting, from(list.ResourceVersion))
		if err != nil {
			o.failed(ctx, err)
			continue
		}
		for event := range watch.ResultChan() {
			pl, ok := event.Object.(*v1alpha1.Placement)
			if !ok {
				break
			}
			o.mu.Lock()
			o.Statuses++
			o.answers[w.key()].status(pl, false)
			o.mu.Unlock()
		}
		watch.Stop()
	}
}

func from(version string) *client.ListOptions {
	return &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version}}
}

func (o *observer) failed(ctx context.Context, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if ctx.Err() == nil {
		o.unread(err)
	}
}

// unread records a failed read. The caller holds the lock.
func (o *observer) unread(err error) {
	if o.Errors == 0 {
		o.FirstError = err.Error()
	}
	o.Errors++
}
