// Package queue is the work queue of the placement controller: client-go's, with a heap that the
// QueueSort plugin orders.
//
// It may import api and the framework. Read queue.go first.
package queue
