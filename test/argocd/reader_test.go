package argocd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/argoproj/argo-cd/v3/applicationset/generators"
	argov1alpha1 "github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// promise is what every answer must hold and may hold at this time.
type promise struct {
	mu        sync.Mutex
	must, may []string
	mayFail   bool
}

func (p *promise) set(must, may []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.must, p.may, p.mayFail = must, may, false
}

// during is what holds while something changes: errors stay allowed if they were.
func (p *promise) during(must, may []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.must, p.may = must, may
}

func (p *promise) allowErrors() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mayFail = true
}

func (p *promise) get() (must, may []string, mayFail bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.must, p.may, p.mayFail
}

// answer is what the generator said to a question that was put at the time asked.
type answer struct {
	asked  time.Time
	params []map[string]any
	err    error
}

// clusters are the names in the answer, each once, and those it has more than once.
func (a answer) clusters() (names, twice []string) {
	count := map[string]int{}
	for _, p := range a.params {
		count[p["clusterName"].(string)]++
	}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		names = append(names, name)
		if count[name] > 1 {
			twice = append(twice, name)
		}
	}
	return names, twice
}

// reader asks the generator again and again, through one version of the API.
type reader struct {
	version   string
	generator generators.Generator
	selector  *argov1alpha1.ApplicationSetGenerator
	promise   *promise

	mu         sync.Mutex
	last       answer
	polls      int
	failed     int // with an error, where one was due
	twice      int // with a cluster more than once
	violations []string
}

func newReader(version, configMap string, generator generators.Generator, promise *promise) *reader {
	return &reader{version: version, generator: generator, selector: selector(configMap, placement), promise: promise}
}

// selector is the generator's part of an ApplicationSet, as in the user's guide.
func selector(configMap, placement string) *argov1alpha1.ApplicationSetGenerator {
	return &argov1alpha1.ApplicationSetGenerator{ClusterDecisionResource: &argov1alpha1.DuckTypeGenerator{
		ConfigMapRef:  configMap,
		LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{group + "/placement": placement}},
	}}
}

func (r *reader) ask() answer {
	a := answer{asked: time.Now()}
	a.params, a.err = r.generator.GenerateParams(r.selector, &argov1alpha1.ApplicationSet{}, nil)
	return a
}

// run asks until ctx ends, at most 250 times a second.
func (r *reader) run(ctx context.Context) {
	defer GinkgoRecover()
	tick := time.NewTicker(4 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.poll()
		}
	}
}

// poll asks once. The promise may change meanwhile: the answer has to keep what was promised before
// and after.
func (r *reader) poll() {
	must, may, mayFail := r.promise.get()
	a := r.ask()
	mustAfter, mayAfter, mayFailAfter := r.promise.get()

	r.mu.Lock()
	defer r.mu.Unlock()
	r.polls++
	r.last = a
	if a.err != nil {
		if mayFail || mayFailAfter {
			r.failed++
		} else {
			r.violations = append(r.violations, a.err.Error())
		}
		return
	}
	names, twice := a.clusters()
	if len(twice) > 0 {
		r.twice++
	}
	for _, name := range must {
		if slices.Contains(mustAfter, name) && !slices.Contains(names, name) {
			r.violations = append(r.violations, name+" is missing")
		}
	}
	for _, name := range names {
		if !slices.Contains(may, name) && !slices.Contains(mayAfter, name) {
			r.violations = append(r.violations, name+" does not belong")
		}
	}
}

// since returns an answer to a question put after t, if there is one.
func (r *reader) since(t time.Time) (answer, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last, r.last.asked.After(t)
}

func (r *reader) broken() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.violations)
}

func (r *reader) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("observed: Argo CD's generator, %s: %d polls, %d with a moving cluster twice, %d failed when no page was there, %d violations",
		r.version, r.polls, r.twice, r.failed, len(r.violations))
}
