package golden

// departure is an intended difference between Berth's result and the recorded one.
type departure string

const (
	// misconfigurationIsSaid: an invalid Placement is reported with and without candidates, and the
	// published decision stays, without clusters that the namespace may not use any more. The
	// reference validates only the fields that it uses, and then deletes the decision, or panics.
	misconfigurationIsSaid departure = "D1 misconfigured: said always, and the published decision stays"
	// badSetIsAlone: a set with an invalid selector contributes no clusters. The reference does not
	// decide the Placement.
	badSetIsAlone departure = "D2 an invalid set harms only itself"
	// lastWeightWins: a coordinate listed twice has the last weight. The reference adds the weights
	// of AddOn coordinates.
	lastWeightWins departure = "D3 a coordinate listed twice: the last weight wins"
	// preferNoSelectIsLast: clusters with an untolerated PreferNoSelect rank after all others. The
	// reference ignores the effect.
	preferNoSelectIsLast departure = "D4 PreferNoSelect ranks last"
	// spreadIsObeyed: spread constraints and the Spread prioritizer take effect. The reference has
	// both in its API and implements neither.
	spreadIsObeyed departure = "D5 spread constraints are obeyed"
	// pagesAreSticky: with published pages, every layout within the limits is correct. The
	// reference lays out the pages again, so one cluster less moves all clusters after it.
	pagesAreSticky departure = "D6 sticky pages: layout free within the limits"
	// sortedByScore: sortBy Score orders the clusters of a page by rank. The reference always sorts
	// by name.
	sortedByScore departure = "D7 sortBy Score"
	// silentWhenSame: an attempt that selects the published clusters sends no event, any other one
	// sends the scores once. The reference sends an event for every page that it writes.
	silentWhenSame departure = "D8 events: a pass that selects the same is silent; one ScoreUpdate a pass"
	// timersLookAhead: the next attempt is due when a selected cluster's toleration ends or a score
	// expires. The reference considers only the tolerations of the published clusters, whether they
	// are still selected or not.
	timersLookAhead departure = "D9 timers: what is selected, and score expiry"
	// celNeverMatches: an expression that is no boolean, or reads a field that no cluster has,
	// makes the Placement misconfigured. In the reference it matches no cluster.
	celNeverMatches departure = "D10 CEL that cannot match any cluster is a misconfiguration"
	// noneIsWanted: with numberOfClusters 0 and no cluster published, the Placement has what it
	// asks for. The reference says that no cluster matches.
	noneIsWanted departure = "D11 numberOfClusters 0 is satisfied"
	// onlyByCEL is not a departure: the clusters that a CEL predicate selects come from the
	// recording, and this recording does not have them.
	onlyByCEL departure = "not checkable without a CEL engine"
)
