// Package explore serves the page of `berth explore`: what is wrong and what moves, the fleet as a
// matrix of clusters and Placements, and the reason for each cell.
//
// Read api.go and api_details.go first: they have every request and its answer. server.go defines
// who may ask. A world (world.go) is one state of a hub, with the answers in cells.go, details.go
// and states.go. A Hub (hub.go) is a world that follows a hub: watch.go feeds it with what one
// viewer may list (scope.go), updates.go collects its changes, stream.go sends them. Other worlds
// are those after the edits of a what-if (whatif.go) and those of a recording (past.go).
// resilience.go computes which domains Placements can lose, in the background. act.go writes what
// a viewer has confirmed. remote.go has the controller decide for viewers of single namespaces,
// of which spaces.go keeps a Hub each. shared.go serves many viewers, each with a bearer token.
// page/ is the page itself, embedded as it is written: no build step and no external resources.
//
// It may import api, the engine, actions, changes, explanation, inventory, recording, replay,
// resilience and simulator.
package explore
