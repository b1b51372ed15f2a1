package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// ApprovalName is the plugin's name.
const ApprovalName = "Approval"

// ApprovalArgs are the arguments of Approval.
type ApprovalArgs struct {
	// Timeout is how long a change waits for its approval before it is dropped, for example "72h". Default 168h, a week.
	Timeout metav1.Duration `json:"timeout,omitzero"`
}

// Approval is a Permit plugin that holds every change of a Placement with the annotation berth.dev/approval=required until the
// annotation berth.dev/approve names it. The API server lets only holders of the verb approve on placements set that.
type Approval struct{ args ApprovalArgs }

// NewApproval is the plugin's factory.
func NewApproval(_ context.Context, raw json.RawMessage, _ *framework.Handle) (framework.Plugin, error) {
	args, err := framework.DecodeArgs(raw, ApprovalArgs{Timeout: metav1.Duration{Duration: defaultTimeout}})
	if err == nil && args.Timeout.Duration <= 0 {
		err = errors.New("timeout: must be greater than 0")
	}
	return &Approval{args}, err
}

// defaultTimeout is how long a change waits for people.
const defaultTimeout = 7 * 24 * time.Hour

// Name implements framework.Plugin.
func (*Approval) Name() string { return ApprovalName }

// Permit implements framework.PermitPlugin.
func (a *Approval) Permit(_ context.Context, _ *framework.CycleState, pl *v1alpha1.Placement, p *framework.Proposal) (*framework.Status, time.Duration) {
	// What a namespace may not use any more leaves without approval.
	if pl.Annotations[v1alpha1.ApprovalAnnotation] != v1alpha1.ApprovalRequired || p.Forced || approved(pl, p) {
		return nil, 0
	}
	return framework.NewStatus(framework.Wait, "changes of this Placement need approval; "+howToApprove(pl, p)), a.args.Timeout.Duration
}

// approved says whether somebody with the right to do so approved this very change.
func approved(pl *v1alpha1.Placement, p *framework.Proposal) bool {
	return p.Token != "" && pl.Annotations[v1alpha1.ApproveAnnotation] == p.Token
}

// howToApprove says what to do, and that what was done is not it.
func howToApprove(pl *v1alpha1.Placement, p *framework.Proposal) string {
	text := fmt.Sprintf("approve with the annotation %s=%s", v1alpha1.ApproveAnnotation, p.Token)
	if stale := pl.Annotations[v1alpha1.ApproveAnnotation]; stale != "" {
		text += fmt.Sprintf(" (the annotation now has %.80q, the name of another change, which approves nothing of this one)", stale)
	}
	return text
}
