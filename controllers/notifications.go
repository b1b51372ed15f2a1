package controllers

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/notifications"
)

var (
	notificationsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "berth_notifications_total",
		Help: "Notifications, by result: Sent, Refused (a status that is not retried), Expired (retried for an hour), Dropped (the queue was full).",
	}, []string{"receiver", "result"})
	notificationsWaiting = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "berth_notifications_waiting",
		Help: "Notifications that wait to be sent, at most 1000.",
	}, []string{"receiver"})
)

// newNotifications returns what sends notifications; nil if there are no receivers.
func newNotifications(o Options) (*notifications.Sender, error) {
	return notifications.New(o.Config, notifications.Options{
		Observe: func(receiver, result string) { notificationsTotal.WithLabelValues(receiver, result).Inc() },
		Waiting: func(receiver string, n int) { notificationsWaiting.WithLabelValues(receiver).Set(float64(n)) },
		Log:     o.Log.WithName("notifications"),
	})
}

// notify sends the events about a status that was written, or that needs no write. What is known of
// a Placement begins with the status that the hub has, so a restart tells nothing again.
func (r *PlacementReconciler) notify(pl *v1alpha1.Placement, status *v1alpha1.PlacementStatus) {
	if r.Notifications == nil {
		return
	}
	key := client.ObjectKeyFromObject(pl)
	before, ok := r.told.Load(key)
	last, _ := before.(toldStates)
	if !ok || last.uid != pl.UID {
		last.active = notifications.ActiveIn(pl.Status.Conditions)
	}
	active, events := notifications.Next(last.active, pl, status, r.Now())
	r.told.Store(key, toldStates{pl.UID, active})
	r.Notifications.Send(events)
}

// toldStates are the states of a Placement that notifications have reported.
type toldStates struct {
	uid    types.UID
	active notifications.Active
}
