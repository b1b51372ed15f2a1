package tenancy_test

import (
	"testing"

	"github.com/berth-dev/berth/pkg/tenancy"
)

func TestRequestedQueue(t *testing.T) {
	const key = "yunikorn.apache.org/queue"
	for name, tc := range map[string]struct {
		annotations, labels map[string]string
		want                string
	}{
		"label before all": {map[string]string{key: "root.a"}, map[string]string{key: "root.b", "queue": "root.c"}, "root.b"},
		"annotation":       {map[string]string{key: "root.a"}, map[string]string{"queue": "root.c"}, "root.a"},
		"old label":        {nil, map[string]string{"queue": "root.c"}, "root.c"},
		"empty is nothing": {map[string]string{key: "root.a"}, map[string]string{key: ""}, "root.a"},
		"nothing":          {nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tenancy.RequestedQueue(tc.annotations, tc.labels); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
