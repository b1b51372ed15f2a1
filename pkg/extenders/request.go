package extenders

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Request is the body of a request.
type Request struct {
	Placement Placement `json:"placement"`
	Clusters  []Cluster `json:"clusters"`
}

// Placement describes the Placement that is decided.
type Placement struct {
	Namespace   string                 `json:"namespace"`
	Name        string                 `json:"name"`
	Labels      map[string]string      `json:"labels,omitempty"`
	Annotations map[string]string      `json:"annotations,omitempty"`
	Spec        v1alpha1.PlacementSpec `json:"spec"`
}

// Cluster describes one candidate. The configuration says which fields are sent.
type Cluster struct {
	Name        string                `json:"name"`
	Labels      map[string]string     `json:"labels,omitempty"`
	Claims      map[string]string     `json:"claims,omitempty"`
	Allocatable v1alpha1.ResourceList `json:"allocatable,omitempty"`
}

// Answer is the body of an answer.
type Answer struct {
	// Clusters are by name. A name that was not sent is ignored.
	Clusters map[string]ClusterAnswer `json:"clusters"`
}

// ClusterAnswer is the answer about one cluster.
type ClusterAnswer struct {
	// Score is rounded to an integer and limited to -100 to 100; absent for no score.
	Score *float64 `json:"score,omitempty"`
	// Excluded is true if the cluster must not be selected.
	Excluded bool `json:"excluded,omitempty"`
	// Reason is shown to users, up to 200 bytes.
	Reason string `json:"reason,omitempty"`
}

// maxReason is the length of a reason that is kept, in bytes.
const maxReason = 200

// ask sends the requests of a question.
func (s *server) ask(ctx context.Context, q *framework.ExtenderQuestion) (*framework.ExtenderAnswer, error) {
	began := s.options.Now()
	var sent []Cluster
	for i := range q.Clusters.All {
		if c := q.Fleet.Clusters.Get(i); c != nil {
			sent = append(sent, s.describe(c))
		}
	}
	slices.SortFunc(sent, func(a, b Cluster) int { return cmp.Compare(a.Name, b.Name) })
	answered := map[string]framework.ExtenderCluster{}
	if err := s.askVerbs(ctx, q, sent, answered); err != nil {
		return nil, err
	}
	return merge(q, began, sent, answered), nil
}

// askVerbs sends one request for each verb. Excluded clusters are not scored.
func (s *server) askVerbs(ctx context.Context, q *framework.ExtenderQuestion, sent []Cluster, answered map[string]framework.ExtenderCluster) error {
	filterVerb, prioritizeVerb := s.config.FilterVerb, s.config.PrioritizeVerb
	if filterVerb != "" {
		answers, err := s.askFor(ctx, filterVerb, q, sent)
		if err != nil {
			return err
		}
		for name, a := range answers {
			c := framework.ExtenderCluster{Name: name, Excluded: a.Excluded, Reason: cut(a.Reason)}
			if filterVerb == prioritizeVerb {
				c.Score = scoreOf(a.Score)
			}
			answered[name] = c
		}
	}
	if prioritizeVerb == "" || prioritizeVerb == filterVerb {
		return nil
	}
	if filterVerb != "" {
		sent = slices.DeleteFunc(slices.Clone(sent), func(c Cluster) bool {
			a, known := answered[c.Name]
			return !known || a.Excluded
		})
	}
	answers, err := s.askFor(ctx, prioritizeVerb, q, sent)
	if err != nil {
		return err
	}
	for name, a := range answers {
		c := answered[name]
		c.Name, c.Score, c.Reason = name, scoreOf(a.Score), cmp.Or(c.Reason, cut(a.Reason))
		answered[name] = c
	}
	return nil
}

// askFor sends a request, and another one for the clusters that its answer does not have.
func (s *server) askFor(ctx context.Context, verb string, q *framework.ExtenderQuestion, sent []Cluster) (map[string]ClusterAnswer, error) {
	if len(sent) == 0 {
		return nil, nil
	}
	answers, err := s.send(ctx, verb, q, sent)
	if err != nil {
		return nil, err
	}
	missing := slices.DeleteFunc(slices.Clone(sent), func(c Cluster) bool { _, known := answers[c.Name]; return known })
	if len(missing) > 0 && len(missing) < len(sent) {
		more, err := s.send(ctx, verb, q, missing)
		if err != nil {
			return nil, err
		}
		maps.Copy(answers, more)
	}
	return answers, nil
}

// send sends one request and returns the answers about the clusters that it names.
func (s *server) send(ctx context.Context, verb string, q *framework.ExtenderQuestion, sent []Cluster) (map[string]ClusterAnswer, error) {
	pl := q.Placement
	request := &Request{
		Placement: Placement{Namespace: pl.Namespace, Name: pl.Name, Labels: pl.Labels, Annotations: pl.Annotations, Spec: pl.Spec},
		Clusters:  sent,
	}
	answer, err := s.client.post(ctx, verb, request)
	if err != nil {
		return nil, err
	}
	known := make(map[string]ClusterAnswer, len(sent))
	for _, c := range sent {
		if a, ok := answer.Clusters[c.Name]; ok {
			known[c.Name] = a
		}
	}
	return known, nil
}

func (s *server) describe(c *framework.Cluster) Cluster {
	d := Cluster{Name: c.Name}
	if s.config.Sends(config.LabelsField) {
		d.Labels = c.Labels
	}
	if s.config.Sends(config.ClaimsField) {
		d.Claims = c.Claims
	}
	if s.config.Sends(config.AllocatableField) {
		d.Allocatable = c.Status.Allocatable
	}
	return d
}

// merge returns the answer to store.
func merge(q *framework.ExtenderQuestion, began time.Time, sent []Cluster, answered map[string]framework.ExtenderCluster) *framework.ExtenderAnswer {
	result := &framework.ExtenderAnswer{Generation: q.Placement.Generation, Time: began}
	missing := map[string]bool{}
	if !q.All && q.Before != nil {
		result.Generation, result.Time = q.Before.Generation, q.Before.Time
		for _, c := range q.Before.Clusters {
			if _, newer := answered[c.Name]; !newer {
				answered[c.Name] = c
			}
		}
		for _, name := range q.Before.Missing {
			missing[name] = true
		}
	}
	for _, c := range sent {
		missing[c.Name] = true
	}
	result.Clusters = slices.SortedFunc(maps.Values(answered), func(a, b framework.ExtenderCluster) int { return cmp.Compare(a.Name, b.Name) })
	for name := range answered {
		delete(missing, name)
	}
	result.Missing = slices.Sorted(maps.Keys(missing))
	return result
}

func scoreOf(score *float64) *int8 {
	if score == nil {
		return nil
	}
	return new(int8(math.Round(min(max(*score, float64(framework.MinScore)), float64(framework.MaxScore)))))
}

// cut makes a reason one line of at most maxReason bytes.
func cut(reason string) string {
	if len(reason) > maxReason {
		reason = reason[:maxReason]
	}
	reason = strings.ToValidUTF8(reason, "")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, reason))
}

// AnswerAt returns an answer of a file as if an extender had given it for a Placement.
func (a *Answer) AnswerAt(pl metav1.Object, now time.Time) *framework.ExtenderAnswer {
	result := &framework.ExtenderAnswer{Generation: pl.GetGeneration(), Time: now}
	for _, name := range slices.Sorted(maps.Keys(a.Clusters)) {
		c := a.Clusters[name]
		result.Clusters = append(result.Clusters, framework.ExtenderCluster{Name: name, Score: scoreOf(c.Score), Excluded: c.Excluded, Reason: cut(c.Reason)})
	}
	return result
}
