package explanations

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/cmd/berth/app"
	"github.com/berth-dev/berth/pkg/explanation"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// berth runs a command and returns its output.
func berth(args ...string) (string, error) {
	var out bytes.Buffer
	command := app.NewCommand()
	command.SetArgs(append(args, "--kubeconfig", hub.Kubeconfig))
	command.SetOut(&out)
	command.SetErr(io.Discard)
	err := command.Execute()
	return out.String(), err
}

var _ = Describe("berth explain", Ordered, func() {
	BeforeAll(func(ctx SpecContext) {
		t := newTeam(ctx, "cli", 4)
		t.place(ctx, fixture.Placement("cli", "web").Number(1).Predicate(fixture.MatchLabel("gpu", "true")), 1)
		newTeam(ctx, "cli-other", 1)
	})

	for _, more := range [][]string{nil, {"-o", "wide"}, {"--all"}, {"--cluster", "cli-2"}} {
		It(fmt.Sprintf("prints the same for an author and an administrator %v", more), func() {
			args := append([]string{"explain", "web", "-n", "cli"}, more...)
			want, err := berth(args...)
			Expect(err).NotTo(HaveOccurred())
			got, err := berth(append(args, "--as", "author-of-cli")...)
			Expect(err).NotTo(HaveOccurred())
			Expect(got).To(Equal(want))
		})
	}

	It("tells an author nothing about other clusters", func() {
		got := map[string]string{}
		for _, name := range []string{"cli-other-1", "nowhere"} {
			text, err := berth("explain", "web", "-n", "cli", "--cluster", name, "--as", "author-of-cli")
			Expect(err).NotTo(HaveOccurred())
			Expect(text).To(ContainSubstring(name + " is no candidate: it does not exist, is being deleted, or is in none of the cluster sets that the Placement may use."))
			got[name] = strings.ReplaceAll(text, name, "asked")
		}
		Expect(got["nowhere"]).To(Equal(got["cli-other-1"]))
	})

	It("leaves no PlacementExplanation and says what is missing", func(ctx SpecContext) {
		_, err := berth("explain", "nosuch", "-n", "cli", "--as", "author-of-cli")
		Expect(err).To(MatchError("there is no Placement cli/nosuch"))
		_, err = berth("explain", "web", "-n", "cli", "--as", "nobody-in-particular")
		Expect(err).To(MatchError(And(ContainSubstring("managedclusters"), ContainSubstring(`cannot create resource "placementexplanations"`))))
		left := &berthv1alpha1.PlacementExplanationList{}
		Expect(hub.List(ctx, left, client.InNamespace("cli"))).To(Succeed())
		Expect(left.Items).NotTo(ContainElement(HaveField("Name", ContainSubstring("berth-explain-"))))
	})
})

var _ = Describe("OCM's debugger", Ordered, func() {
	var author, stranger string

	BeforeAll(func(ctx SpecContext) {
		t := newTeam(ctx, "debug", 3)
		t.place(ctx, fixture.Placement("debug", "web").Number(1).Predicate(fixture.MatchLabel("gpu", "true")), 1)
		newTeam(ctx, "debug-other", 1)
		author, stranger = token(ctx, "debug", "author"), token(ctx, "debug-other", "stranger")
	})

	It("explains a Placement with OCM's JSON", func() {
		code, text := request(http.MethodGet, "debug/web", author, "")
		Expect(code).To(Equal(http.StatusOK), text)
		var result explanation.DebugResult
		Expect(json.Unmarshal([]byte(text), &result)).To(Succeed())
		Expect(result.Placement.Name).To(Equal("web"))
		Expect(result.FilterResults).To(Equal([]explanation.DebugFilter{
			{Name: "Predicate", FilteredClusters: []string{"debug-1", "debug-3"}},
			{Name: "Predicate,TaintToleration", FilteredClusters: []string{"debug-1", "debug-3"}},
		}))
		Expect(result.PrioritizeResults).To(ContainElement(explanation.DebugPrioritizer{
			Name: "Steady", Weight: 1, Scores: map[string]int64{"debug-1": 100, "debug-3": 0},
		}))
		Expect(result.AggregatedScores[0].ClusterName).To(Equal("debug-1"))
		for _, key := range []string{`"filteredPipelineResults"`, `"filteredClusters"`, `"prioritizeResults"`, `"aggregatedScores"`, `"clusterName"`} {
			Expect(text).To(ContainSubstring(key))
		}
	})

	It("decides a Placement from the body", func() {
		body := `{"metadata":{"name":"try","namespace":"debug"},"spec":{"numberOfClusters":1}}`
		code, text := request(http.MethodPost, "", author, body)
		Expect(code).To(Equal(http.StatusOK), text)
		Expect(text).To(And(ContainSubstring(`"debug-1","debug-2","debug-3"`), ContainSubstring(`"name":"try"`), Not(ContainSubstring("debug-other"))))
		code, text = request(http.MethodPost, "", author, `{"metadata":{"namespace":"debug"},"spec":{"numberOfClusters":-1}}`)
		Expect(code).To(Equal(http.StatusOK))
		Expect(text).To(ContainSubstring(`spec.numberOfClusters: Invalid value: -1: should be greater than or equal to 0"}`))
	})

	It("answers users only who may create PlacementExplanations in the namespace", func() {
		body := `{"metadata":{"namespace":"debug"},"spec":{}}`
		for _, tc := range []struct {
			method, path, token, body string
			want                      int
		}{
			{http.MethodGet, "debug/web", "", "", http.StatusUnauthorized},
			{http.MethodGet, "debug/web", "made-up", "", http.StatusUnauthorized},
			{http.MethodGet, "debug/web", stranger, "", http.StatusForbidden},
			{http.MethodGet, "debug/nosuch", stranger, "", http.StatusForbidden},
			{http.MethodGet, "nosuch/nosuch", stranger, "", http.StatusForbidden},
			{http.MethodPost, "", stranger, body, http.StatusForbidden},
			{http.MethodGet, "debug/nosuch", author, "", http.StatusNotFound},
			{http.MethodGet, "debug", author, "", http.StatusBadRequest},
			{http.MethodPost, "", author, "{", http.StatusBadRequest},
			{http.MethodPost, "", author, `{"spec":{}}`, http.StatusBadRequest},
			{http.MethodPost, "", author, `{"spec":"` + strings.Repeat("x", 500<<10) + `"}`, http.StatusRequestEntityTooLarge},
			{http.MethodDelete, "debug/web", author, "", http.StatusMethodNotAllowed},
		} {
			code, text := request(tc.method, tc.path, tc.token, tc.body)
			Expect(code).To(Equal(tc.want), "%s %s: %s", tc.method, tc.path, text)
			Expect(text).To(HavePrefix(`{"error":"`))
		}
	})
})

// token is that of a service account that may create PlacementExplanations in its namespace.
func token(ctx context.Context, namespace, name string) string {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	Expect(hub.Create(ctx, account)).To(Succeed())
	testhub.Grant(ctx, hub, namespace, testhub.AccountName(namespace, name), "berth-explainer")
	return testhub.Token(ctx, hub, namespace, name)
}

// request sends a request to the debugger.
func request(method, path, bearer, body string) (int, string) {
	GinkgoHelper()
	r, err := http.NewRequest(method, "https://"+debugger+"/debug/placements/"+path, strings.NewReader(body))
	Expect(err).NotTo(HaveOccurred())
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the certificate is made at the start
	response, err := c.Do(r)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(text)
}
