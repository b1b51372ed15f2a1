package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/preview"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
)

const (
	// actTimeout is how long an action may take.
	actTimeout = time.Minute
	// permissionAge is how long an answer about a permission is remembered.
	permissionAge = 30 * time.Second
)

// errRefused is the error for an action that is not possible now, or not permitted.
var errRefused = errors.New("nothing was written")

// act answers POST api/act: what an action would change, or its result.
func (v *Viewer) act(ctx context.Context, r ActRequest) (*ActAnswer, error) {
	request, err := requestOf(r)
	if err != nil {
		return nil, err
	}
	if v.Live == nil || v.Client == nil {
		return nil, fmt.Errorf("%w: there is no hub, only a recording", errRefused)
	}
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	prepared, err := v.prepare(ctx, request, r.Confirmed)
	if err != nil {
		return nil, err
	}
	answer := &ActAnswer{Question: prepared.Question, Spec: prepared.SpecChanges}
	var refusal error
	if needs := actions.NeedsPreview(r.Verb); needs || !r.Confirmed {
		answer.Diff, answer.Note, refusal, err = v.effect(ctx, prepared)
		switch {
		case needs && (err != nil || refusal != nil && r.Confirmed):
			return nil, fmt.Errorf("%w: %w", errRefused, cmp.Or(err, refusal))
		case err != nil:
			answer.Note = "What would change is not known: " + err.Error()
		case refusal != nil:
			answer.Refused = refusal.Error()
		}
	}
	if r.Confirmed {
		if _, err := prepared.Do(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Verb, err)
		}
		return &ActAnswer{Done: prepared.Done}, nil
	}
	return answer, nil
}

// prepare returns a permitted action that would do something.
func (v *Viewer) prepare(ctx context.Context, request actions.Request, confirmed bool) (*actions.Prepared, error) {
	if missing := v.permissions.missing(ctx, v.Client, request); missing != "" && !confirmed {
		return nil, fmt.Errorf("%w. You need: %s", errRefused, missing)
	}
	prepared, err := actions.Prepare(ctx, v.Client, request)
	if err == nil {
		err = prepared.Nothing
	}
	if err != nil {
		return nil, refused(err)
	}
	return prepared, nil
}

// refused returns the error of an action that is not possible. Errors of the hub stay as they are.
func refused(err error) error {
	if apierrors.ReasonForError(err) != metav1.StatusReasonUnknown && !apierrors.IsNotFound(err) {
		return err
	}
	return fmt.Errorf("%w: %w", errRefused, err)
}

// requestOf checks a request.
func requestOf(r ActRequest) (actions.Request, error) {
	request := actions.Request{Verb: r.Verb, Cluster: r.Cluster, Revision: r.Revision, Change: r.Change, Comment: r.Comment}
	if !slices.Contains(actions.Verbs, r.Verb) {
		return request, fmt.Errorf("verb: %w: %q is not one of %s", errInvalid, r.Verb, strings.Join(actions.Verbs, ", "))
	}
	namespace, name, _ := strings.Cut(r.Placement, "/")
	request.Placement.Namespace, request.Placement.Name = namespace, name
	answers := r.Verb == actions.Approve || r.Verb == actions.Reject
	switch {
	case actions.OnPlacement(r.Verb) != (namespace != "" && name != ""):
		return request, fmt.Errorf("placement: %w: %s needs %s", errInvalid, r.Verb, needed(actions.OnPlacement(r.Verb), "NAMESPACE/NAME"))
	case actions.OnCluster(r.Verb) != (r.Cluster != ""):
		return request, fmt.Errorf("cluster: %w: %s needs %s", errInvalid, r.Verb, needed(actions.OnCluster(r.Verb), "the name of a cluster"))
	case answers != (r.Change != ""):
		return request, fmt.Errorf("change: %w: %s needs %s", errInvalid, r.Verb, needed(answers, "the name of the change that was shown"))
	case utf8.RuneCountInString(r.Comment) > berthv1alpha1.MaxComment:
		return request, fmt.Errorf("comment: %w: it has more than %d characters", errInvalid, berthv1alpha1.MaxComment)
	case r.Revision < 0 || r.Revision != 0 && !actions.NeedsPreview(r.Verb):
		return request, fmt.Errorf("revision: %w: only undo and pin have one", errInvalid)
	case actions.NeedsPreview(r.Verb) && r.Confirmed && r.Revision == 0:
		return request, fmt.Errorf("revision: %w: %s needs the revision that was shown", errInvalid, r.Verb)
	}
	return request, nil
}

func needed(it bool, what string) string {
	if it {
		return what
	}
	return "none"
}

// effect returns how an action changes decisions, or a note why there is nothing to compare.
// refusal is why the action must not be done.
func (v *Viewer) effect(ctx context.Context, p *actions.Prepared) (comparison *simulator.Comparison, note string, refusal, err error) {
	if comparison, note, known := publicationOf(p); known {
		return comparison, note, nil, nil
	}
	var objects simulator.Objects
	var now time.Time
	var seen scope
	err = v.Live.use(func(w *world, _ int64) error {
		if seen = v.Live.scope; seen.whole() {
			objects, now = objectsOf(w.inventory), w.now()
		}
		return nil
	})
	if err != nil {
		return nil, "", nil, err
	}
	if !seen.whole() {
		asker, edits := seen.asker(v.Client), []simulator.Edit{preview.EditOf(p)}
		if comparison, err = asker.Compare(ctx, seen.namespace, edits, nil); err != nil {
			return nil, "", nil, err
		}
		return comparison, "", p.Check(ctx, asker.After(edits)), nil
	}
	err = withSlots(ctx, []chan struct{}{v.slots}, func() error {
		comparison, refusal, err = effectOn(ctx, objects, p, now, v.options)
		return err
	})
	return comparison, "", refusal, err
}

// publicationOf returns the effect of an action that decides nothing; known is false for others.
func publicationOf(p *actions.Prepared) (comparison *simulator.Comparison, note string, known bool) {
	switch p.Verb {
	case actions.Approve:
		comparison, note = publication(p.Record)
		return comparison, note, true
	case actions.Reject:
		return nil, fmt.Sprintf("Change %d is not published: the %d clusters to add and %d to remove stay as they are.",
			p.Record.Spec.Revision, p.Record.Spec.AddedCount, p.Record.Spec.RemovedCount), true
	case actions.Suspend:
		note := "No change of the Placement is published until it is resumed, except forced removals."
		if p.Record != nil {
			note += fmt.Sprintf(" Change %d stops where it is.", p.Record.Spec.Revision)
		}
		return nil, note, true
	case actions.Resume:
		if p.Record == nil {
			return nil, "No change is open. Later changes are published.", true
		}
		comparison, note = publication(p.Record)
		return comparison, note, true
	}
	return nil, "", false
}

// effectOn returns how an action changes the decisions on objects. refusal is why it must not be
// done.
func effectOn(
	ctx context.Context, objects simulator.Objects, p *actions.Prepared, now time.Time, o simulator.Options,
) (comparison *simulator.Comparison, refusal, err error) {
	edits := []simulator.Edit{preview.EditOf(p)}
	if !actions.OnPlacement(p.Verb) {
		comparison, _, err = compare(ctx, objects, edits, now, o, nil)
		return comparison, nil, err
	}
	o.Alone = true
	w, err := simulator.NewWhatIf(ctx, objects, edits, now, o)
	if err != nil {
		return nil, nil, err
	}
	comparison, err = w.Compare(ctx, []types.NamespacedName{p.Placement}, nil)
	if err != nil {
		return nil, nil, err
	}
	return comparison, p.Check(ctx, w.After), nil
}

// publication is what the publication of a change does.
func publication(record *berthv1alpha1.PlacementChange) (*simulator.Comparison, string) {
	added, removed, err := changes.Lists(record)
	note := ""
	if err != nil {
		note = fmt.Sprintf("Not all clusters are listed: %v.", err)
		added, removed = record.Spec.Added, record.Spec.Removed
	}
	before := int(record.Spec.Clusters - record.Spec.AddedCount + record.Spec.RemovedCount)
	published := before
	if left := record.Status.Remaining; left != nil {
		published = int(record.Spec.Clusters - left.Added + left.Removed)
	}
	return &simulator.Comparison{
		Summary: simulator.Summary{Placements: 1, Changed: 1, Added: int(record.Spec.AddedCount), Removed: int(record.Spec.RemovedCount)},
		Changes: []simulator.Change{{
			Placement: record.Namespace + "/" + record.Spec.Placement, Operation: simulator.Updated,
			Before: before, Published: published, After: int(record.Spec.Clusters), Added: added, Removed: removed,
		}},
		OutOfDate: []simulator.OutOfDate{},
	}, note
}

// placementOffers are the actions on a Placement that make sense now.
func (w *world) placementOffers(subject *framework.Subject) []actions.Request {
	pl, history, has := subject.Placement, changes.History(subject.Records), published(subject)
	var offers []actions.Request
	offer := func(r actions.Request) {
		r.Placement = subject.Key()
		offers = append(offers, r)
	}
	for _, verb := range []string{actions.Approve, actions.Reject} {
		if record := actions.ToAnswer(verb, pl, history, has); record != nil && actions.Answerable(verb, pl) {
			offer(actions.Request{Verb: verb, Change: record.Name})
		}
	}
	suspended := slices.ContainsFunc(subject.DisruptionPolicies, func(p *berthv1alpha1.DisruptionPolicy) bool {
		return p.Name == pl.Name+changes.SuspendSuffix && p.Spec.Suspend
	})
	switch {
	case suspended:
		offer(actions.Request{Verb: actions.Resume})
	case framework.WhyNotDecided(pl) == "":
		offer(actions.Request{Verb: actions.Suspend})
	}
	if _, pinned := pl.Annotations[berthv1alpha1.PinnedRevisionAnnotation]; pinned {
		offer(actions.Request{Verb: actions.Unpin})
	} else if revision := actions.ToUndo(pl, history, has); revision > 0 {
		offer(actions.Request{Verb: actions.Undo, Revision: revision})
	}
	return offers
}

// clusterOffers are the actions on a cluster that make sense now.
func (w *world) clusterOffers(name string) []actions.Request {
	fleet, _ := w.inventory.View()
	switch c := fleet.Cluster(name); {
	case c == nil:
		return nil
	case c.Drained():
		return []actions.Request{{Verb: actions.Undrain, Cluster: name}}
	}
	return []actions.Request{{Verb: actions.Drain, Cluster: name}}
}

// actionsFor says which of the offers the viewer may take.
func (v *Viewer) actionsFor(ctx context.Context, offers []actions.Request) []Action {
	var all []Action
	if v.Client == nil {
		return nil
	}
	for _, r := range offers {
		all = append(all, Action{
			Verb: r.Verb, Change: r.Change, Revision: r.Revision, Command: r.Command(), Missing: v.permissions.missing(ctx, v.Client, r),
		})
	}
	return all
}

// permissions remembers for a short time what a viewer may do.
type permissions struct {
	mu    sync.Mutex
	known map[actions.Permission]permission
}

type permission struct {
	allowed bool
	at      time.Time
}

// missing returns the first permission that the viewer lacks for a request; empty if none.
func (p *permissions) missing(ctx context.Context, hub client.Client, r actions.Request) string {
	for _, needs := range r.Needs() {
		allowed, err := p.ask(ctx, hub, needs)
		if err != nil {
			return fmt.Sprintf("%s (the hub did not say whether you have it: %v)", needs, err)
		}
		if !allowed {
			return needs.String()
		}
	}
	return ""
}

func (p *permissions) ask(ctx context.Context, hub client.Client, needs actions.Permission) (bool, error) {
	p.mu.Lock()
	known, ok := p.known[needs]
	p.mu.Unlock()
	if ok && time.Since(known.at) < permissionAge {
		return known.allowed, nil
	}
	review := needs.Review()
	if err := hub.Create(ctx, review); err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) > maxPermissions {
		p.known = map[actions.Permission]permission{}
	}
	p.known[needs] = permission{review.Status.Allowed, time.Now()}
	return review.Status.Allowed, nil
}

// maxPermissions bounds what is remembered.
const maxPermissions = 10_000
