// Package explore serves the page of `berth explore`: what is wrong and what moves, the fleet as a
// matrix of clusters and Placements, and the reason for each cell.
//
//	world         one state of a hub: now, at a recorded time, or after the edits of a what-if
//	LiveWorld     the world now; a Follower keeps it up to date
//	fixedWorld    a world that does not change: a recorded time, or a what-if
//	anyWorld      a LiveWorld or a fixedWorld
//	scope         what a viewer may list: all namespaces or one, and which kinds
//	Viewer        one user, with permissions and worlds
//	tokenViewer   a Viewer of a shared server, with the bearer token of the requests
//	decider       decides Placements of a world: the engine, the controller or a recording
//
// Read api.go and api_details.go first: they have every request and its answer. server.go defines
// who may ask, and shared.go does so for many viewers. world.go, cells.go, details.go and states.go
// have the answers. watch.go updates a LiveWorld (live.go), updates.go collects the changes and
// stream.go sends them. whatif.go and past.go make the other worlds. resilience.go computes which
// domains Placements can lose, in the background. act.go writes what a viewer has confirmed.
// remote.go asks the controller, for a viewer with one namespace; namespaces.go keeps more of them.
// page/ is the page itself, embedded as it is written: no build step and no external resources.
//
// It may import api, the engine, actions, changes, explanation, inventory, recording, replay,
// resilience and simulator.
package explore
