package lifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

func TestAuditLog(t *testing.T) {
	many := make([]string, 12)
	for i := range many {
		many[i] = fmt.Sprintf("c%02d", i)
	}
	tests := map[string]struct {
		annotations map[string]string
		proposal    framework.Proposal
		want        map[string]any
	}{
		"no cluster came or went": {
			proposal: framework.Proposal{Digest: "d", Writes: make([]framework.PageWrite, 2)},
		},
		"the first decision": {
			proposal: framework.Proposal{Digest: "d", Cause: "start", Added: []string{"a", "b"}, Writes: make([]framework.PageWrite, 1)},
			want: map[string]any{
				"digest": "d", "added": 2.0, "addedNames": []any{"a", "b"}, "removed": 0.0, "pages": 1.0, "why": "start",
			},
		},
		"after an edit, submitted and approved": {
			annotations: map[string]string{
				"yunikorn.apache.org/user.info": `{"user": "sue", "username": "sue", "groups": ["dev"]}`,
			},
			proposal: framework.Proposal{Digest: "d", Revision: 7, Cause: "Placement: spec", Approved: true, Removed: []string{"b"}},
			want: map[string]any{
				"digest": "d", "revision": 7.0, "added": 0.0, "removed": 1.0, "removedNames": []any{"b"}, "pages": 0.0,
				"why": "Placement: spec", "by": "sue", "approved": true,
			},
		},
		"after the fleet changed; many, an older spelling": {
			annotations: map[string]string{"yunikorn.apache.org/user.info": `{"username": "ann"}`},
			proposal:    framework.Proposal{Digest: "d", Cause: "ManagedCluster x: labels", Added: many, Removed: []string{"x"}},
			want: map[string]any{
				"digest": "d", "added": 12.0, "removed": 1.0, "removedNames": []any{"x"}, "pages": 0.0,
				"addedNames": []any{"c00", "c01", "c02", "c03", "c04", "c05", "c06", "c07", "c08", "c09"},
				"why":        "ManagedCluster x: labels", "by": "ann",
			},
		},
		"a name in another letter case is none": {
			annotations: map[string]string{"yunikorn.apache.org/user.info": `{"user":"sue","USER":"bob"}`},
			proposal:    framework.Proposal{Digest: "d", Cause: "retry", Removed: []string{"b"}},
			want: map[string]any{
				"digest": "d", "added": 0.0, "removed": 1.0, "removedNames": []any{"b"}, "pages": 0.0, "why": "retry", "by": "sue",
			},
		},
		"an illegible submitter is none": {
			annotations: map[string]string{"yunikorn.apache.org/user.info": `sue`},
			proposal:    framework.Proposal{Digest: "d", Cause: "retry", Removed: []string{"b"}},
			want: map[string]any{
				"digest": "d", "added": 0.0, "removed": 1.0, "removedNames": []any{"b"}, "pages": 0.0, "why": "retry",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var lines []string
			ctx := log.IntoContext(context.Background(), funcr.NewJSON(func(line string) { lines = append(lines, line) }, funcr.Options{}))
			pl := &v1alpha1.Placement{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Generation: 4, Annotations: tc.annotations},
			}
			AuditLog{}.PostBind(ctx, nil, pl, &tc.proposal)
			if tc.want == nil {
				if len(lines) > 0 {
					t.Errorf("logged %q", lines)
				}
				return
			}
			if len(lines) != 1 {
				t.Fatalf("logged %d lines: %q", len(lines), lines)
			}
			got := map[string]any{}
			if err := json.Unmarshal([]byte(lines[0]), &got); err != nil {
				t.Fatal(err)
			}
			want := map[string]any{"logger": "", "level": 0.0, "msg": "decision published", "placement": "ns/p", "uid": "u", "generation": 4.0, "revision": 0.0}
			maps.Copy(want, tc.want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
		})
	}
}
