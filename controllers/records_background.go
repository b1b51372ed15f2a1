package controllers

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// flush writes the records of a Placement's published changes, and deletes those that history no
// longer keeps.
func (r *Recorder) flush(ctx context.Context, key types.NamespacedName) error {
	err := r.writeChanges(ctx, key)
	if o := r.owedBy(key); o != nil {
		err = errors.Join(err, r.pruneOwed(ctx, key, o))
		r.dropIfDone(key, o)
	}
	return err
}

// Run writes records in the background. When ctx ends, it writes what is owed at once, and tries
// again for at most recordFlush.
func (r *Recorder) Run(ctx context.Context) {
	if r == nil {
		return
	}
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(recordFlush, cancel) })()
	end, ended := ctx.Done(), false
	for writing.Err() == nil {
		if !ended && ctx.Err() != nil {
			end, ended = nil, true
			r.hasten()
		}
		key, wait, ok := r.next(ended)
		switch {
		case ok:
			err := r.flush(writing, key)
			if ended {
				err = errors.Join(err, r.Write(writing, key))
			}
			r.schedule(key, err, ended)
		case ended && wait == nil:
			return
		default:
			select {
			case <-r.changed:
			case <-wait:
			case <-end:
			case <-writing.Done():
			}
		}
	}
	r.logUnwritten()
}

// hasten gives all that is owed a turn: no attempt writes statuses any more.
func (r *Recorder) hasten() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, retry := range r.retries {
		r.turns = append(r.turns, retry.key)
	}
	r.retries = nil
	for key, o := range r.owed {
		if !o.scheduled {
			o.scheduled = true
			r.turns = append(r.turns, key)
		}
	}
}

// isOwed reports whether something is left for the background.
func (o *owed) isOwed(ended bool) bool {
	return len(o.changes) > 0 || o.prune || ended && len(o.statuses) > 0
}

// next returns the Placement whose change has waited longest. If it must yield to decisions, or if
// only later retries are left, wait fires when next must be called again.
func (r *Recorder) next(ended bool) (key types.NamespacedName, wait <-chan time.Time, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.retries) > 0 && !time.Now().Before(r.retries[0].at) {
		r.turns = append(r.turns, r.retries[0].key)
		r.retries = r.retries[1:]
	}
	for len(r.turns) > 0 {
		key = r.turns[0]
		o := r.owed[key]
		if o == nil || !o.isOwed(ended) {
			r.turns = r.turns[1:]
			if o != nil {
				o.scheduled = false
			}
			continue
		}
		if wait := min(recordPatience-time.Since(o.since), r.wait()); wait > 0 && !ended {
			return key, time.After(wait), false
		}
		r.turns = r.turns[1:]
		return key, nil, true
	}
	if len(r.retries) > 0 {
		return key, time.After(time.Until(r.retries[0].at)), false
	}
	return key, nil, false
}

// schedule gives the Placement whose records were just written another turn if something is still
// owed: at once, or after a failure later.
func (r *Recorder) schedule(key types.NamespacedName, err error, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		recordFailures.WithLabelValues(reasonOf(err)).Inc()
	}
	o := r.owed[key]
	if o == nil {
		return
	}
	if o.scheduled = o.isOwed(ended); !o.scheduled {
		return
	}
	if err == nil {
		o.failures = 0
		r.turns = append(r.turns, key)
		return
	}
	if o.failures++; o.failures == 1 && isRefusal(err) {
		r.Log.Error(err, "The record of a published change is refused; it is tried again", "placement", key.String())
	}
	retry := laterTry{key, time.Now().Add(retryAfter(o.failures, err, ended))}
	at, _ := slices.BinarySearchFunc(r.retries, retry, func(a, b laterTry) int {
		return cmp.Or(a.at.Compare(b.at), -1)
	})
	r.retries = slices.Insert(r.retries, at, retry)
}

// retryAfter returns the time until the next try.
func retryAfter(failures int, err error, ended bool) time.Duration {
	switch {
	case ended:
		return flushRetry
	case isRefusal(err):
		return maxRecordRetry
	}
	return min(maxRecordRetry, recordRetry<<min(failures-1, 10))
}

func (r *Recorder) logGivenUp(key types.NamespacedName, err error) {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		r.Log.Info("A published change has no record: the namespace is being deleted", "placement", key.String())
	} else {
		r.Log.Error(err, "A published change has no record", "placement", key.String())
	}
}

// logUnwritten logs what could not be written before the process ends.
func (r *Recorder) logUnwritten() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, o := range r.owed {
		if len(o.changes) > 0 {
			r.Log.Error(nil, "A published change has no record: the process ends", "placement", key.String(), "revision", o.changes[0].revision)
		}
	}
}
