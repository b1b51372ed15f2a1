package controllers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/explanation"
)

// +kubebuilder:rbac:groups=berth.dev,resources=placementexplanations,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=berth.dev,resources=placementexplanations/status,verbs=patch

const (
	// unknownTime is how long after its creation a PlacementExplanation waits for its Placement,
	// whose watch event may come later.
	unknownTime     = 5 * time.Second
	unknownInterval = 500 * time.Millisecond
	// maxExplanationWrites bounds the requests for one namespace before other namespaces are
	// served.
	maxExplanationWrites = 20
)

// ExplanationReconciler answers PlacementExplanations and deletes old ones. A request is for a
// namespace: one question of a namespace is decided at a time, the oldest first, and namespaces
// take turns. There must be one worker only.
type ExplanationReconciler struct {
	Client client.Client
	// Reader reads the question that is decided next from the hub. The cache of Client has only
	// names and conditions, so that waiting questions need little memory.
	Reader    client.Reader
	Explainer *explanation.Explainer
	// Synced is closed when the inventory has all initial lists. The loop begins then.
	Synced <-chan struct{}
	Now    func() time.Time

	namespaces map[string]*explainedNamespace
}

// explainedNamespace is the state of a namespace with PlacementExplanations.
type explainedNamespace struct {
	// begun is the PlacementExplanation that is being decided, and question what it asks.
	begun    types.UID
	question explanation.Question
	// since is when its first cycle began.
	since time.Time
	// done are answered, but the cache may not show that yet.
	done map[types.UID]bool
}

// SetUp adds the reconciler to a manager. The hub must serve PlacementExplanations.
func (r *ExplanationReconciler) SetUp(_ context.Context, mgr ctrl.Manager) error {
	byNamespace := func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace()}}}
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("placementexplanation").
		Watches(&berthv1alpha1.PlacementExplanation{}, handler.EnqueueRequestsFromMapFunc(byNamespace)).
		WatchesRawSource(afterFleet(r.Synced)).
		WatchesRawSource(namedSource{r.watchClock, "clock"}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(r)
}

// namedSource is a source with a name for the log.
type namedSource struct {
	source.Func
	name string
}

func (s namedSource) String() string { return s.name }

// watchClock queues all namespaces with PlacementExplanations when the clock was set.
func (r *ExplanationReconciler) watchClock(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go watchClock(ctx, r.Now, func() {
		var all berthv1alpha1.PlacementExplanationList
		if err := r.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Listing the PlacementExplanations after the clock was set")
		}
		for i := range all.Items {
			queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: all.Items[i].Namespace}})
		}
	})
	return nil
}

// Reconcile implements reconcile.Reconciler, for a namespace.
func (r *ExplanationReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var list berthv1alpha1.PlacementExplanationList
	if err := r.Client.List(ctx, &list, client.InNamespace(request.Namespace)); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the PlacementExplanations of namespace %s: %w", request.Namespace, err)
	}
	ns := r.stateOf(request.Namespace, list.Items)
	plan := planExplanations(list.Items, ns.done, r.Now())
	if ns.begun != "" && (plan.next == nil || plan.next.UID != ns.begun) {
		// It was deleted before it was answered.
		r.Explainer.Scheduler.Forget(ns.question.Key())
		ns.begun, ns.question = "", explanation.Question{}
	}
	if len(list.Items) == 0 {
		delete(r.namespaces, request.Namespace)
	}
	writes := 0
	for _, e := range plan.expired {
		if writes++; writes > maxExplanationWrites {
			return ctrl.Result{RequeueAfter: time.Millisecond}, nil
		}
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, e, client.Preconditions{UID: &e.UID})); err != nil {
			return ctrl.Result{}, fmt.Errorf("deleting PlacementExplanation %s: %w", client.ObjectKeyFromObject(e), err)
		}
	}
	again := plan.expires
	if plan.next != nil {
		after, err := r.answer(ctx, ns, plan.next)
		if err != nil {
			return again, err
		}
		again = ctrl.Result{RequeueAfter: after}
	}
	for _, e := range plan.throttled {
		if writes++; writes > maxExplanationWrites {
			return ctrl.Result{RequeueAfter: time.Millisecond}, nil
		}
		if err := r.throttle(ctx, e); err != nil {
			return again, err
		}
	}
	return again, nil
}

// explanationPlan is what to do with the PlacementExplanations of a namespace.
type explanationPlan struct {
	// expired are deleted, throttled get the condition Throttled, and next is answered.
	expired, throttled []*berthv1alpha1.PlacementExplanation
	next               *berthv1alpha1.PlacementExplanation
	// expires is when the next one expires.
	expires ctrl.Result
}

// planExplanations keeps MaxOpenExplanations open: those that are answered, then the oldest. Beyond
// MaxKeptExplanations the newest are deleted.
func planExplanations(all []berthv1alpha1.PlacementExplanation, done map[types.UID]bool, now time.Time) explanationPlan {
	var plan explanationPlan
	var waiting []*berthv1alpha1.PlacementExplanation
	open := 0
	for i := range all {
		e := &all[i]
		left := e.CreationTimestamp.Add(berthv1alpha1.ExplanationLifetime).Sub(now)
		switch {
		case !e.DeletionTimestamp.IsZero():
			continue
		case left <= 0:
			plan.expired = append(plan.expired, e)
			continue
		case answered(e) || done[e.UID]:
			open++
		default:
			waiting = append(waiting, e)
		}
		if plan.expires.RequeueAfter == 0 || left < plan.expires.RequeueAfter {
			plan.expires.RequeueAfter = left
		}
	}
	slices.SortFunc(waiting, func(a, b *berthv1alpha1.PlacementExplanation) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	if kept := max(0, berthv1alpha1.MaxKeptExplanations-open); kept < len(waiting) {
		plan.expired = append(plan.expired, waiting[kept:]...)
		waiting = waiting[:kept]
	}
	free := min(max(0, berthv1alpha1.MaxOpenExplanations-open), len(waiting))
	if free > 0 {
		plan.next = waiting[0]
	}
	for _, e := range waiting[free:] {
		if c := meta.FindStatusCondition(e.Status.Conditions, berthv1alpha1.ExplanationThrottled); c == nil || c.Status != metav1.ConditionTrue {
			plan.throttled = append(plan.throttled, e)
		}
	}
	return plan
}

// answered is true if there is, or will be, no other answer.
func answered(e *berthv1alpha1.PlacementExplanation) bool {
	c := meta.FindStatusCondition(e.Status.Conditions, berthv1alpha1.ExplanationExplained)
	return c != nil && c.Status != metav1.ConditionUnknown
}

// stateOf returns the state of a namespace, without objects that no longer exist.
func (r *ExplanationReconciler) stateOf(namespace string, all []berthv1alpha1.PlacementExplanation) *explainedNamespace {
	if r.namespaces == nil {
		r.namespaces = map[string]*explainedNamespace{}
	}
	old, done := r.namespaces[namespace], map[types.UID]bool{}
	if old == nil {
		old = &explainedNamespace{}
	}
	for i := range all {
		if e := &all[i]; old.done[e.UID] && !answered(e) {
			done[e.UID] = true
		}
	}
	old.done = done
	r.namespaces[namespace] = old
	return old
}

// answer runs one cycle for a PlacementExplanation. It returns when to reconcile the namespace
// again.
func (r *ExplanationReconciler) answer(
	ctx context.Context, ns *explainedNamespace, cached *berthv1alpha1.PlacementExplanation,
) (time.Duration, error) {
	e := &berthv1alpha1.PlacementExplanation{}
	if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(cached), e); err != nil {
		if apierrors.IsNotFound(err) {
			ns.done[cached.UID] = true
			return time.Millisecond, nil
		}
		return 0, fmt.Errorf("reading PlacementExplanation %s: %w", client.ObjectKeyFromObject(cached), err)
	}
	if e.UID != cached.UID {
		ns.done[cached.UID] = true
		return time.Millisecond, nil
	}
	if ns.begun != e.UID {
		question, err := explanation.QuestionOf(e)
		reason := berthv1alpha1.ReasonInvalid
		if message := tooLarge(e); message != "" {
			reason, err = berthv1alpha1.ReasonTemplateTooLarge, errors.New(message)
		}
		if err != nil {
			return time.Millisecond, r.refuse(ctx, ns, e, reason, err)
		}
		ns.begun, ns.question, ns.since = e.UID, question, r.Now()
	}
	a := r.Explainer.Explain(ctx, &ns.question)
	switch {
	case a.NotFound && ageOf(e, r.Now()) < unknownTime:
		return unknownInterval, nil
	case a.Throttled:
		message := "The explanations of this namespace took so much time that the next one has to wait"
		return a.Retry, r.write(ctx, e, func(status *berthv1alpha1.PlacementExplanationStatus) {
			setThrottled(e, status, metav1.ConditionTrue, berthv1alpha1.ReasonShareUsed, message)
		})
	case a.Retry > 0:
		return a.Retry, nil
	}
	err := r.write(ctx, e, func(status *berthv1alpha1.PlacementExplanationStatus) {
		if meta.FindStatusCondition(status.Conditions, berthv1alpha1.ExplanationThrottled) != nil {
			setThrottled(e, status, metav1.ConditionFalse, berthv1alpha1.ReasonNotThrottled, "The explanation does not wait any more")
		}
		if a.Report != nil {
			a.SetStatus(status, r.Now())
		}
		condition := explained(e, &a)
		condition.ObservedGeneration = e.Generation
		v1alpha1.SetCondition(&status.Conditions, condition)
	})
	if err == nil {
		explanationSeconds.WithLabelValues("PlacementExplanation", resultOf(&a)).Observe(r.Now().Sub(ns.since).Seconds())
		ns.begun, ns.question, ns.done[e.UID] = "", explanation.Question{}, true
	}
	return time.Millisecond, err
}

// refuse reports a mistake in the spec.
func (r *ExplanationReconciler) refuse(
	ctx context.Context, ns *explainedNamespace, e *berthv1alpha1.PlacementExplanation, reason string, mistake error,
) error {
	err := r.write(ctx, e, func(status *berthv1alpha1.PlacementExplanationStatus) {
		v1alpha1.SetCondition(&status.Conditions, metav1.Condition{
			Type: berthv1alpha1.ExplanationExplained, Status: metav1.ConditionFalse, Reason: reason,
			Message: v1alpha1.CutMessage(mistake.Error()), ObservedGeneration: e.Generation,
		})
	})
	ns.done[e.UID] = err == nil
	return err
}

// tooLarge returns what is wrong with a template that is larger than allowed.
func tooLarge(e *berthv1alpha1.PlacementExplanation) string {
	if e.Spec.Template == nil {
		return ""
	}
	text, err := json.Marshal(e.Spec.Template)
	switch {
	case err != nil:
		return "spec.template: " + err.Error()
	case len(text) > berthv1alpha1.MaxTemplateBytes:
		return fmt.Sprintf("spec.template: has %d bytes of JSON; at most %d are allowed", len(text), berthv1alpha1.MaxTemplateBytes)
	}
	return ""
}

// resultOf returns the reason of the condition Explained.
func resultOf(a *explanation.Result) string {
	switch {
	case a.NotFound:
		return berthv1alpha1.ReasonPlacementNotFound
	case a.TimedOut:
		return berthv1alpha1.ReasonTimedOut
	case a.Failure != nil:
		return berthv1alpha1.ReasonDecisionFailed
	case a.Report.Skipped != "":
		return berthv1alpha1.ReasonLeftAlone
	}
	return berthv1alpha1.ReasonDecided
}

// explained returns the condition Explained of an answer.
func explained(e *berthv1alpha1.PlacementExplanation, a *explanation.Result) metav1.Condition {
	c := metav1.Condition{Type: berthv1alpha1.ExplanationExplained, Status: metav1.ConditionFalse, Reason: resultOf(a)}
	switch {
	case a.NotFound:
		c.Message = fmt.Sprintf("spec.placement: there is no Placement %q in namespace %s", e.Spec.Placement, e.Namespace)
	case a.Failure != nil:
		c.Message = a.Failure.Error()
	case a.Report.Skipped != "":
		c.Status, c.Message = metav1.ConditionTrue, a.Report.Skipped
	default:
		c.Status = metav1.ConditionTrue
		c.Message = fmt.Sprintf("%d of %d candidates are selected", a.Report.NumberOfSelectedClusters, len(a.Report.AvailableClusters))
		if a.LeftOut > 0 {
			c.Message += fmt.Sprintf("; %d verdicts are too large for the status: name the clusters in spec.clusters", a.LeftOut)
		}
		if a.NoChange > 0 {
			c.Message += fmt.Sprintf("; there was no time to look for a change that would select them for %d clusters: name fewer in spec.clusters", a.NoChange)
		}
		if a.Unmatched > 0 {
			c.Message += fmt.Sprintf("; %d of spec.edits change no cluster that the Placement could use", a.Unmatched)
		}
	}
	return c
}

func (r *ExplanationReconciler) throttle(ctx context.Context, e *berthv1alpha1.PlacementExplanation) error {
	message := fmt.Sprintf("Namespace %s has more than %d PlacementExplanations: this one waits until another one is deleted",
		e.Namespace, berthv1alpha1.MaxOpenExplanations)
	return r.write(ctx, e, func(status *berthv1alpha1.PlacementExplanationStatus) {
		setThrottled(e, status, metav1.ConditionTrue, berthv1alpha1.ReasonTooManyOpen, message)
	})
}

func setThrottled(
	e *berthv1alpha1.PlacementExplanation, status *berthv1alpha1.PlacementExplanationStatus, is metav1.ConditionStatus, reason, message string,
) {
	v1alpha1.SetCondition(&status.Conditions, metav1.Condition{
		Type: berthv1alpha1.ExplanationThrottled, Status: is, Reason: reason, Message: message, ObservedGeneration: e.Generation,
	})
}

// write changes the status, unless the change makes no difference.
func (r *ExplanationReconciler) write(
	ctx context.Context, e *berthv1alpha1.PlacementExplanation, change func(*berthv1alpha1.PlacementExplanationStatus),
) error {
	written := e.DeepCopy()
	change(&written.Status)
	if equality.Semantic.DeepEqual(&e.Status, &written.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, written, client.MergeFrom(e)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of PlacementExplanation %s: %w", client.ObjectKeyFromObject(e), err)
	}
	return nil
}
