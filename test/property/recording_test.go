package property

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/clustercel"
	"github.com/berth-dev/berth/pkg/inventory"
	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

// TestRecordedObjects writes objects of every kind with hostile values to a recording and expects
// to read the same values back. An empty list is not the same as none.
func TestRecordedObjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want, got []client.Object
		for _, kind := range kinds.All() {
			for n := range rapid.IntRange(1, 3).Draw(t, "states of "+kind.Name) {
				o := kind.New().(client.Object)
				if n > 0 && rapid.Bool().Draw(t, "only another status") {
					o = want[len(want)-1].DeepCopyObject().(client.Object)
					drawInto(t, reflect.ValueOf(o).Elem().FieldByName("Status"))
				} else {
					drawInto(t, reflect.ValueOf(o).Elem())
				}
				o.SetName("x")
				o.SetNamespace("ns")
				o.SetManagedFields(nil) // They are not recorded.
				want = append(want, o)
			}
		}
		for _, in := range recordAndRead(t, func(onInput func(inventory.Input)) {
			for i, o := range want {
				onInput(inventory.Input{Kind: inventory.InputObject, Number: int64(i + 1), Object: o})
			}
		}) {
			got = append(got, in.Object)
		}
		if diff := cmp.Diff(want, got, exactly); diff != "" {
			t.Fatalf("(-recorded +read):\n%s", diff)
		}
	})
}

// TestRecordedFleet gives an inventory ManagedClusters with hostile values and expects that an
// inventory built from the recording has the same for decisions, bit for bit.
func TestRecordedFleet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var live *inventory.Inventory
		inputs := recordAndRead(t, func(onInput func(inventory.Input)) {
			clock := fixture.Now
			live = inventory.New(inventory.Options{OnInput: onInput, FirstSeen: func() time.Time {
				clock = clock.Add(time.Nanosecond)
				return clock
			}})
			policy := &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
			policy.Spec.Placement = "p"
			policy.Spec.Requests = map[v1alpha1.ResourceName]resource.Quantity{"gpu": drawQuantity(t), "cpu": drawQuantity(t)}
			for _, o := range []client.Object{fixture.Set("s"), fixture.Binding("ns", "s"), fixture.Placement("ns", "p").Obj(), policy} {
				live.Update(o)
			}
			for range rapid.IntRange(1, 6).Draw(t, "events") {
				c := fixture.Cluster(oneOf(t, "cluster", clusterNames[:2]...)).Set("s").Obj()
				if rapid.Bool().Draw(t, "only another notation") {
					c.Status.Allocatable = v1alpha1.ResourceList{"gpu": resource.MustParse(oneOf(t, "notation", "1.5", "1.500", "1500m"))}
				} else {
					drawInto(t, reflect.ValueOf(&c.Status).Elem())
					drawInto(t, reflect.ValueOf(&c.Spec).Elem())
				}
				live.Update(c)
			}
		})
		replayed := inventory.New(inventory.Options{})
		for _, in := range inputs {
			replayed.Apply(in)
		}
		if diff := cmp.Diff(fleetOf(t, live), fleetOf(t, replayed), exactly); diff != "" {
			t.Fatalf("(-recorded +read):\n%s", diff)
		}
	})
}

// fleetOf returns what decisions read of the clusters.
func fleetOf(t *rapid.T, inv *inventory.Inventory) (all []any) {
	snapshot := inv.Snapshot(inventory.Key{Namespace: "ns", Name: "p"}, fixture.Now, nil)
	fleet := snapshot.Fleet
	all = append(all, snapshot.Subject.CapacityRequest)
	for i := range fleet.Clusters.Len() {
		c := fleet.Clusters.Get(i)
		rendered, err := clustercel.Render(c.ManagedCluster)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c.Name, c.CPU, c.Memory, c.TaintTimes, c.Claims, rendered)
	}
	for _, name := range slices.Sorted(maps.Keys(fleet.Capacities)) {
		capacity := fleet.Capacities[name]
		all = append(all, name)
		for i := range capacity.Allocatable.Len() {
			all = append(all, capacity.Allocatable.Get(i))
		}
	}
	return all
}

// recordAndRead records the inputs that run passes to a function, after a checkpoint of nothing,
// and returns those that are read back.
func recordAndRead(t *rapid.T, run func(onInput func(inventory.Input))) (inputs []inventory.Input) {
	dir, err := os.MkdirTemp("", "recording")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	r, err := recording.New(recording.Options{Dir: dir, Now: func() time.Time { return fixture.Now }, Log: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	r.Begin(inventory.New(inventory.Options{}))
	run(r.OnInput())
	ended, end := context.WithCancel(context.Background())
	end()
	r.Run(ended)
	if s := r.Stats(); s.Failures > 0 || s.Lost > 0 {
		t.Fatalf("%+v; want no entry lost", s)
	}
	reader, err := recording.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	decoder := recording.NewDecoder()
	for e, err := range reader.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		in, ok, err := decoder.Input(e)
		if err != nil {
			t.Fatal(err)
		}
		if ok && in.Kind != inventory.InputStarted {
			inputs = append(inputs, in)
		}
	}
	if len(reader.Damaged) > 0 {
		t.Fatalf("%+v", reader.Damaged)
	}
	return inputs
}

// exactly compares values bit for bit, and nothing that no decision can read.
var exactly = cmp.Options{
	cmp.Comparer(func(a, b resource.Quantity) bool {
		return a.Cmp(b) == 0 && a.String() == b.String() && a.Format == b.Format &&
			math.Float64bits(a.AsApproximateFloat64()) == math.Float64bits(b.AsApproximateFloat64())
	}),
	cmp.Comparer(func(a, b framework.Amount) bool {
		return a.Known == b.Known && math.Float64bits(a.Value) == math.Float64bits(b.Value)
	}),
	cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) }),
}

// drawInto draws a value with the extremes of its type, as it is after reading it from the hub.
func drawInto(t *rapid.T, v reflect.Value) {
	switch o := v.Addr().Interface().(type) {
	case *resource.Quantity:
		*o = drawQuantity(t)
		return
	case *time.Time:
		*o = drawTime(t)
		return
	case *metav1.Duration:
		o.Duration = time.Duration(drawInteger(t))
		return
	case *intstr.IntOrString:
		*o = oneOf(t, "number or text", intstr.FromString(""), intstr.FromString("50%"), intstr.FromString("<&>"), intstr.FromInt32(0), intstr.FromInt32(-1))
		return
	case *metav1.FieldsV1:
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(oneOf(t, "text", "", "x", "0.3", "1e3", "null", "<&>\"\\\n\u2028\x00\x7f\ufffd日本", strings.Repeat("x", 300)))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(drawInteger(t))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.Byte().Draw(t, "byte")))
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "some") {
			v.Set(reflect.New(v.Type().Elem()))
			drawInto(t, v.Elem())
		}
	case reflect.Slice:
		if n := oneOf(t, "length", -1, 0, 1, 2); n >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				drawInto(t, v.Index(i))
			}
		}
	case reflect.Map:
		n := oneOf(t, "length", -1, 0, 1, 3)
		if n >= 0 {
			v.Set(reflect.MakeMap(v.Type()))
		}
		for range n {
			key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			key.SetString(oneOf(t, "key", "", "cpu", "memory", "gpu", "a/b.c", "<\"é"))
			drawInto(t, elem)
			v.SetMapIndex(key, elem)
		}
	case reflect.Struct:
		for _, part := range v.Fields() {
			drawInto(t, part)
		}
	default:
		panic(fmt.Sprintf("no value of %s", v.Type()))
	}
}

func drawInteger(t *rapid.T) int64 {
	return oneOf(t, "integer", int64(0), 1, -1, math.MaxInt32, math.MinInt32, 1<<53+1, math.MaxInt64, math.MinInt64)
}

// drawTime returns a time with nanoseconds, in a zone whose offset has seconds, of any year that
// the API server accepts.
func drawTime(t *rapid.T) time.Time {
	text := oneOf(t, "time", "2026-06-01T12:00:00Z", "2026-06-01T12:00:00.123456789Z", "2026-06-01T12:00:00.5+05:30", "1800-01-01T00:00:00Z",
		"0001-01-01T00:00:00Z", "0000-01-01T00:00:00+23:59", "9999-12-31T23:59:59.999999999-23:59")
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	if rapid.Bool().Draw(t, "in a zone") {
		at = at.In(time.FixedZone("LMT", 3208))
	}
	return at
}

// drawQuantity returns a quantity that is read from a ManagedCluster.
func drawQuantity(t *rapid.T) resource.Quantity {
	text := oneOf(t, "quantity", "0.3", "300m", "1.500", "0e309", "0e308", "1e309", "1e999", "1000E", "8Ei", "-8Ei", "0Ki", "0.5Ki", "1024Ki", "01500m", "0.3e1", "0.000e5", "-0",
		"0.0000000001", "1.000000000000000000000000Ki", "123456789012345678e1", "1234567890123456789e990", "9007199254740993.1k", "null", "")
	if text == "" {
		digits := rapid.StringMatching(`[+-]?0{0,2}[0-9]{0,22}`).Draw(t, "digits") + rapid.StringMatching(`(\.[0-9]{0,22})?`).Draw(t, "fraction")
		text = digits + oneOf(t, "suffix", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
			"e"+rapid.StringMatching(`[+-]?[0-9]{1,3}`).Draw(t, "exponent"))
	}
	if text != "null" {
		text = `"` + text + `"`
	}
	var list v1alpha1.ResourceList
	if err := json.Unmarshal([]byte(`{"x": `+text+`}`), &list); err != nil {
		t.Fatal(err)
	}
	return list["x"]
}
