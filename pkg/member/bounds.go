package member

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// maxAnswer and maxProbe bound what a member may answer, in bytes: to one request, and to all
// requests of a probe.
const (
	maxAnswer = 8 << 20
	maxProbe  = 256 << 20
)

// budgetKey is the key of a context for the bytes that the answers of a probe may still have.
type budgetKey struct{}

func withBudget(ctx context.Context) context.Context {
	left := int64(maxProbe)
	return context.WithValue(ctx, budgetKey{}, &left)
}

// boundedTransport bounds the answers of a member. It follows no redirects, which would let a
// member choose what the reporter requests in its own network.
type boundedTransport struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode >= http.StatusMultipleChoices && answer.StatusCode < http.StatusBadRequest {
		_ = answer.Body.Close()
		return nil, fmt.Errorf("it answers with %d, and redirects are not followed", answer.StatusCode)
	}
	body := &boundedBody{ReadCloser: answer.Body, left: maxAnswer}
	if left, ok := r.Context().Value(budgetKey{}).(*int64); ok {
		body.budget = left
	}
	answer.Body = body
	return answer, nil
}

// boundedBody is the body of an answer. It fails beyond the bounds.
type boundedBody struct {
	io.ReadCloser
	left   int64
	budget *int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d MiB", maxAnswer>>20)
	}
	if b.budget == nil {
		return n, err
	}
	if *b.budget -= int64(n); *b.budget < 0 {
		return 0, fmt.Errorf("the answers have more than %d MiB", maxProbe>>20)
	}
	return n, err
}
