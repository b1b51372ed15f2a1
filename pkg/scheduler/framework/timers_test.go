package framework

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

// timesOf calls visit with each time in a value.
func timesOf(v reflect.Value, visit func(time.Time)) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		visit(v.Interface().(time.Time))
	case v.Kind() == reflect.Struct:
		for _, field := range v.Fields() {
			timesOf(field, visit)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			timesOf(v.Index(i), visit)
		}
	case v.Kind() == reflect.Map:
		for _, key := range v.MapKeys() {
			timesOf(v.MapIndex(key), visit)
		}
	case v.Kind() == reflect.Pointer && !v.IsNil():
		timesOf(v.Elem(), visit)
	}
}

// TestTimersAfterTheClockWasSetBack: no measurement begins later than now, and what is remembered
// stays as it is.
func TestTimersAfterTheClockWasSetBack(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	later := metav1.Time{Time: now.Add(time.Hour)}
	s := Stability{Digest: "d", Since: later.Time, RemovingSince: later.Time}
	timers := Timers{
		Change: s, Forced: s, Revoked: s, ReadySince: map[string]time.Time{"a": later.Time, "b": {}, "c": now.Add(-time.Hour)},
		UnrecordedAt: later.Time, DecidedSince: later.Time, LastStep: later.Time, RefusedSince: later.Time, Unchanged: later.Time, NextAttempt: later.Time,
		Tiers: []berthv1alpha1.SelectionTierStatus{{SufficientSince: &later, Left: []berthv1alpha1.LeftCluster{{QualifyingSince: &later}, {}}}},
	}
	before, _ := json.Marshal(timers)
	limited := timers.NotAfter(now)
	limited.NextAttempt = time.Time{} // When an attempt was due is no measurement.
	times := 0
	timesOf(reflect.ValueOf(limited), func(at time.Time) {
		if times++; at.After(now) {
			t.Errorf("%s is after %s", at, now)
		}
	})
	if times != 17 {
		t.Errorf("%d times, want 17", times)
	}
	if at := limited.ReadySince; !at["c"].Equal(now.Add(-time.Hour)) || !at["b"].IsZero() {
		t.Errorf("ready since %v", at)
	}
	if after, _ := json.Marshal(timers); string(after) != string(before) {
		t.Errorf("%s\nwas\n%s", after, before)
	}
}
