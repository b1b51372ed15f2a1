package scheduler

// Deny gives an attempt the outcome Denied, for a reason.
func (a *Attempt) Deny(why string) {
	a.Outcome, a.why, a.Change = Denied, why, a.Target
}

// SetChunkSize sets how many candidates one goroutine processes, until restore is called.
func SetChunkSize(n int) (restore func()) {
	before := chunkSize
	chunkSize = n
	return func() { chunkSize = before }
}
