package extenders

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/berth-dev/berth/pkg/outbound"
	"github.com/berth-dev/berth/pkg/scheduler/config"
)

// maxAnswer is the size of an answer that is read, in bytes.
const maxAnswer = 16 << 20

// client sends requests to one extender. Its errors have no addresses.
type client struct {
	prefix string
	http   *outbound.Client
}

func newClient(e *config.Extender) (*client, error) {
	var files outbound.Files
	if e.TLSConfig != nil {
		files = outbound.Files(*e.TLSConfig)
	}
	c, err := outbound.New(files, e.Timeout())
	return &client{prefix: strings.TrimRight(e.URLPrefix, "/"), http: c}, err
}

// post sends a request and reads the answer.
func (c *client) post(ctx context.Context, verb string, request *Request) (*Answer, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, errors.New("the request cannot be written as JSON")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.prefix+"/"+strings.TrimLeft(verb, "/"), bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the URL is not valid")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	response, text, err := c.http.Do(r, maxAnswer)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answered with status %d", response.StatusCode)
	}
	return parse(text)
}

// parse reads an answer.
func parse(text []byte) (*Answer, error) {
	answer := &Answer{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, answer); err != nil {
		return nil, errors.New("its answer is not valid JSON of the form {clusters: {name: {score, excluded, reason}}}")
	}
	if answer.Clusters == nil {
		return nil, errors.New("its answer has no clusters")
	}
	return answer, nil
}
