package generator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// listingHub refuses watches that begin with a list, which the fake client does not know.
type listingHub struct{ ctrlclient.WithWatch }

func (h listingHub) Watch(ctx context.Context, list ctrlclient.ObjectList, opts ...ctrlclient.ListOption) (watch.Interface, error) {
	if o := (&ctrlclient.ListOptions{}).ApplyOptions(opts); o.Raw.SendInitialEvents != nil {
		return nil, apierrors.NewBadRequest("list first")
	}
	return h.WithWatch.Watch(ctx, list, opts...)
}

// newTestServer answers from a hub with these objects, for the user ann, who may do everything.
func newTestServer(t *testing.T, objects ...ctrlclient.Object) (*Server, *fixture.ReviewHub) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kinds.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	for gvk := range scheme.AllKnownTypes() {
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	hub := listingHub{fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithObjects(objects...).Build()}
	f, err := newFleet(hub, "argocd")
	if err != nil {
		t.Fatal(err)
	}
	reviews := fixture.NewReviewHub()
	s := newServer(f, reviews, logr.Discard())
	if code, _ := ask(s, get("/readyz")); code != http.StatusServiceUnavailable {
		t.Errorf("before anything is listed, /readyz is %d", code)
	}
	if code, body := ask(s, get(FluxPath+"?placement=shop/web")); code != http.StatusServiceUnavailable {
		t.Errorf("before anything is listed, the answer is %d %s", code, body)
	}
	go s.Run(t.Context())
	for deadline := time.Now().Add(30 * time.Second); f.check() != nil; <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the view does not become complete")
		}
	}
	return s, reviews
}

func get(path string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	r.Header.Set("Authorization", "Bearer t")
	return r
}

func post(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, ArgoCDPath, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer t")
	return r
}

func ask(s *Server, r *http.Request) (code int, body string) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func placement(name string) *v1alpha1.Placement { return fixture.Placement("shop", name).Obj() }

// shop has the Placement web with two groups of clusters and a policy with tiers, the empty
// Placement none, the Placement new without a decision, and pages of the Placement gone.
func shop() []ctrlclient.Object {
	page := func(name, of, group, index string, decisions ...v1alpha1.ClusterDecision) *v1alpha1.PlacementDecision {
		p := &v1alpha1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		p.Labels = map[string]string{v1alpha1.PlacementLabel: of, v1alpha1.DecisionGroupNameLabel: group, v1alpha1.DecisionGroupIndexLabel: index}
		p.Annotations = map[string]string{berthv1alpha1.RevisionAnnotation: "1000000"}
		p.Status.Decisions = append([]v1alpha1.ClusterDecision{}, decisions...)
		return p
	}
	decided := func(name string, score int64) v1alpha1.ClusterDecision {
		return v1alpha1.ClusterDecision{ClusterName: name, Score: &score}
	}
	policy := &berthv1alpha1.SelectionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	policy.Spec.Placement = "web"
	// The controller has evaluated it.
	policy.Spec.Tiers = []berthv1alpha1.SelectionTier{{Name: "far"}, {Name: "scored"}, {Name: "near"}}
	policy.Status.Tiers = []berthv1alpha1.SelectionTierStatus{{Name: "scored"}, {Name: "near", Clusters: []string{"paris"}}, {Name: "far", Clusters: []string{"oslo", "rome"}}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "argocd", Name: "paris", Labels: map[string]string{clusterSecretLabel: clusterSecretType}}}
	secret.Data = map[string][]byte{"name": []byte("paris"), "server": []byte("https://paris.example"), "config": []byte("credentials")}
	return []ctrlclient.Object{
		placement("web"), placement("none"), placement("new"), placement("torn"), policy, secret,
		page("web-decision-1", "web", "canary", "0", decided("paris", 5)),
		page("web-decision-2", "web", "", "1", decided("oslo", 90), decided("rome", -7), decided("gone", 8), decided("bonn", 8)),
		page("none-decision-1", "none", "", "0"),
		page("gone-decision-1", "gone", "", "0", decided("paris", 1)),
		page("torn-decision-1", "torn", "", "0", decided("paris", 1)),
		&v1alpha1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "torn-decision-2", Labels: map[string]string{v1alpha1.PlacementLabel: "torn"}}},
		fixture.Cluster("paris").Label("region", "eu").Claim("zone", "a").Obj(),
		fixture.Cluster("oslo").Obj(),
		fixture.Cluster("rome").Label("region", "us").Obj(),
		fixture.Cluster("bonn").Label("scored", "yes").Label("region", "eu").Obj(),
	}
}

func TestAnswers(t *testing.T) {
	s, _ := newTestServer(t, shop()...)
	web := `{"name":"paris","server":"https://paris.example","labels":{"region":"eu"},"claims":{"zone":"a"},"group":"canary","groupIndex":"0","revision":"1000000","score":"5","rank":"4","tier":"near"},` +
		`{"name":"oslo","labels":{},"claims":{},"group":"","groupIndex":"1","revision":"1000000","score":"90","rank":"1","tier":"far"},` +
		`{"name":"rome","labels":{"region":"us"},"claims":{},"group":"","groupIndex":"1","revision":"1000000","score":"-7","rank":"5","tier":"far"},` +
		`{"name":"gone","group":"","groupIndex":"1","revision":"1000000","score":"8","rank":"2"},` +
		`{"name":"bonn","labels":{"region":"eu","scored":"yes"},"claims":{},"group":"","groupIndex":"1","revision":"1000000","score":"8","rank":"3"}`
	inputs := web
	for _, name := range []string{"paris", "oslo", "rome", "gone", "bonn"} {
		inputs = strings.Replace(inputs, `{"name":"`+name, `{"id":"`+name+`","name":"`+name, 1)
	}
	for name, tc := range map[string]struct {
		request *http.Request
		want    int
		body    string
	}{
		"Argo CD":                          {post(`{"applicationSetName":"x","input":{"parameters":{"placement":"shop/web"}}}`), 200, `{"output":{"parameters":[` + web + `]}}`},
		"a name and a namespace":           {post(`{"input":{"parameters":{"placement":"web","namespace":"shop","other":{"a":[1]}},"values":{"a":"b"}}}`), 200, `{"output":{"parameters":[` + web + `]}}`},
		"the empty decision":               {post(`{"input":{"parameters":{"placement":"shop/none"}}}`), 200, `{"output":{"parameters":[]}}`},
		"no decision":                      {post(`{"input":{"parameters":{"placement":"shop/new"}}}`), 503, `{"error":"the Placement has no decision yet"}`},
		"a page without content":           {post(`{"input":{"parameters":{"placement":"shop/torn"}}}`), 503, `{"error":"the Placement has no decision yet: PlacementDecision torn-decision-2 has no content"}`},
		"no Placement":                     {post(`{"input":{"parameters":{"placement":"shop/nosuch"}}}`), 404, `{"error":"the Placement shop/nosuch does not exist"}`},
		"pages of a deleted one":           {post(`{"input":{"parameters":{"placement":"shop/gone"}}}`), 404, `{"error":"the Placement shop/gone does not exist"}`},
		"no name":                          {post(`{"input":{"parameters":{}}}`), 400, `{"error":"input.parameters.placement must be NAMESPACE/NAME, or NAME with input.parameters.namespace"}`},
		"two namespaces":                   {post(`{"input":{"parameters":{"placement":"a/b","namespace":"c"}}}`), 400, `{"error":"input.parameters.placement and input.parameters.namespace name different namespaces"}`},
		"three parts":                      {post(`{"input":{"parameters":{"placement":"a/b/c"}}}`), 400, `{"error":"input.parameters.placement must be NAMESPACE/NAME, or NAME with input.parameters.namespace"}`},
		"a number":                         {post(`{"input":{"parameters":{"placement":7}}}`), 400, `{"error":"the request must be JSON with input.parameters.placement: a text, NAMESPACE/NAME"}`},
		"no JSON":                          {post(`placement=shop/web`), 400, `{"error":"the request must be JSON with input.parameters.placement: a text, NAMESPACE/NAME"}`},
		"deep JSON":                        {post(strings.Repeat(`[`, maxBody)), 400, `{"error":"the request must be JSON with input.parameters.placement: a text, NAMESPACE/NAME"}`},
		"a large request":                  {post(strings.Repeat(` `, maxBody+1)), 413, `{"error":"the request has more than 65536 bytes"}`},
		"Flux":                             {get(FluxPath + "?placement=shop/web"), 200, `{"inputs":[` + inputs + `]}`},
		"Flux, a name and a namespace":     {get(FluxPath + "?placement=none&namespace=shop"), 200, `{"inputs":[]}`},
		"Flux, no Placement":               {get(FluxPath + "?placement=shop/nosuch"), 404, `{"error":"the Placement shop/nosuch does not exist"}`},
		"Flux, no name":                    {get(FluxPath), 400, `{"error":"placement must be NAMESPACE/NAME, or NAME with namespace"}`},
		"Argo CD's path with GET":          {get(ArgoCDPath), 405, "Method Not Allowed\n"},
		"a path that is not served":        {get("/api/v1/other"), 404, "404 page not found\n"},
		"whether the server lives":         {get("/healthz"), 200, "ok\n"},
		"whether the server can answer":    {get("/readyz"), 200, "ok\n"},
		"a name that is no name":           {get(FluxPath + "?placement=shop/%00"), 400, `{"error":"placement must be NAMESPACE/NAME, or NAME with namespace"}`},
		"a namespace that is no namespace": {get(FluxPath + "?placement=a%0Ab/web"), 400, `{"error":"placement must be NAMESPACE/NAME, or NAME with namespace"}`},
	} {
		t.Run(name, func(t *testing.T) {
			code, body := ask(s, tc.request)
			if diff := cmp.Diff(tc.body, body); code != tc.want || diff != "" {
				t.Errorf("code %d, want %d; body (-want +got):\n%s", code, tc.want, diff)
			}
		})
	}
}

// TestAccess: without the permission, a Placement that exists and one that does not get the same
// answer, and the fleet is not looked at.
func TestAccess(t *testing.T) {
	s, hub := newTestServer(t, shop()...)
	answer := func(r *http.Request) string { code, body := ask(s, r); return fmt.Sprint(code, " ", body) }

	nobody := get(FluxPath + "?placement=shop/web")
	nobody.Header.Del("Authorization")
	if got := answer(nobody); got != `401 {"error":"the request needs a bearer token of the hub"}` {
		t.Errorf("without a token: %s", got)
	}
	if got := answer(get(FluxPath + "?placement=shop/web")); !strings.HasPrefix(got, "200 ") {
		t.Errorf("with the permission: %s", got)
	}
	if got := hub.Access.ResourceAttributes; got.Namespace != "shop" || got.Verb != "get" || got.Resource != "placementdecisions" || got.Group != v1alpha1.GroupName {
		t.Errorf("the hub was asked for %+v", got)
	}
	before := hub.Tokens + hub.Accesses
	answer(get(FluxPath + "?placement=shop/none"))
	if now := hub.Tokens + hub.Accesses; now != before {
		t.Errorf("a second request cost %d reviews", now-before)
	}
	hub.Status.Allowed = false
	for _, name := range []string{"web", "nosuch"} {
		if got := answer(get(FluxPath + "?placement=other/" + name)); got != `403 {"error":"user ann may not get placementdecisions in namespace other"}` {
			t.Errorf("without the permission: %s", got)
		}
	}
	hub.Unknown = true
	forged := get(FluxPath + "?placement=shop/web")
	forged.Header.Set("Authorization", "Bearer forged")
	if got := answer(forged); got != `401 {"error":"the request needs a bearer token of the hub"}` {
		t.Errorf("with a forged token: %s", got)
	}
	hub.TokenErr = apierrors.NewServiceUnavailable("down")
	other := get(FluxPath + "?placement=shop/web")
	other.Header.Set("Authorization", "Bearer other")
	if got := answer(other); got != `503 {"error":"the hub could not be asked"}` {
		t.Errorf("without the hub: %s", got)
	}
}

// lostView is complete, and has lost the hub.
type lostView struct {
	follower
	since time.Time
}

func (v *lostView) Complete() bool           { return true }
func (v *lostView) Lost() (time.Time, error) { return v.since, nil }

// TestLostHub: some seconds after the connection is lost nothing is answered.
func TestLostHub(t *testing.T) {
	s, _ := newTestServer(t, shop()...)
	now := time.Now()
	s.fleet.now = func() time.Time { return now }
	lost := &lostView{}
	s.fleet.followed = append(s.fleet.followed, lost)
	for _, tc := range []struct {
		since time.Duration
		want  int
	}{{lostAfter, 200}, {lostAfter + time.Second, 503}} {
		lost.since = now.Add(-tc.since)
		if code, body := ask(s, get(FluxPath+"?placement=shop/web")); code != tc.want {
			t.Errorf("%s after the loss: %d %s", tc.since, code, body)
		}
	}
}

// TestFullServer: more than maxAnswers at a time are refused, not queued. One user, and one
// namespace, can take a part of them only.
func TestFullServer(t *testing.T) {
	for name, tc := range map[string]struct {
		takes func(s *slots, i int) error
		code  int
		body  string
		// answered is true if another user gets an answer about another namespace.
		answered bool
	}{
		"the user":      {func(s *slots, i int) error { _, err := s.take("ann", fmt.Sprint(i)); return err }, 429, `{"error":"too many requests of this user at once"}`, true},
		"the namespace": {func(s *slots, i int) error { _, err := s.take(fmt.Sprint(i), "shop"); return err }, 429, `{"error":"too many requests for this namespace at once"}`, true},
		"others":        {func(s *slots, i int) error { _, err := s.take(fmt.Sprint(i), fmt.Sprint(i)); return err }, 503, `{"error":"too many requests at once"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append(shop(), fixture.Placement("farm", "web").Obj())
			s, hub := newTestServer(t, objects...)
			taken := 0
			for i := range 2 * maxAnswers {
				if tc.takes(&s.slots, i) == nil {
					taken++
				}
			}
			if tc.answered && taken != maxOfOne || taken > maxAnswers {
				t.Errorf("%d slots are taken", taken)
			}
			if code, body := ask(s, get(FluxPath+"?placement=shop/web")); code != tc.code || body != tc.body {
				t.Errorf("got %d %s", code, body)
			}
			hub.User.Username = "bob"
			other := get(FluxPath + "?placement=farm/web")
			other.Header.Set("Authorization", "Bearer other")
			// The other Placement has no decision.
			code, body := ask(s, other)
			if wants := strings.Contains(body, "no decision yet"); code != http.StatusServiceUnavailable || wants != tc.answered {
				t.Errorf("another user, about another namespace, gets %d %s", code, body)
			}
		})
	}
}

// slowClient reads nothing until read is closed.
type slowClient struct {
	httptest.ResponseRecorder
	asked chan<- struct{}
	read  <-chan struct{}
}

func (c *slowClient) Write(p []byte) (int, error) {
	c.asked <- struct{}{}
	<-c.read
	return c.ResponseRecorder.Write(p)
}

// TestSlowClients: a user who does not read answers, which take memory, soon gets no more, and
// delays no other user.
func TestSlowClients(t *testing.T) {
	s, hub := newTestServer(t, shop()...)
	asked, read := make(chan struct{}), make(chan struct{})
	var clients sync.WaitGroup
	for range maxOfOne {
		clients.Go(func() { s.ServeHTTP(&slowClient{asked: asked, read: read}, get(FluxPath+"?placement=shop/web")) })
		<-asked
	}
	if code, body := ask(s, get(FluxPath+"?placement=shop/web")); code != http.StatusTooManyRequests {
		t.Errorf("got %d %s", code, body)
	}
	hub.User.Username = "bob"
	for range maxAnswers {
		other := get(FluxPath + "?placement=shop/web")
		other.Header.Set("Authorization", "Bearer other")
		if code, body := ask(s, other); code != http.StatusOK {
			t.Fatalf("another user gets %d %s", code, body)
		}
	}
	close(read)
	clients.Wait()
	hub.User.Username = "ann"
	if code, body := ask(s, get(FluxPath+"?placement=shop/web")); code != http.StatusOK {
		t.Errorf("after the answers were read: %d %s", code, body)
	}
}

// TestSlotsAreGivenBack: what ended does not count.
func TestSlotsAreGivenBack(t *testing.T) {
	var s slots
	for range 2 {
		var given []func()
		for range maxOfOne {
			taken, err := s.take("ann", "shop")
			if err != nil {
				t.Fatal(err)
			}
			given = append(given, taken.made, taken.sent)
		}
		for _, give := range given {
			give()
		}
	}
	if s.all != 0 || len(s.users)+len(s.namespaces) > 0 {
		t.Errorf("left are %d, %v, %v", s.all, s.users, s.namespaces)
	}
}

// TestLabelsAndClaimsAreCut: what the agent of one cluster writes does not make answers too large,
// and no value is cut in the middle.
func TestLabelsAndClaimsAreCut(t *testing.T) {
	objects := shop()
	for _, o := range objects {
		if c, ok := o.(*v1alpha1.ManagedCluster); ok && c.Name == "paris" {
			for i := range 4000 {
				c.Labels[fmt.Sprintf("label-%04d", i)] = strings.Repeat("<", 60)
				c.Status.ClusterClaims = append(c.Status.ClusterClaims, v1alpha1.ManagedClusterClaim{Name: fmt.Sprintf("zz-%04d", i), Value: strings.Repeat("\x01", 1024)})
			}
		}
	}
	s, _ := newTestServer(t, objects...)
	code, body := ask(s, get(FluxPath+"?placement=shop/web"))
	if code != http.StatusOK || len(body) > 3*maxPart {
		t.Fatalf("got %d, %d bytes", code, len(body))
	}
	var answer struct{ Inputs []entry }
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatal(err)
	}
	paris, oslo := answer.Inputs[0], answer.Inputs[1]
	if paris.Cut != "labels, claims" || paris.Labels["label-0000"] != strings.Repeat("<", 60) || paris.Claims["zone"] != "a" || oslo.Cut != "" {
		t.Errorf("got %+v", paris)
	}
}

// TestFluxAnswerIsBounded: the Flux Operator does not read more.
func TestFluxAnswerIsBounded(t *testing.T) {
	entries := []entry{{Name: "a", Labels: map[string]string{"x": strings.Repeat("y", maxFluxAnswer)}}}
	if _, err := writeFlux(entries); err == nil || !strings.HasSuffix(err.Error(), "the Flux Operator reads at most 921600") {
		t.Errorf("the error is %v", err)
	}
}

func FuzzReadArgoCD(f *testing.F) {
	for _, text := range []string{`{"input":{"parameters":{"placement":"a/b"}}}`, `{"input":{"parameters":{"placement":"b","namespace":"a"}}}`, `[]`, ``, `{"input":null}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := readArgoCD(httptest.NewRecorder(), post(text))
		if err == nil && (key.Name == "" || key.Namespace == "" || !json.Valid([]byte(text))) {
			t.Errorf("%q is %v", text, key)
		}
	})
}

func TestAnswersHavePublishedPagesOnly(t *testing.T) {
	for name, tc := range fixture.PageCases("shop", "web", "paris") {
		t.Run(name, func(t *testing.T) {
			s, _ := newTestServer(t, placement("web"), tc.Page, fixture.Cluster("paris").Obj())
			if _, body := ask(s, get(FluxPath+"?placement=shop/web")); strings.Contains(body, "paris") != tc.Published {
				t.Errorf("the answer is %s", body)
			}
		})
	}
}
