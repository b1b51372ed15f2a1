package golden

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/pkg/simulator"
)

// agreeFile has the number of results that agree; it must not fall.
const agreeFile = "agree.txt"

// snapshot is one step of the corpus with Berth's reports on it.
type snapshot struct {
	id          string
	costly      bool
	step        simulator.Step
	reports     [][]byte
	evaluations []*evaluation
}

// corpus decides every step of every recording once, for all tests.
var corpus = sync.OnceValues(func() ([]*snapshot, error) {
	files, err := corpusFiles()
	if err != nil {
		return nil, err
	}
	parts, errs := make([][]*snapshot, len(files)), make([]error, len(files))
	var running sync.WaitGroup
	for i, file := range files {
		running.Go(func() { parts[i], errs[i] = decideFile(file) })
	}
	running.Wait()
	return slices.Concat(parts...), errors.Join(errs...)
})

// decideFile gives Berth only the objects and the clock of every step.
func decideFile(file string) ([]*snapshot, error) {
	input, err := simulator.Load([]string{file}, nil)
	if err != nil {
		return nil, err
	}
	scenarios, err := readScenarios(file)
	if err != nil {
		return nil, err
	}
	if len(scenarios) != len(input.Scenarios) {
		return nil, fmt.Errorf("%s: %d scenarios read, want %d", file, len(input.Scenarios), len(scenarios))
	}
	var all []*snapshot
	for i := range scenarios {
		for n, step := range input.Scenarios[i].Steps {
			s := &snapshot{id: fmt.Sprintf("%s step %d", scenarios[i].ID, n), costly: scenarios[i].costly(), step: step}
			if s.reports, err = reportsOf(step.Objects, step.Now); err != nil {
				return nil, fmt.Errorf("%s: %w", s.id, err)
			}
			if err := s.prepare(&scenarios[i], n); err != nil {
				return nil, fmt.Errorf("%s: %w", s.id, err)
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// reportsOf returns Berth's results for all Placements among the objects, as `berth simulate -o
// json` prints them.
func reportsOf(objects simulator.Objects, now time.Time) ([][]byte, error) {
	ctx := context.Background()
	s, err := simulator.New(ctx, objects, now, simulator.Options{Alone: true})
	if err != nil {
		return nil, err
	}
	var texts [][]byte
	for _, key := range s.Placements() {
		report, err := s.Decide(ctx, key)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(report)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// prepare pairs each report with the recording and the model.
func (s *snapshot) prepare(from *scenario, n int) error {
	w, err := newWorld(&from.Steps[n])
	if err != nil {
		return err
	}
	answers := map[string]*answer{}
	for _, text := range s.reports {
		a := new(answer)
		if err := json.Unmarshal(text, a); err != nil {
			return err
		}
		answers[a.Placement] = a
	}
	if len(answers) != len(from.Steps[n].Expected) {
		return fmt.Errorf("%d answers, want %d", len(answers), len(from.Steps[n].Expected))
	}
	for j := range from.Steps[n].Expected {
		want := &from.Steps[n].Expected[j]
		got := answers[want.Placement]
		if got == nil {
			return fmt.Errorf("no answer to %s", want.Placement)
		}
		s.evaluations = append(s.evaluations, &evaluation{
			id: s.id + " " + want.Placement, world: w, want: want, got: got, celMayBeBad: from.celMayBeBad(),
			must: decide(w, placementOf(want.Placement), want), recorded: setOf(want.clusters()),
		})
	}
	return nil
}

func evaluations(t *testing.T) []*evaluation {
	t.Helper()
	snapshots, err := corpus()
	if err != nil {
		t.Fatal(err)
	}
	var all []*evaluation
	for _, s := range snapshots {
		all = append(all, s.evaluations...)
	}
	return all
}

// TestCorpus compares Berth with the recordings.
func TestCorpus(t *testing.T) {
	text, err := os.ReadFile(agreeFile)
	if err != nil {
		t.Fatal(err)
	}
	wantAgree, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	all := evaluations(t)
	agree, met := 0, map[departure]int{}
	var wrong []string
	for _, e := range all {
		e.compare()
		for d := range e.met {
			met[d]++
		}
		if len(e.wrong) == 0 {
			agree++
			continue
		}
		wrong = append(wrong, e.id+":\n  "+strings.Join(e.wrong[:min(3, len(e.wrong))], "\n  "))
	}
	for _, d := range slices.Sorted(maps.Keys(met)) {
		t.Logf("%5d  %s", met[d], d)
	}
	for _, one := range wrong[:min(8, len(wrong))] {
		t.Log(one)
	}
	t.Logf("%d of %d evaluations agree", agree, len(all))
	switch {
	case agree < wantAgree:
		t.Errorf("%d evaluations agree, %s says %d", agree, agreeFile, wantAgree)
	case agree > wantAgree:
		t.Errorf("%d evaluations agree, more than %s says: raise it from %d", agree, agreeFile, wantAgree)
	}
}

// TestBrokenResultsAreCaught breaks results in one way each, and checks that the comparison fails
// often enough.
func TestBrokenResultsAreCaught(t *testing.T) {
	type sound struct {
		*evaluation
		text []byte
	}
	var all []sound
	for _, e := range evaluations(t) {
		if e.compare(); len(e.wrong) > 0 {
			continue
		}
		text, err := json.Marshal(e.got)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sound{e, text})
	}
	for name, tc := range breakages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			caught := 0
			for _, s := range all {
				broken := *s.evaluation
				broken.got = new(answer)
				if err := json.Unmarshal(s.text, broken.got); err != nil {
					t.Fatal(err)
				}
				tc.spoil(broken.got, &broken)
				if broken.compare(); len(broken.wrong) > 0 {
					caught++
				}
			}
			t.Logf("%d of %d caught", caught, len(all))
			if caught < tc.wantCaught {
				t.Errorf("%d of %d caught, want at least %d", caught, len(all), tc.wantCaught)
			}
		})
	}
}
