// Package queue is the work queue of Placements waiting to be decided: each waits once, in the order that the QueueSort plugin
// gives.
//
// It may import api and the framework.
package queue
