package main

import (
	"encoding/json"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

func TestScore(t *testing.T) {
	tests := map[string]struct {
		args     string
		labels   map[string]string
		want     int64
		wantCode framework.Code
	}{
		"free of charge":             {labels: map[string]string{"example.com/price": "0"}, want: 100},
		"a price":                    {labels: map[string]string{"example.com/price": "130"}, want: -30},
		"a price beyond all others":  {labels: map[string]string{"example.com/price": "999999999"}, want: -100},
		"a price below zero":         {labels: map[string]string{"example.com/price": "-7"}, want: 100},
		"no price":                   {wantCode: framework.Skip},
		"a price that is no number":  {labels: map[string]string{"example.com/price": "cheap"}, wantCode: framework.Skip},
		"a price that is too long":   {labels: map[string]string{"example.com/price": "99999999999999999999"}, wantCode: framework.Skip},
		"a price in another label":   {args: `{"label": "cost"}`, labels: map[string]string{"cost": "50"}, want: 50},
		"arguments that say nothing": {args: `{}`, labels: map[string]string{"example.com/price": "50"}, want: 50},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plugin, err := newCheapestFirst(t.Context(), json.RawMessage(tc.args), &framework.Handle{})
			if err != nil {
				t.Fatal(err)
			}
			object := &v1alpha1.ManagedCluster{}
			object.Labels = tc.labels
			state := framework.NewCycleState(&framework.Snapshot{})
			got, status := plugin.(framework.ScorePlugin).Score(t.Context(), state, &v1alpha1.Placement{}, framework.NewCluster(object, 0))
			if got != tc.want || status.Code() != tc.wantCode {
				t.Errorf("score %d with %s, want %d with %s", got, status.Code(), tc.want, tc.wantCode)
			}
		})
	}
}
