package ocm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1alpha1 "open-cluster-management.io/api/cluster/v1alpha1"
	clusterv1beta1 "open-cluster-management.io/api/cluster/v1beta1"
	rollout "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1alpha1"
	tracker "open-cluster-management.io/sdk-go/pkg/apis/cluster/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// follower replays every write of the pages of one Placement, and reads them after each with OCM's
// tracker and rollout, as its work manager and add-on manager do.
type follower struct {
	placement *clusterv1beta1.Placement
	stop      func()

	mu      sync.Mutex
	pages   map[string]*clusterv1beta1.PlacementDecision
	history []snapshot
}

// snapshot is what is published after a write.
type snapshot []*clusterv1beta1.PlacementDecision

// List implements the tracker's PlacementDecisionGetter.
func (s snapshot) List(selector labels.Selector, _ string) ([]*clusterv1beta1.PlacementDecision, error) {
	return slices.DeleteFunc(slices.Clone(s), func(p *clusterv1beta1.PlacementDecision) bool { return !selector.Matches(labels.Set(p.Labels)) }), nil
}

// follow begins with the pages that are published now.
func follow(ctx context.Context, pl *clusterv1beta1.Placement) *follower {
	GinkgoHelper()
	f := &follower{placement: pl, pages: map[string]*clusterv1beta1.PlacementDecision{}}
	list := &clusterv1beta1.PlacementDecisionList{}
	Expect(hub.List(ctx, list, client.InNamespace(pl.Namespace))).To(Succeed())
	for i := range list.Items {
		f.pages[list.Items[i].Name] = &list.Items[i]
	}
	f.remember()
	watcher, err := hub.Watch(ctx, &clusterv1beta1.PlacementDecisionList{}, client.InNamespace(pl.Namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	Expect(err).NotTo(HaveOccurred())
	var reading sync.WaitGroup
	reading.Go(func() {
		for event := range watcher.ResultChan() {
			f.see(event)
		}
	})
	f.stop = func() {
		watcher.Stop()
		reading.Wait()
	}
	DeferCleanup(f.stop)
	return f
}

func (f *follower) see(event watch.Event) {
	page, ok := event.Object.(*clusterv1beta1.PlacementDecision)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pages[page.Name] = page
	if event.Type == watch.Deleted {
		delete(f.pages, page.Name)
	}
	f.remember()
}

func (f *follower) remember() { f.history = append(f.history, slices.Collect(maps.Values(f.pages))) }

// groups is a check for Eventually: "name:clusters" of each group, in the order of the indexes.
func (f *follower) groups() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return groupsOf(f.history[len(f.history)-1])
}

func groupsOf(pages snapshot) string {
	type group struct {
		index int
		name  string
	}
	sizes := map[group]int{}
	for _, page := range pages {
		index, err := strconv.Atoi(page.Labels[clusterv1beta1.DecisionGroupIndexLabel])
		if err != nil {
			continue // not published yet
		}
		sizes[group{index, page.Labels[clusterv1beta1.DecisionGroupNameLabel]}] += len(page.Status.Decisions)
	}
	var all []string
	for i, g := range slices.SortedFunc(maps.Keys(sizes), func(a, b group) int { return cmp.Or(cmp.Compare(a.index, b.index), strings.Compare(a.name, b.name)) }) {
		text := fmt.Sprintf("%s:%d", g.name, sizes[g])
		if g.index != i {
			text = fmt.Sprintf("%d=%s", g.index, text)
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// seen is what the readers saw in all writes.
type seen struct {
	writes, lost int
	// violations are the first losses, with the groups that were published then.
	violations []string
}

// read replays the history. A cluster that is in the first and in the last snapshot is lost if the
// tracker, with one of the names of an index that has several, or a rollout misses it.
func (f *follower) read() seen {
	GinkgoHelper()
	f.stop()
	stays, last := clustersOf(f.history[0]), clustersOf(f.history[len(f.history)-1])
	maps.DeleteFunc(stays, func(name string, _ bool) bool { return !last[name] })
	s := seen{writes: len(f.history) - 1}
	for write, pages := range f.history {
		lost := map[string]bool{}
		for _, choice := range choices(pages) {
			for _, name := range f.removed(choice, stays) {
				lost[name] = true
			}
		}
		s.lost += len(lost)
		if len(lost) > 0 && len(s.violations) < 10 {
			s.violations = append(s.violations, fmt.Sprintf("after write %d, with groups %q, %d clusters are lost", write, groupsOf(pages), len(lost)))
		}
	}
	AddReportEntry("observed", fmt.Sprintf("%d page writes, %d clusters lost", s.writes, s.lost))
	return s
}

// removed returns the clusters whose work each kind of rollout would remove now.
func (f *follower) removed(pages snapshot, stays map[string]bool) []string {
	GinkgoHelper()
	var done []rollout.ClusterRolloutStatus
	for name := range stays {
		done = append(done, rollout.ClusterRolloutStatus{ClusterName: name, Status: rollout.Succeeded})
	}
	decisions := tracker.NewPlacementDecisionClustersTracker(f.placement, pages, nil)
	Expect(decisions.Refresh()).To(Succeed())
	handler, err := rollout.NewRolloutHandler(decisions, func(string, string) (rollout.ClusterRolloutStatus, error) { return rollout.ClusterRolloutStatus{}, nil })
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, kind := range []clusterv1alpha1.RolloutType{clusterv1alpha1.All, clusterv1alpha1.Progressive, clusterv1alpha1.ProgressivePerGroup} {
		_, result, err := handler.GetRolloutCluster(clusterv1alpha1.RolloutStrategy{Type: kind}, done)
		Expect(err).NotTo(HaveOccurred())
		for _, cluster := range result.ClustersRemoved {
			names = append(names, cluster.ClusterName)
		}
	}
	return names
}

// choices returns the pages that the tracker may read: of an index with several names it keeps one,
// at random.
func choices(pages snapshot) []snapshot {
	labelled := slices.DeleteFunc(slices.Clone(pages), func(p *clusterv1beta1.PlacementDecision) bool { return p.Labels[clusterv1beta1.PlacementLabel] == "" })
	names := map[string][]string{}
	most := 1
	for _, page := range labelled {
		index, name := page.Labels[clusterv1beta1.DecisionGroupIndexLabel], page.Labels[clusterv1beta1.DecisionGroupNameLabel]
		if !slices.Contains(names[index], name) {
			names[index] = append(names[index], name)
		}
		most = max(most, len(names[index]))
	}
	var all []snapshot
	for choice := range most {
		all = append(all, slices.DeleteFunc(slices.Clone(labelled), func(p *clusterv1beta1.PlacementDecision) bool {
			of := names[p.Labels[clusterv1beta1.DecisionGroupIndexLabel]]
			return p.Labels[clusterv1beta1.DecisionGroupNameLabel] != of[choice%len(of)]
		}))
	}
	return all
}

// clustersOf are the clusters on all published pages.
func clustersOf(pages snapshot) map[string]bool {
	all := map[string]bool{}
	for _, page := range pages {
		for _, decision := range page.Status.Decisions {
			if page.Labels[clusterv1beta1.PlacementLabel] != "" {
				all[decision.ClusterName] = true
			}
		}
	}
	return all
}
