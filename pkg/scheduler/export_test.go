package scheduler

// Deny gives an attempt the outcome Denied, for a reason.
func (a *Attempt) Deny(why string) {
	a.Outcome, a.why, a.Change = Denied, why, a.Target
}
