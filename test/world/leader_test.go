package world

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/berth-dev/berth/test/world/server"
)

// leaseName is the default of controllers.Options.LeaseName.
const leaseName = "berth.berth.dev"

// inFlight is how long a request takes to the server, if that is not slow.
const inFlight = 100 * time.Millisecond

// leader is the replica that has the lease, as the server knows it; empty if none has it.
type leader struct {
	name  string
	since time.Time
}

// onLease stores who has the lease.
func (l *leader) onLease(w *server.Write) {
	lease, name := decode[coordinationv1.Lease](w.Object), w.Writer
	if lease.Name != leaseName {
		return
	}
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder == "" {
		name = ""
	}
	if name != l.name {
		*l = leader{name, time.Now()}
	}
}

// checkLeader: a replica decides only as long as no other one has the lease. What it sent before
// may arrive later.
func (l *laws) checkLeader(w *server.Write) {
	decided := w.Kind == "PlacementDecision" || w.Kind == "Placement"
	if decided && w.Writer != "person" && w.Writer != "" && !w.Late && l.leader.name != "" && w.Writer != l.leader.name && time.Since(l.leader.since) > inFlight+l.w.schedule.Slow() {
		l.breaks("replica %s writes a %s, but replica %s has the lease", w.Writer, w.Kind, l.leader.name)
	}
}
