package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// AuditLogName is the plugin's name.
const AuditLogName = "AuditLog"

// submitterAnnotation contains the user who submitted a Placement, as JSON. It is trustworthy only
// if the admission webhook sets it.
const submitterAnnotation = "yunikorn.apache.org/user.info"

// maxLogged is the maximum number of added, and of removed, clusters that a line names.
const maxLogged = 10

// AuditLog is a PostBind plugin that logs each published change in one line. A crash can lose a
// line. Writes of an attempt that failed later are not in the next attempt's line.
type AuditLog struct{}

// NewAuditLog is the plugin's factory.
func NewAuditLog(_ context.Context, args json.RawMessage, _ *framework.Handle) (framework.Plugin, error) {
	if _, err := framework.DecodeArgs(args, struct{}{}); err != nil {
		return nil, err
	}
	return AuditLog{}, nil
}

// Name implements framework.Plugin.
func (AuditLog) Name() string { return AuditLogName }

// PostBind logs the change; nothing if no cluster was added or removed.
func (AuditLog) PostBind(ctx context.Context, _ *framework.CycleState, pl *v1alpha1.Placement, p *framework.Proposal) {
	if len(p.Added) == 0 && len(p.Removed) == 0 {
		return
	}
	line := []any{
		"placement", client.ObjectKeyFromObject(pl).String(), "uid", pl.UID, "generation", pl.Generation, "revision", p.Revision, "digest", p.Digest,
		"added", len(p.Added), "removed", len(p.Removed), "pages", len(p.Writes), "why", why(pl),
	}
	if len(p.Added) > 0 {
		line = append(line, "addedNames", p.Added[:min(len(p.Added), maxLogged)])
	}
	if len(p.Removed) > 0 {
		line = append(line, "removedNames", p.Removed[:min(len(p.Removed), maxLogged)])
	}
	if by := submitter(pl); by != "" {
		line = append(line, "by", by)
	}
	if p.Approved {
		line = append(line, "approved", true)
	}
	log.FromContext(ctx).Info("decision published", line...)
}

// why reports whether the Placement's spec changed since the last decision. A Proposal does not
// contain other causes.
func why(pl *v1alpha1.Placement) string {
	before := meta.FindStatusCondition(pl.Status.Conditions, v1alpha1.PlacementConditionSatisfied)
	switch {
	case before == nil:
		return "first decision"
	case before.ObservedGeneration != pl.Generation:
		return fmt.Sprintf("generation %d, was %d", pl.Generation, before.ObservedGeneration)
	}
	return fmt.Sprintf("generation %d unchanged: clusters, sets, scores, annotations or time changed", pl.Generation)
}

// submitter returns the user who submitted the Placement; empty if unknown.
func submitter(pl *v1alpha1.Placement) string {
	var info struct{ User, Username string }
	if err := json.Unmarshal([]byte(pl.Annotations[submitterAnnotation]), &info); err != nil {
		return ""
	}
	return cmp.Or(info.User, info.Username)
}
