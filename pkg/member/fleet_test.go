package member

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// versioned is a Secret of a version, made some seconds after the others.
func versioned(s *corev1.Secret, version string, seconds int) *corev1.Secret {
	s.ResourceVersion, s.UID = version, types.UID("uid of "+s.Name)
	s.CreationTimestamp = metav1.NewTime(time.Unix(int64(seconds), 0))
	return s
}

// TestFleetFollowsSecrets: what is reported after each change of the Secrets, and what is said.
func TestFleetFollowsSecrets(t *testing.T) {
	at := func(host, token string) string { return kubeconfig("server: 'http://"+host+"'", "token: "+token) }
	one := versioned(memberSecret("one", "a", at("127.0.0.1:1", hidden)), "1", 1)
	two := versioned(memberSecret("two", "b", at("127.0.0.1:2", hidden)), "1", 2)
	rival := versioned(memberSecret("rival", "a", at("127.0.0.1:3", hidden)), "1", 3)
	broken := versioned(memberSecret("broken", "c", hidden), "1", 4)
	type step struct {
		secrets     []*corev1.Secret
		wantRunning []string
		wantSaid    []string
	}
	tests := map[string][]step{
		"come and go": {
			{nil, nil, []string{"Namespace fleet: members: 0, invalid Secrets: 0"}},
			{[]*corev1.Secret{one, two}, []string{"a http://127.0.0.1:1", "b http://127.0.0.1:2"}, []string{"Namespace fleet: members: 2, invalid Secrets: 0"}},
			{[]*corev1.Secret{two}, []string{"b http://127.0.0.1:2"}, []string{
				"ManagedCluster a: is no longer reported, because no Secret describes it", "Namespace fleet: members: 1, invalid Secrets: 0"}},
		},
		"one bad Secret harms no other, and is said once": {
			{[]*corev1.Secret{broken, one}, []string{"a http://127.0.0.1:1"}, []string{
				"Secret fleet/broken, key kubeconfig: is no kubeconfig", "Namespace fleet: members: 1, invalid Secrets: 1"}},
			{[]*corev1.Secret{versioned(memberSecret("broken", "c", hidden+"2"), "2", 4), one}, []string{"a http://127.0.0.1:1"}, nil},
		},
		"a Secret that becomes invalid": {
			{[]*corev1.Secret{one}, []string{"a http://127.0.0.1:1"}, []string{"Namespace fleet: members: 1, invalid Secrets: 0"}},
			{[]*corev1.Secret{versioned(memberSecret("one", "a", hidden), "2", 1)}, []string{"a http://127.0.0.1:1"}, []string{
				"Secret fleet/one, key kubeconfig: is no kubeconfig; its last valid version stays in use", "Namespace fleet: members: 1, invalid Secrets: 1"}},
			{[]*corev1.Secret{versioned(memberSecret("one", "a", at("127.0.0.1:4", hidden)), "3", 1)}, []string{"a http://127.0.0.1:4"}, []string{
				"Namespace fleet: members: 1, invalid Secrets: 0"}},
		},
		"two Secrets for one member: the older one counts": {
			{[]*corev1.Secret{rival, one}, []string{"a http://127.0.0.1:1"}, []string{
				"Secret fleet/rival: is not used, because Secret one already describes ManagedCluster a", "Namespace fleet: members: 1, invalid Secrets: 0"}},
			{[]*corev1.Secret{rival}, []string{"a http://127.0.0.1:3"}, nil},
		},
		"another member": {
			{[]*corev1.Secret{one}, []string{"a http://127.0.0.1:1"}, []string{"Namespace fleet: members: 1, invalid Secrets: 0"}},
			{[]*corev1.Secret{versioned(memberSecret("one", "z", at("127.0.0.1:1", hidden)), "2", 1)}, []string{"z http://127.0.0.1:1"}, []string{
				"ManagedCluster a: is no longer reported, because no Secret describes it"}},
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var mu sync.Mutex
				var said []string
				f := &Fleet{
					Hub: memoryHub(t, new(atomic.Pointer[error]), nil), Namespace: "fleet", Interval: time.Hour, FailureThreshold: 5,
					described: map[string]*description{}, running: map[string]*runningReporter{},
					Say: func(line string) {
						mu.Lock()
						defer mu.Unlock()
						if !strings.Contains(line, "not found") {
							said = append(said, line)
						}
					},
				}
				for i, step := range steps {
					secrets := map[string]*corev1.Secret{}
					for _, s := range step.secrets {
						secrets[s.Name] = s
					}
					f.sync(ctx, secrets)
					time.Sleep(time.Second)
					synctest.Wait()
					var running []string
					for member, r := range f.running {
						running = append(running, fmt.Sprint(member, " ", r.config.Host))
					}
					slices.Sort(running)
					if diff := cmp.Diff(step.wantRunning, running); diff != "" {
						t.Errorf("step %d runs (-want +got):\n%s", i, diff)
					}
					if diff := cmp.Diff(step.wantSaid, said); diff != "" {
						t.Errorf("step %d says (-want +got):\n%s", i, diff)
					}
					if strings.Contains(strings.Join(said, ""), hidden) {
						t.Errorf("step %d shows a secret: %q", i, said)
					}
					said = nil
				}
				cancel()
				f.stopAll()
			})
		})
	}
}
