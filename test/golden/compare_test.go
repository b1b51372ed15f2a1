package golden

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// evaluation compares one result with the recording and the model.
type evaluation struct {
	*must
	id    string
	world *world
	want  *expected
	got   *answer
	// celMayBeBad: the scenario may have CEL that does not compile.
	celMayBeBad bool
	// recorded are the clusters on the recorded pages, decided those on Berth's pages.
	recorded map[string]bool
	decided  []string

	met   map[departure]bool
	wrong []string
}

// compare finds the errors of the result, and the departures that apply.
func (e *evaluation) compare() {
	e.met, e.wrong, e.decided = map[departure]bool{}, nil, e.got.clusters()
	if e.unknown {
		e.met[onlyByCEL] = true
		return
	}
	if e.skipped != "" || e.got.Skipped != "" {
		e.equal("skipped", e.skipped, e.got.Skipped)
		return
	}
	if len(e.got.Decisions) == 0 && len(e.placement.Name) <= 63 {
		e.fail("no page at all")
	}
	if len(setOf(e.decided)) != len(e.decided) {
		e.fail("a cluster is decided twice: %v", e.decided)
	}
	said := e.got.condition(v1alpha1.PlacementConditionMisconfigured)
	saysSo := said.Status == "True"
	if _, cel, _ := predicatesOf(&e.placement.Spec); !e.misconfigured && cel && saysSo && impossibleCEL.MatchString(said.Message) {
		e.met[celNeverMatches] = true
		e.checkMisconfigured()
		return
	}
	if e.misconfigured || e.celUnknown && e.celMayBeBad && saysSo {
		e.checkMisconfigured()
		return
	}
	e.checkPipeline()
	e.checkSelection()
	if e.chosen == nil {
		return
	}
	e.checkTimer()
	e.checkGroups()
	e.checkPages()
	e.checkStays()
	e.checkRecordedPages()
}

func (e *evaluation) fail(format string, args ...any) {
	e.wrong = append(e.wrong, fmt.Sprintf(format, args...))
}

func (e *evaluation) equal(what string, want, got any) bool {
	if reflect.DeepEqual(want, got) || gocmp.Equal(want, got, cmpopts.EquateEmpty()) {
		return true
	}
	e.fail("%s: want %v, got %v", what, want, got)
	return false
}

// kept are the published clusters that stay while nothing can be decided: all except those on the
// hub that are in no bound set any more.
func (e *evaluation) kept() map[string]bool {
	anySet := e.placement.DeepCopy()
	anySet.Spec.ClusterSets = nil
	_, _, usable := candidatesOf(e.world, anySet)
	kept := maps.Clone(e.published)
	for _, c := range e.world.clusters {
		if c.DeletionTimestamp == nil && !slices.Contains(usable, c) {
			delete(kept, c.Name)
		}
	}
	return kept
}

var (
	// fieldOf matches a message with the path of a field, after the plugin that found the mistake.
	fieldOf = regexp.MustCompile(`^(\w+:)?(spec|metadata)\.[a-z]\S*: `)
	// impossibleCEL matches the messages for expressions that the reference compiles.
	impossibleCEL = regexp.MustCompile(`has no field|the result must be a boolean|is compared with|a boolean is required`)
)

// checkMisconfigured checks the result for an invalid Placement: it names the field, and the
// published decision stays, without clusters that the namespace may not use any more.
func (e *evaluation) checkMisconfigured() {
	if e.want.code() != "Misconfigured" || !maps.Equal(e.published, e.recorded) {
		e.met[misconfigurationIsSaid] = true
	}
	said := e.got.condition(v1alpha1.PlacementConditionMisconfigured)
	if said.Status != "True" || said.Reason != "Misconfigured" || said.Message == "" {
		e.fail("PlacementMisconfigured: want True, got %v", said)
	}
	if !fieldOf.MatchString(said.Message) {
		e.fail("message of PlacementMisconfigured: want the path of a field, got %q", said.Message)
	}
	e.equal("published decision", e.kept(), setOf(e.decided))
}

// checkPipeline compares candidates, filters, scores and ranking.
func (e *evaluation) checkPipeline() {
	e.equal("PlacementMisconfigured", "False", e.got.condition(v1alpha1.PlacementConditionMisconfigured).Status)
	if e.want.SyncError && e.want.ScheduleStatus == nil {
		e.met[badSetIsAlone] = true
	}
	e.equal("availableClusters", e.available, e.got.AvailableClusters)
	e.equal("filterResults", []filterResult{{"Predicate", e.matched}, {"Predicate,TaintToleration", e.feasible}}, e.got.FilterResults)
	parts := maps.Clone(e.got.PrioritizerScores)
	delete(parts, "Spread")
	e.equal("prioritizerScores", e.parts, parts)
	e.equal("scores", e.scores, e.got.Scores)
	e.equal("ranking", e.ranking, e.got.Ranking)
	scored := e.want.code() == "Success" || e.want.code() == "Warning"
	switch {
	case scored && !gocmp.Equal(e.want.PrioritizerScores, e.parts, cmpopts.EquateEmpty()):
		e.met[lastWeightWins] = true
	case e.want.ScheduleStatus != nil && !slices.Equal(e.want.Ranking, e.ranking):
		e.met[preferNoSelectIsLast] = true
	}
}

// checkSelection compares the selected clusters and the condition. With the Spread prioritizer it
// checks only that no more than the wanted number are selected, all of them feasible.
func (e *evaluation) checkSelection() {
	e.equal("numberOfSelectedClusters", len(e.decided), e.got.NumberOfSelectedClusters)
	if e.chosen == nil {
		e.met[spreadIsObeyed] = true
		wanted := e.placement.Spec.NumberOfClusters
		if wanted != nil && len(e.decided) > int(*wanted) ||
			slices.ContainsFunc(e.decided, func(c string) bool { return !slices.Contains(e.feasible, c) }) {
			e.fail("selected: %v", e.decided)
		}
		return
	}
	if !maps.Equal(e.chosen, e.recorded) && slices.Equal(e.ranking, e.want.Ranking) {
		e.met[spreadIsObeyed] = true
	}
	e.equal("selected", e.chosen, setOf(e.decided))
	said, was := e.got.condition(v1alpha1.PlacementConditionSatisfied), e.want.condition(v1alpha1.PlacementConditionSatisfied)
	e.equal("PlacementSatisfied", []string{e.satisfied, e.reason}, []string{said.Status, said.Reason})
	if e.reason == "AllDecisionsScheduled" && len(e.chosen) == 0 && was.Reason == "NoManagedClusterMatched" {
		e.met[noneIsWanted] = true
	}
	if was.Reason != e.reason || was.Message == "" || was.MessageLoose || !maps.Equal(e.chosen, e.recorded) {
		return
	}
	// Berth may append counts to the message of a False condition.
	if said.Message != was.Message && (was.Status != "False" || !strings.HasPrefix(said.Message, was.Message+": ")) {
		e.fail("message of PlacementSatisfied: want %q, got %q", was.Message, said.Message)
	}
}

// checkTimer compares the time of the next attempt. With sortBy Score a rate-limited update may
// come first.
func (e *evaluation) checkTimer() {
	if e.placement.Spec.SortBy == v1alpha1.SortByScore {
		return
	}
	want, got, was := e.requeue, e.got.RequeueAfterSeconds, e.want.RequeueAfterSeconds
	if (want == nil) != (was == nil) || want != nil && *want != *was {
		e.met[timersLookAhead] = true
	}
	if (want == nil) != (got == nil) || want != nil && math.Abs(*want-*got) > 2 {
		e.fail("requeueAfterSeconds: want %v, got %v", show(want), show(got))
	}
}

func show(seconds *float64) string {
	if seconds == nil {
		return "none"
	}
	return fmt.Sprint(*seconds)
}
