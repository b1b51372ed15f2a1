package controllers

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// revokedInterval is the least time between two removals of revoked clusters from a Placement whose
// attempt waits. So a removal that a plugin holds takes little of the time that others need.
const revokedInterval = time.Second

// removesRevoked reports whether a Placement loses revoked clusters, or its edited pages are
// restored, although its attempt must wait for untilAttempt. Revoked are published clusters in no
// set that is bound to the namespace. The Placement is reconciled again after wait.
func (r *PlacementReconciler) removesRevoked(key types.NamespacedName, untilAttempt time.Duration) (removes bool, wait time.Duration) {
	now := r.Now()
	if last, known := r.revokedChecks.Load(key); known {
		if since := now.Sub(last.(time.Time)); since >= 0 && since < revokedInterval {
			return false, min(untilAttempt, revokedInterval-since)
		}
	}
	r.revokedChecks.Store(key, now)
	return r.Inventory.CannotWait(key), untilAttempt
}
