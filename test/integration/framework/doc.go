// Package framework tests the scheduling framework's promises to an operator on a real API server.
// Changes are held until users with permission approve them, also if the controller dies meanwhile.
// A change that removes too much, or comes outside a maintenance window, is held. The queue keeps
// its order. Placements that are decided at once do not overload the same clusters.
//
// It may import any package of Berth. Read approval_test.go first.
package framework
