package world

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/berth-dev/berth/test/world/server"
)

// leader is the replica that has the lease, as the server knows it; empty if none has it.
type leader struct {
	name  string
	since time.Time
}

// onLease stores who has the lease. The one that it is taken from may not know it yet.
func (l *leader) onLease(w *server.Write) {
	lease, name := decode[coordinationv1.Lease](w.Object), w.Writer
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder == "" {
		name = ""
	}
	if name != l.name {
		*l = leader{name, time.Now()}
	}
}

// checkLeader: a replica decides only as long as it has the lease. What it sent before it lost that
// may arrive later.
func (l *laws) checkLeader(w *server.Write) {
	decided := w.Kind == "PlacementDecision" || w.Kind == "Placement"
	if decided && w.Writer != "person" && w.Writer != "" && !w.Late && l.leader.name != "" && w.Writer != l.leader.name && time.Since(l.leader.since) > l.reaction() {
		l.breaks("replica %s writes a %s, but replica %s has the lease", w.Writer, w.Kind, l.leader.name)
	}
}
