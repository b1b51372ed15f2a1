package lifecycle

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

func TestApproval(t *testing.T) {
	const token = "0123456789abcdef9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c2-sc8j2q"
	const how = "changes of this Placement need approval; approve with the annotation berth.dev/approve=" + token
	tests := map[string]struct {
		args                string
		required, approvals string
		token               string
		want                string
		wantTimeout         time.Duration
	}{
		"not asked for":           {token: token},
		"not asked for this way":  {token: token, required: "Required"},
		"not approved":            {token: token, required: "required", want: how, wantTimeout: 7 * 24 * time.Hour},
		"with a timeout":          {args: `{"timeout": "72h"}`, token: token, required: "required", want: how, wantTimeout: 72 * time.Hour},
		"approved":                {token: token, required: "required", approvals: token},
		"another change approved": {token: token, required: "required", approvals: "fedcba98765432103465f6e6975baa864ca957f0914ecda9bf7eb601ac31ac20-sc8j2q", want: how + ` (the annotation now has "fedcba98765432103465f6e6975baa864ca957f0914ecda9bf7eb601ac31ac20-sc8j2q", the name of another change, which approves nothing of this one)`, wantTimeout: 7 * 24 * time.Hour},
		"an earlier hold of it":   {token: token, required: "required", approvals: "0123456789abcdef9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c2-sc8j2p", want: how + ` (the annotation now has "0123456789abcdef9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c2-sc8j2p", the name of another change, which approves nothing of this one)`, wantTimeout: 7 * 24 * time.Hour},
		"its digest alone":        {token: token, required: "required", approvals: "0123456789abcdef", want: how + ` (the annotation now has "0123456789abcdef", the name of another change, which approves nothing of this one)`, wantTimeout: 7 * 24 * time.Hour},
		"a long word":             {token: token, required: "required", approvals: strings.Repeat("x", 200), want: how + ` (the annotation now has "` + strings.Repeat("x", 80) + `", the name of another change, which approves nothing of this one)`, wantTimeout: 7 * 24 * time.Hour},
		"nothing approves a change without a name": {required: "required",
			want: "changes of this Placement need approval; approve with the annotation berth.dev/approve=", wantTimeout: 7 * 24 * time.Hour},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plugin, err := NewApproval(context.Background(), json.RawMessage(tc.args), nil)
			if err != nil {
				t.Fatal(err)
			}
			pl := &v1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
			for key, value := range map[string]string{v1alpha1.ApprovalAnnotation: tc.required, v1alpha1.ApproveAnnotation: tc.approvals} {
				if value != "" {
					pl.Annotations[key] = value
				}
			}
			status, timeout := plugin.(*Approval).Permit(context.Background(), nil, pl, &framework.Proposal{Token: tc.token})
			wantCode := framework.Success
			if tc.want != "" {
				wantCode = framework.Wait
			}
			if status.Code() != wantCode || status.Reason() != tc.want || timeout != tc.wantTimeout {
				t.Errorf("got %s %q for %s, want %s %q for %s", status.Code(), status.Reason(), timeout, wantCode, tc.want, tc.wantTimeout)
			}
		})
	}
}

func TestApprovalArgs(t *testing.T) {
	tests := map[string]struct{ args, want string }{
		"none":                     {},
		"a timeout":                {args: `{"timeout": "1h"}`},
		"no time at all":           {args: `{"timeout": "0s"}`, want: "timeout: must be greater than 0"},
		"a negative timeout":       {args: `{"timeout": "-1h"}`, want: "timeout: must be greater than 0"},
		"an argument that is none": {args: `{"timeOut": "1h", "by": "ann"}`, want: `unknown field "by"`},
		"no duration":              {args: `{"timeout": "soon"}`, want: `invalid duration "soon"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := NewApproval(context.Background(), json.RawMessage(tc.args), nil)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
