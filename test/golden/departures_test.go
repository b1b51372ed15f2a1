package golden

// departure is a rule by which Berth's answer may differ from the recorded one, on purpose.
type departure string

const (
	// misconfigurationIsSaid: a mistake in a Placement is said whether or not there are candidates,
	// and the published decision stays, without clusters that the namespace may not use any more.
	// The reference validates only what it comes to use, and then wipes the decision, or panics.
	misconfigurationIsSaid departure = "D1 misconfigured: said always, and the published decision stays"
	// badSetIsAlone: an eligible set with an invalid selector contributes nothing. The reference
	// gives the Placement up.
	badSetIsAlone departure = "D2 an invalid set harms only itself"
	// lastWeightWins: a coordinate listed twice has the last weight. The reference adds those of
	// AddOn coordinates up.
	lastWeightWins departure = "D3 a coordinate listed twice: the last weight wins"
	// preferNoSelectIsLast: clusters with an untolerated PreferNoSelect rank after all others. The
	// reference ignores the effect.
	preferNoSelectIsLast departure = "D4 PreferNoSelect ranks last"
	// spreadIsObeyed: the reference declares spread constraints and the Spread prioritizer, and
	// implements neither.
	spreadIsObeyed departure = "D5 spread constraints are obeyed"
	// pagesAreSticky: with pages published before, any layout within the limits is correct. The
	// reference cuts the pages again, so that one cluster less moves all that come after it.
	pagesAreSticky departure = "D6 sticky pages: layout free within the limits"
	// sortedByScore: sortBy Score orders the clusters of a page by rank. The reference always sorts
	// by name.
	sortedByScore departure = "D7 sortBy Score"
	// silentWhenSame: a pass that selects what is published says nothing, another lists the scores
	// once. The reference sends an event for every page it writes.
	silentWhenSame departure = "D8 events: a pass that selects the same is silent; one ScoreUpdate a pass"
	// timersLookAhead: the next look is due when a selected cluster's toleration ends or a score
	// expires. The reference looks at the tolerations of the published clusters alone, selected
	// still or not.
	timersLookAhead departure = "D9 timers: what is selected, and score expiry"
	// onlyByCEL is no departure: what a CEL predicate selects is taken from the recording, and this
	// one says nothing of it.
	onlyByCEL departure = "not checkable without a CEL engine"
)
