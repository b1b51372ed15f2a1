package admission

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/berth-dev/berth/pkg/tenancy/identity"
)

// serve returns the handlers as they are served. Check is asked about every queue configuration.
func serve(t *testing.T, check func([]byte) ([]string, error)) http.Handler {
	t.Helper()
	server := webhook.NewServer(webhook.Options{})
	err := Register(server, Options{
		Access: usual, CheckQueues: check, QueueConfig: types.NamespacedName{Namespace: "berth-system", Name: "yunikorn-configs"},
		PublishedQueue: func(context.Context, types.NamespacedName, types.UID) string { return "" },
		GuardedTags:    func(string) []string { return nil },
		Administers:    func(string, identity.Identity) bool { return false },
	})
	if err != nil {
		t.Fatal(err)
	}
	return server.WebhookMux()
}

// review asks about a ConfigMap of that many bytes.
func review(bytes int) string {
	const head, tail = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","operation":"CREATE","namespace":"berth-system",` +
		`"object":{"metadata":{"name":"yunikorn-configs"},"data":{"queues.yaml":"`, `"}}}}`
	return head + strings.Repeat("x", bytes-len(head)-len(tail)) + tail
}

func post(handler http.Handler, path, body string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, request)
	return answer
}

func TestBodiesAreBounded(t *testing.T) {
	for _, path := range []string{stampPath, verifyPath, queuesPath} {
		for bytes, want := range map[int]int{4 << 20: http.StatusOK, 4<<20 + 1: http.StatusRequestEntityTooLarge, 7 << 20: http.StatusRequestEntityTooLarge} {
			handler := serve(t, func([]byte) ([]string, error) { return nil, nil })
			if answer := post(handler, path, review(bytes)); answer.Code != want {
				t.Errorf("%s with %d bytes: want %d, got %d: %.200s", path, bytes, want, answer.Code, answer.Body)
			}
		}
	}
}

// TestChecksRunOneAtATime has more requests come than may wait while a check does not end.
func TestChecksRunOneAtATime(t *testing.T) {
	began, end := make(chan struct{}, 100), make(chan struct{})
	handler := serve(t, func([]byte) ([]string, error) {
		began <- struct{}{}
		<-end
		return nil, nil
	})
	answers := make(chan int, 100)
	send := func() { answers <- post(handler, queuesPath, review(1000)).Code }
	go send()
	<-began
	// Those that wait hold their places, so what comes too many is answered at once.
	for range maxChecks {
		go send()
	}
	if code := <-answers; code != http.StatusServiceUnavailable {
		t.Errorf("the one too many gets %d", code)
	}
	if len(began) > 0 {
		t.Error("two checks run at once")
	}
	close(end)
	for range maxChecks {
		if code := <-answers; code != http.StatusOK {
			t.Errorf("one that waited gets %d", code)
		}
	}
}

// TestRequestsWait: a request beyond the number waits for one that ends, or for the time.
func TestRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		handler := LimitRequests(1, time.Second, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
		answers := make(chan int, 2)
		send := func() { answers <- post(handler, "/", "").Code }
		go send()
		synctest.Wait()
		go send()
		if code := <-answers; code != http.StatusServiceUnavailable {
			t.Errorf("one that waited for too long gets %d", code)
		}
		go send()
		synctest.Wait()
		close(end)
		for range 2 {
			if code := <-answers; code != http.StatusOK {
				t.Errorf("one that waited gets %d", code)
			}
		}
	})
}
