package server

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/client-go/rest"
)

var (
	differentialSeed  = flag.Uint64("differential.seed", 1, "the first seed of requests")
	differentialSeeds = flag.Int("differential.seeds", 5, "how many seeds of requests")
)

// requestsPerSeed is how many random requests a seed makes.
const requestsPerSeed = 150

var _ = It("answers random requests as the real API server does", func(ctx SpecContext) {
	for seed := *differentialSeed; seed < *differentialSeed+uint64(*differentialSeeds); seed++ {
		model, err := New()
		Expect(err).NotTo(HaveOccurred())
		want, got := play(ctx, newSide(kubernetes), seed, model), play(ctx, newSide(model.Config()), seed, model)
		for i := range want {
			if want[i].text() != got[i].text() {
				story := ""
				for _, before := range want[max(0, i-12) : i+1] {
					story += before.request + "\n"
				}
				Fail(fmt.Sprintf("seed %d, request %d; real (-), model (+):\n%s%s", seed, i, story, cmp.Diff(want[i].text(), got[i].text())))
			}
		}
	}
})

// exchange is a request, and what was answered or, for a watch, the events that followed.
type exchange struct {
	request string
	answer  any
}

func (e *exchange) text() string {
	text, err := json.MarshalIndent(e.answer, "", "  ")
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// play makes the requests of a seed on one side.
func play(ctx context.Context, s *side, seed uint64, model *Server) (all []exchange) {
	GinkgoHelper()
	g := newGenerator(seed, model)
	do := func(operations ...*operation) {
		GinkgoHelper()
		for _, o := range operations {
			all = append(all, exchange{o.String(), s.do(ctx, o)})
		}
	}
	do(g.createNamespace())
	model.Forget()
	do(g.watches()...)
	for range requestsPerSeed {
		do(g.next())
	}
	do(g.ends()...)
	for _, o := range g.watches() {
		all = append(all, exchange{"events of " + o.String(), s.events(o)})
	}
	do(g.deleteNamespace()...)
	for _, o := range g.cleanUp() {
		s.do(ctx, o)
	}
	return all
}

// side is one of the two servers, with what a client has seen of it.
type side struct {
	client *http.Client
	host   string
	// seen has the states of each object, by path.
	seen map[string][]map[string]any
	// order has each resource version that was seen, in this order.
	order   []string
	watches map[string]io.ReadCloser
}

func newSide(config *rest.Config) *side {
	GinkgoHelper()
	c, err := rest.HTTPClientFor(config)
	Expect(err).NotTo(HaveOccurred())
	return &side{client: c, host: config.Host, seen: map[string][]map[string]any{}, watches: map[string]io.ReadCloser{}}
}

// do does an operation, and returns its answer without what is different on each server.
func (s *side) do(ctx context.Context, o *operation) any {
	GinkgoHelper()
	var text []byte
	if o.body != nil {
		var err error
		text, err = json.Marshal(o.body(s))
		Expect(err).NotTo(HaveOccurred())
	}
	query := o.query
	if o.more {
		query += "&continue=" + s.token(o)
	}
	r, err := http.NewRequestWithContext(ctx, o.method, s.host+o.path+query, strings.NewReader(string(text)))
	Expect(err).NotTo(HaveOccurred())
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Content-Type", o.contentType)
	response, err := s.client.Do(r)
	Expect(err).NotTo(HaveOccurred())
	if response.StatusCode == http.StatusTooManyRequests {
		_ = response.Body.Close() // The caches of the server are not ready.
		return s.do(ctx, o)
	}
	if o.watch && response.StatusCode == http.StatusOK {
		s.watches[o.path+o.query] = response.Body
		return response.StatusCode
	}
	defer func() { _ = response.Body.Close() }()
	answer := map[string]any{}
	Expect(json.NewDecoder(response.Body).Decode(&answer)).To(Succeed())
	if response.StatusCode < 300 {
		s.see(o, answer)
	}
	return map[string]any{"code": response.StatusCode, "answer": s.comparable(o, answer)}
}

// see remembers the state of an object.
func (s *side) see(o *operation, answer map[string]any) {
	path := o.object()
	switch kind := answer["kind"].(string); {
	case kind == "Status":
	case strings.HasSuffix(kind, "List"):
		s.seen[o.path] = append(s.seen[o.path], answer)
	case o.method == http.MethodPost:
		path += "/" + metadata(answer)["name"].(string)
		fallthrough
	default:
		s.seen[path] = append(s.seen[path], answer)
	}
}

// token is where the last list of a path ended.
func (s *side) token(o *operation) string {
	lists := s.seen[o.path]
	if len(lists) == 0 {
		return ""
	}
	token, _ := metadata(lists[len(lists)-1])["continue"].(string)
	return token
}

// comparable returns an answer without names that are random and times, and with the order of
// resource versions in their place.
func (s *side) comparable(o *operation, answer map[string]any) any {
	switch kind, _ := answer["kind"].(string); {
	case kind == "Status":
		return statusOf(answer)
	case strings.HasSuffix(kind, "List"):
		items, _ := answer["items"].([]any)
		shown := []any{}
		for _, item := range items {
			if object := item.(map[string]any); o.prefix == "" || strings.HasPrefix(metadata(object)["name"].(string), o.prefix) {
				shown = append(shown, s.object(object))
			}
		}
		if o.prefix != "" {
			return shown
		}
		about := metadata(answer)
		return map[string]any{"kind": kind, "apiVersion": answer["apiVersion"], "items": shown, "more": about["continue"] != nil && about["continue"] != "", "remaining": about["remainingItemCount"]}
	default:
		return s.object(answer)
	}
}

// statusOf returns the code, the reason and the causes of a Status.
func statusOf(answer map[string]any) any {
	if answer["status"] == "Success" {
		return "Success"
	}
	causes := []string{}
	details, _ := answer["details"].(map[string]any)
	list, _ := details["causes"].([]any)
	for _, item := range list {
		cause := item.(map[string]any)
		causes = append(causes, fmt.Sprintf("%v %v: %v", cause["reason"], cause["field"], cause["message"]))
	}
	slices.Sort(causes)
	return map[string]any{"code": answer["code"], "reason": answer["reason"], "causes": causes}
}

func (s *side) object(content map[string]any) map[string]any {
	text, err := json.Marshal(content)
	Expect(err).NotTo(HaveOccurred())
	shown := map[string]any{}
	Expect(json.Unmarshal(text, &shown)).To(Succeed())
	about := metadata(shown)
	delete(about, "managedFields")
	for _, name := range []string{"uid", "creationTimestamp", "deletionTimestamp"} {
		if about[name] != nil {
			about[name] = "set"
		}
	}
	if prefix, _ := about["generateName"].(string); prefix != "" {
		about["name"] = prefix
	}
	if version, _ := about["resourceVersion"].(string); version != "" {
		if !slices.Contains(s.order, version) {
			s.order = append(s.order, version)
		}
		about["resourceVersion"] = slices.Index(s.order, version)
	}
	return shown
}

// events reads a watch up to the last object.
func (s *side) events(o *operation) (events []any) {
	GinkgoHelper()
	body := s.watches[o.path+o.query]
	if body == nil {
		return nil
	}
	defer func() { _ = body.Close() }()
	decoder := json.NewDecoder(body)
	for {
		event := map[string]any{}
		Expect(decoder.Decode(&event)).To(Succeed())
		object, _ := event["object"].(map[string]any)
		if event["type"] == "ERROR" {
			return append(events, statusOf(object))
		}
		name := metadata(object)["name"].(string)
		if !strings.HasPrefix(name, o.prefix) {
			continue
		}
		events = append(events, map[string]any{"type": event["type"], "object": s.object(object)})
		if strings.HasSuffix(name, lastName) {
			return events
		}
	}
}
