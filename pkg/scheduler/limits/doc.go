// Package limits says which Placement may be prepared or decided now, and for how long: deadlines
// of cycles, the shares of namespaces of the scheduler's time, and the turns of preparation.
//
// It may import api and framework. Read limits.go first.
package limits
