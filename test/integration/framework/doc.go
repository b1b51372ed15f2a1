// Package framework tests on a real API server what the scheduling framework promises an operator:
// changes are held until they are approved, by those who may, and across the death of the
// controller; a change that removes too much, or comes outside a maintenance window, is held; the
// queue keeps its order; and Placements decided at once do not crowd each other.
//
// It may import any package of Berth. Read approval_test.go first.
package framework
