package lifecycle

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
)

// AuditLogName is the plugin's name.
const AuditLogName = "AuditLog"

// maxLogged is the maximum number of added, and of removed, clusters that a line names.
const maxLogged = 10

// AuditLog logs each published change of clusters in one line at level info, with the keys
// placement, uid, generation, revision, digest (SHA-256 of the sorted names of the published
// clusters), added, removed and pages (counts), addedNames and removedNames (the first ten), why
// (the cause), by (the user in the annotation of the Placement, which only the admission webhooks
// make reliable) and approved (true if a user approved the change).
//
// A crash can lose a line: the line is written after publication. What an attempt published before
// it failed has a line of its own.
type AuditLog struct{}

// Name implements framework.Plugin.
func (AuditLog) Name() string { return AuditLogName }

// PostBind logs the change; nothing if no cluster was added or removed.
func (AuditLog) PostBind(ctx context.Context, _ *framework.CycleState, pl *v1alpha1.Placement, p *framework.Proposal) {
	if len(p.Added) == 0 && len(p.Removed) == 0 {
		return
	}
	line := []any{
		"placement", client.ObjectKeyFromObject(pl).String(), "uid", pl.UID, "generation", pl.Generation, "revision", p.Revision, "digest", p.Digest,
		"added", len(p.Added), "removed", len(p.Removed), "pages", len(p.Writes), "why", p.Cause,
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

// submitter returns the user who submitted the Placement; empty if unknown.
func submitter(pl *v1alpha1.Placement) string {
	by, err := identity.Parse(pl.Annotations[identity.UserInfoAnnotation])
	if err != nil {
		return ""
	}
	return by.User
}
