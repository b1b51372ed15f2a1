package world

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/tenancy"
	"github.com/berth-dev/berth/pkg/tenancy/queueconfig"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/world/server"
)

// queueLabel of a Placement requests a queue.
const queueLabel = "yunikorn.apache.org/queue"

// queueConfig is the ConfigMap with two queues.
func queueConfig(small, large, placements int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "berth", Name: admission.QueueConfigName},
		Data: map[string]string{admission.QueuesKey: fixture.Partition(fmt.Sprintf(`
queues:
- {name: small, submitacl: "*", maxapplications: %d, resources: {max: {clusters: %d}}}
- {name: large, submitacl: "*", resources: {max: {clusters: %d}}}
placementrules:
- {name: provided}
- {name: fixed, value: root.small}
`, placements, small, large))},
	}
}

// quotaDeed sets the quotas of the queues, in a world that has some.
func quotaDeed(a *actor) {
	if !a.queues {
		return
	}
	small, large, placements := 1+a.random.IntN(6), 1+a.random.IntN(8), a.random.IntN(4)
	err := a.hub.Update(a.ctx, queueConfig(small, large, placements))
	a.say("quotas: %d clusters and %d Placements, %d clusters: %v", small, placements, large, err)
}

// queueDeed requests a queue for a Placement.
func queueDeed(a *actor) {
	a.editPlacement("queue", func(pl *v1alpha1.Placement) string {
		queue := pick(a, "", "root.small", "root.large", "root.none")
		if metav1.SetMetaDataLabel(&pl.ObjectMeta, queueLabel, queue); queue == "" {
			delete(pl.Labels, queueLabel)
		}
		return queue
	})
}

// capacityDeed sets what a cluster can allocate.
func capacityDeed(a *actor) {
	c := fixture.Cluster(a.cluster()).Obj()
	if a.hub.Get(a.ctx, client.ObjectKeyFromObject(c), c) != nil {
		return
	}
	amount := fmt.Sprint(2 + a.random.IntN(7))
	c.Status.Allocatable = fixture.Cluster("").Allocatable("cpu", amount).Obj().Status.Allocatable
	a.say("cluster %s has %s cpu: %v", c.Name, amount, a.hub.Status().Update(a.ctx, c))
}

// shared has what Placements share: the quotas of queues, the capacity of clusters, and clusters
// that they must not share. Each has the time since when it is as it is.
type shared struct {
	queues   *tenancy.Tree
	policies map[string]*berthv1alpha1.SelectionPolicy // by Placement
	cpu      map[string]resource.Quantity              // by cluster
	uids     map[string]types.UID                      // of Placements
	requests map[string]string                         // queues, by Placement
	disabled map[string]bool                           // Placements
	used     map[string]tenancy.Quota                  // by queue
	over     map[string]time.Time                      // by queue, since when it has more
	counted  map[string]int32                          // selected clusters in the status of a Placement

	queuesSince, policiesSince, cpuSince, pagesSince time.Time
}

func newShared() *shared {
	return &shared{
		policies: map[string]*berthv1alpha1.SelectionPolicy{}, cpu: map[string]resource.Quantity{}, uids: map[string]types.UID{}, requests: map[string]string{}, disabled: map[string]bool{}, used: map[string]tenancy.Quota{}, over: map[string]time.Time{}, counted: map[string]int32{},
	}
}

// onInput stores what a write says about what Placements share.
func (s *shared) onInput(w *server.Write) {
	switch w.Kind {
	case "ConfigMap":
		config, _, err := queueconfig.Parse([]byte(decode[corev1.ConfigMap](w.Object).Data[admission.QueuesKey]))
		if err != nil {
			panic(err)
		}
		s.queues, s.queuesSince = config.Tree, time.Now()
	case "SelectionPolicy":
		p := decode[berthv1alpha1.SelectionPolicy](w.Object)
		if older := s.policies[p.Name]; older == nil || older.Generation != p.Generation || w.Type == "DELETED" {
			s.policiesSince = time.Now()
		}
		if s.policies[p.Name] = p; w.Type == "DELETED" {
			delete(s.policies, p.Name)
		}
	case "ManagedCluster":
		c := decode[v1alpha1.ManagedCluster](w.Object)
		cpu := c.Status.Allocatable["cpu"]
		if w.Type == "DELETED" {
			cpu = resource.Quantity{}
		}
		if older := s.cpu[c.Name]; older.Cmp(cpu) != 0 {
			s.cpu[c.Name], s.cpuSince = cpu, time.Now()
		}
	case "Placement":
		pl := decode[v1alpha1.Placement](w.Object)
		if s.uids[pl.Name] != pl.UID || s.requests[pl.Name] != pl.Labels[queueLabel] || s.disabled[pl.Name] != pl.IsDisabled() {
			s.queuesSince, s.pagesSince = time.Now(), time.Now()
		}
		s.counted[pl.Name], s.disabled[pl.Name] = pl.Status.NumberOfSelectedClusters, pl.IsDisabled()
		if s.uids[pl.Name], s.requests[pl.Name] = pl.UID, pl.Labels[queueLabel]; w.Type == "DELETED" {
			delete(s.uids, pl.Name) // Its pages follow soon.
		}
	}
}

// controlled returns the clusters and the queue on the pages of the Placement that has the name
// now; no queue for a disabled one, whose pages belong to other writers.
func (l *laws) controlled(placement string) (clusters map[string]bool, queue string) {
	clusters = map[string]bool{}
	for _, page := range l.pages[placement] {
		if len(page.OwnerReferences) == 0 || page.OwnerReferences[0].UID != l.shared.uids[placement] {
			continue
		}
		for _, d := range page.Status.Decisions {
			clusters[d.ClusterName] = true
		}
		var of struct {
			Queue string `json:"queue"`
		}
		if json.Unmarshal([]byte(page.Annotations[v1alpha1.QueueAnnotation]), &of) == nil && of.Queue != "" {
			queue = of.Queue
		}
	}
	if l.shared.disabled[placement] {
		queue = ""
	}
	return clusters, queue
}

// settled is how long something must be as it is before what Berth adds is checked against it.
const settled = 2 * time.Minute

// checkShared: what Berth adds to the pages of a Placement exceeds no quota and no capacity, and is
// on no page of a Placement from which this one is apart.
func (l *laws) checkShared(placement string, before, after map[string]bool) {
	s := l.shared
	l.checkQuotas(maxOver)
	if time.Since(s.policiesSince) < settled || time.Since(s.pagesSince) < settled || l.wasFrozen() {
		return
	}
	for name := range after {
		if before[name] {
			continue
		}
		var used resource.Quantity
		for other := range l.pages {
			theirs, _ := l.controlled(other)
			if p := s.policies[other]; p != nil && theirs[name] {
				used.Add(p.Spec.Requests["cpu"])
			}
			if other != placement && theirs[name] && s.apart(placement, other) && time.Since(l.writes[other].last) > l.reaction() {
				l.breaks("cluster %s is published for %s, and for %s, from which it is apart", name, placement, other)
			}
		}
		p := s.policies[placement]
		if p == nil || len(p.Spec.Requests) == 0 || time.Since(s.cpuSince) < settled {
			continue
		}
		if cpu := s.cpu[name]; used.Cmp(cpu) > 0 {
			l.breaks("cluster %s is published for %s, and has %s cpu of %s requested", name, placement, cpu.String(), used.String())
		}
	}
}

func (s *shared) apart(placement, other string) bool {
	p := s.policies[placement]
	if p == nil {
		return false
	}
	for _, from := range p.Spec.Affinity.ApartFrom {
		if from.Placement == other {
			return true
		}
	}
	return false
}

// maxOver is how long faults may delay the next record of a change.
const maxOver = 5 * time.Minute

// checkQuotas: no queue has more published clusters or Placements than its quota, and than were
// published since the quotas, or what they count, changed last. Clusters that an open change
// removes do not count, because steps of a change add clusters first. While a change is superseded,
// no record says what is removed; so more is a fault only after the longest time.
func (l *laws) checkQuotas(longest time.Duration) {
	s := l.shared
	if s.queues == nil {
		return
	}
	changed := time.Since(s.queuesSince) < settled || time.Since(s.pagesSince) < settled || len(l.damaged) > 0
	for _, queue := range s.queues.Root().Children {
		all, staying, published := l.usedOf(queue.Name)
		had := s.used[queue.Name]
		if had = (tenancy.Quota{Applications: min(had.Applications, all.Applications), Clusters: min(had.Clusters, all.Clusters)}); changed {
			had = all
		}
		s.used[queue.Name] = had
		if staying.Clusters <= max(queue.Quota.Clusters, had.Clusters) && staying.Applications <= max(queue.Quota.Applications, had.Applications) {
			delete(s.over, queue.Name)
			continue
		}
		if s.over[queue.Name].IsZero() {
			s.over[queue.Name] = time.Now()
		}
		if time.Since(s.over[queue.Name]) >= longest {
			l.breaks("queue %s has a quota of %d clusters and %d Placements, and published are %v", queue.Name, queue.Quota.Clusters, queue.Quota.Applications, published)
		}
	}
}

// usedOf returns what the Placements of a queue have published, with and without what open changes
// remove. The clusters of a Placement are those on its pages or in its status, whichever are fewer,
// because pages are written one after another.
func (l *laws) usedOf(queue string) (all, staying tenancy.Quota, published []string) {
	for _, placement := range slices.Sorted(maps.Keys(l.pages)) {
		clusters, of := l.controlled(placement)
		if of != queue {
			continue
		}
		published = append(published, fmt.Sprint(placement, slices.Sorted(maps.Keys(clusters))))
		all.Applications++
		all.Clusters += int64(len(clusters))
		for _, name := range l.leaving(placement) {
			delete(clusters, name)
		}
		staying.Clusters += min(int64(len(clusters)), int64(l.shared.counted[placement]))
	}
	staying.Applications = all.Applications
	return all, staying, published
}

// leaving are the clusters that the open change of a Placement removes.
func (l *laws) leaving(placement string) []string {
	for _, record := range l.records {
		if record.Spec.Placement != placement || !changes.IsOpen(record) {
			continue
		}
		_, removed, err := changes.Lists(record)
		if err != nil {
			panic(err)
		}
		return removed
	}
	return nil
}
