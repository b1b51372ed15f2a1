// Package queue is the work queue of the placement controller: client-go's queue, ordered by the
// QueueSort plugin with a heap.
//
// It may import api and the framework. Read queue.go first.
package queue
