package inventory

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// filledMaps appends the paths of maps that are not empty, in structs and in slices of them.
func filledMaps(path string, v reflect.Value, seen map[uintptr]bool, filled *[]string) {
	switch v.Kind() {
	case reflect.Pointer:
		if inPackage := strings.Contains(v.Type().String(), "inventory."); inPackage && !v.IsNil() && !seen[v.Pointer()] {
			seen[v.Pointer()] = true
			filledMaps(path, v.Elem(), seen, filled)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			filledMaps(path+"."+v.Type().Field(i).Name, v.Field(i), seen, filled)
		}
	case reflect.Map:
		if v.Len() > 0 {
			*filled = append(*filled, fmt.Sprint(path, ": ", v.MapKeys()))
		}
	}
}

// TestNothingIsKeptOfDeletedObjects: no map of the inventory has an entry after all objects were
// deleted, in any order.
func TestNothingIsKeptOfDeletedObjects(t *testing.T) {
	requests := v1alpha1.ResourceList{"cpu": resource.MustParse("1")}
	policy := &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Spec: berthv1alpha1.SelectionPolicySpec{
		Placement: "p", Requests: requests, Affinity: berthv1alpha1.PlacementAffinity{ApartFrom: []berthv1alpha1.PlacementReference{{Placement: "q"}}},
	}}
	record := &berthv1alpha1.PlacementChange{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p-1"}, Spec: berthv1alpha1.PlacementChangeSpec{
		Placement: "p", Revision: 1, Added: []string{"a"}, To: "x",
	}}
	objects := []client.Object{
		fixture.Cluster("a").Set("s1").Allocatable("cpu", "8").Obj(), fixture.Set("s1"), fixture.Binding("ns", "s1"), fixture.Score("a", "price").Obj(),
		fixture.Placement("ns", "p").Obj(), fixture.Placement("ns", "q").Obj(), fixture.Page("ns", "p-decision-1").Of("p").Lists("a").Obj(),
		fixture.ApprovalPolicy("ns", "d", "p"), fixture.Eviction("ns", "e", "p", "a").Obj(), policy, record,
	}
	for seed := range uint64(200) {
		inv := New(Options{})
		order := rand.New(rand.NewPCG(seed, 0))
		shuffled := slices.Clone(objects)
		for _, do := range []func(client.Object) []Key{inv.Update, inv.Delete} {
			order.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			for _, o := range shuffled {
				do(o.DeepCopyObject().(client.Object))
				for _, key := range inv.Placements() {
					inv.Snapshot(key, fixture.Now, nil)
				}
			}
			inv.Started()
		}
		var filled []string
		filledMaps("inventory", reflect.ValueOf(inv), map[uintptr]bool{}, &filled)
		if len(filled) > 0 {
			t.Fatalf("seed %d:\n%s", seed, strings.Join(filled, "\n"))
		}
	}
}
