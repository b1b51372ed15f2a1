package explore

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
	"github.com/berth-dev/berth/pkg/explore"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("A server for many viewers", func() {
	It("shows each of them what they may see, and acts with their permissions", func(ctx SpecContext) {
		team(ctx, "hidden")
		team(ctx, "shop")
		Expect(hub.Create(ctx, fixture.Placement("hidden", "secret").Number(2).Obj())).To(Succeed())
		Expect(hub.Create(ctx, fixture.Placement("shop", "web").Number(2).Obj())).To(Succeed())
		server := shared()
		admin := server.of(ctx, "admin", bindCluster("cluster-admin"))
		Eventually(admin.fleet).WithContext(ctx).Should(HaveField("Placements", ContainElements(
			And(HaveField("Placement", "hidden/secret"), HaveField("Selected", 2)), HaveField("Placement", "shop/web"))))
		Expect(admin.fleet(Default)).To(And(HaveField("Missing", BeEmpty()), HaveField("Namespace", BeEmpty())))
		Expect(admin.session().User).To(Equal("system:serviceaccount:people:admin"))

		By("a user with permissions in one namespace")
		one := server.of(ctx, "one", bind("shop", "berth-viewer"), bind("shop", "berth-explainer"))
		one.namespace = "shop"
		Eventually(one.fleet).WithContext(ctx).Should(And(
			HaveField("Hub.State", explore.Connected), HaveField("Namespace", "shop"), HaveField("Missing", ContainElement("list managedclusters")),
			HaveField("Placements", ConsistOf(And(HaveField("Placement", "shop/web"), HaveField("Selected", 2))))))
		Expect(one.fleet(Default).Missing).NotTo(ContainElement(ContainSubstring("placementexplanations")))
		Eventually(one.column).WithContext(ctx).WithArguments("shop/web").Should(And(HaveField("Note", BeEmpty()), HaveField("Cells", "112")))
		Eventually(one.names).WithContext(ctx).Should(Equal("shop-1 shop-2 shop-3"), "also the candidate that was not selected")
		cell := explore.Cell{}
		one.get("api/cell?placement=shop/web&cluster=shop-3", http.StatusOK, &cell)
		Expect(cell.Verdict).To(HaveField("Selected", false))
		one.expectNothingOf(ctx, "hidden")
		left := &berthv1alpha1.PlacementExplanationList{}
		Eventually(func(g Gomega) []berthv1alpha1.PlacementExplanation {
			g.Expect(hub.List(ctx, left, client.InNamespace("shop"))).To(Succeed())
			return left.Items
		}).WithContext(ctx).Should(BeEmpty(), "explanations are deleted")

		By("an action that they may not take")
		details := explore.PlacementDetails{}
		one.get("api/placement?placement=shop/web", http.StatusOK, &details)
		Expect(details.Actions).To(ContainElement(And(HaveField("Verb", "suspend"), HaveField("Missing", "create disruptionpolicies in namespace shop"))))
		Expect(one.post(explore.ActRequest{Verb: "suspend", Placement: "shop/web"}, http.StatusConflict)).To(ContainSubstring("You need: create disruptionpolicies in namespace shop"))
		Expect(one.post(explore.ActRequest{Verb: "suspend", Placement: "shop/web", Confirmed: true}, http.StatusForbidden)).To(ContainSubstring("cannot create resource"))
		Expect(one.post(explore.ActRequest{Verb: "unpin", Placement: "hidden/secret", Confirmed: true}, http.StatusForbidden)).To(ContainSubstring("hidden"))

		By("an action that another user may take")
		question := admin.post(explore.ActRequest{Verb: "evict", Placement: "shop/web", Cluster: "shop-1"}, http.StatusOK)
		Expect(question).To(And(ContainSubstring("Evict cluster shop-1 from Placement shop/web?"), ContainSubstring(`"removed":["shop-1"]`)))
		admin.post(explore.ActRequest{Verb: "evict", Placement: "shop/web", Cluster: "shop-1", Confirmed: true}, http.StatusOK)
		Eventually(one.column).WithContext(ctx).WithArguments("shop/web").Should(HaveField("Cells", MatchRegexp("^[A-Z]11$")))
		Expect(admin.post(explore.ActRequest{Verb: "suspend", Placement: "shop/web", Confirmed: true}, http.StatusOK)).To(ContainSubstring("suspended"))
		Eventually(one.fleet).WithContext(ctx).Should(HaveField("Placements", ConsistOf(HaveField("States", ContainElement(changes.StateSuspended)))))

		By("a user without permission to ask for explanations")
		silent := server.of(ctx, "silent", bind("shop", reader(ctx)))
		silent.namespace = "shop"
		Eventually(silent.fleet).WithContext(ctx).Should(And(HaveField("Placements", HaveLen(1)),
			HaveField("Missing", ContainElement("create placementexplanations in namespace shop"))))
		Eventually(silent.column).WithContext(ctx).WithArguments("shop/web").Should(
			And(HaveField("Cells", "11"), HaveField("Note", ContainSubstring("You need: create placementexplanations in namespace shop"))))

		By("a user without any permission")
		nobody := server.of(ctx, "nobody")
		nobody.namespace = "hidden"
		Eventually(nobody.fleet).WithContext(ctx).Should(And(HaveField("Hub.State", explore.Connected), HaveField("Placements", BeEmpty()),
			HaveField("Clusters", BeEmpty()), HaveField("Missing", ContainElement("list placements in namespace hidden"))))
		nobody.expectNothingOf(ctx, "secret")
	})

	It("approves the change that was shown, and no other one", func(ctx SpecContext) {
		team(ctx, "gold")
		Expect(hub.Create(ctx, fixture.ApprovalPolicy("gold", "careful", "one"))).To(Succeed())
		Expect(hub.Create(ctx, fixture.Placement("gold", "one").Number(1).Obj())).To(Succeed())
		v := shared().of(ctx, "approver", bind("gold", "berth-viewer"), bind("gold", "berth-approver"))
		v.namespace = "gold"
		held := func(revision int64) string {
			Eventually(v.fleet).WithContext(ctx).Should(HaveField("Placements", ConsistOf(HaveField("Change", And(Not(BeNil()), HaveField("Revision", revision), HaveField("Phase", "Held"))))))
			details := explore.PlacementDetails{}
			v.get("api/placement?placement=gold/one", http.StatusOK, &details)
			Expect(details.Actions).To(ContainElement(And(HaveField("Verb", "approve"), HaveField("Change", details.Change.Name), HaveField("Missing", BeEmpty()))))
			return details.Change.Name
		}
		old := held(1)
		Expect(v.post(explore.ActRequest{Verb: "approve", Placement: "gold/one", Change: old}, http.StatusOK)).To(
			And(ContainSubstring("Approve change 1 of Placement gold/one?"), ContainSubstring(`"added":["gold-1"]`)))
		Expect(testhub.Patch(ctx, hub, fixture.Placement("gold", "one").Obj(), `{"spec":{"numberOfClusters":2}}`)).To(Succeed())
		current := held(2)
		Expect(v.post(explore.ActRequest{Verb: "approve", Placement: "gold/one", Change: old, Confirmed: true}, http.StatusConflict)).To(
			ContainSubstring("change 1 of Placement gold/one is not the newest any more: look at change 2"))
		v.post(explore.ActRequest{Verb: "approve", Placement: "gold/one", Change: current, Comment: "seen", Confirmed: true}, http.StatusOK)
		Eventually(v.fleet).WithContext(ctx).Should(HaveField("Placements", ConsistOf(HaveField("Selected", 2))))
		record := &berthv1alpha1.PlacementChange{}
		Expect(hub.Get(ctx, client.ObjectKey{Namespace: "gold", Name: current}, record)).To(Succeed())
		Expect(record.Spec.Approval).To(HaveValue(And(HaveField("By", "system:serviceaccount:people:approver"), HaveField("Comment", "seen"))))
	})

	It("shows one namespace after the other", func(ctx SpecContext) {
		server := shared()
		v := server.of(ctx, "both")
		for _, name := range []string{"east", "west"} {
			team(ctx, name)
			Expect(hub.Create(ctx, fixture.Placement(name, "one").Number(1).Obj())).To(Succeed())
			bind(name, "berth-viewer")(ctx, rbacv1.Subject{Kind: "ServiceAccount", Namespace: "people", Name: v.account})
		}
		Eventually(v.fleet).WithContext(ctx).Should(And(HaveField("Hub.State", explore.Connected), HaveField("Namespace", "default"), HaveField("Placements", BeEmpty())))
		for _, name := range []string{"east", "west", "east"} {
			v.namespace = name
			Eventually(v.fleet).WithContext(ctx).Should(And(HaveField("Namespace", name), HaveField("Placements", ConsistOf(And(HaveField("Placement", name+"/one"), HaveField("Selected", 1))))))
			details := explore.PlacementDetails{}
			v.get("api/placement?placement="+name+"/one", http.StatusOK, &details)
			Expect(details.Groups).To(HaveLen(1))
		}
		Expect(v.get("api/placement?placement=west/one", 0, nil)).To(Equal(http.StatusNotFound), "it is in the other namespace")
	})

	It("ends with the token, and keeps the cache when it is refreshed", func(ctx SpecContext) {
		team(ctx, "blue")
		server := shared()
		v := server.of(ctx, "refreshed", bindCluster("cluster-admin"))
		Eventually(v.fleet).WithContext(ctx).Should(HaveField("Hub.State", explore.Connected))
		rows := v.fleet(Default).Rows
		csrf := v.session().CSRF
		first, firstSecret := v.token, v.secret
		v.refresh(ctx)
		Expect(v.token).NotTo(Equal(first))
		Expect(v.fleet(Default).Rows).To(Equal(rows))
		Expect(hub.Delete(ctx, firstSecret)).To(Succeed())
		Expect(hub.Create(ctx, fixture.Placement("blue", "one").Number(1).Obj())).To(Succeed())
		Eventually(v.fleet).WithContext(ctx).Should(HaveField("Placements", ContainElement(And(HaveField("Placement", "blue/one"), HaveField("Selected", 1)))))
		Expect(v.fleet(Default).Rows).To(Equal(rows), "the same cache")

		By("the token ends while a page is open")
		ended := v.stream()
		Expect(hub.Delete(ctx, v.secret)).To(Succeed())
		Eventually(ended).WithContext(ctx).Should(BeClosed())
		Eventually(func() int { return v.get("api/fleet", 0, nil) }).WithContext(ctx).Should(Equal(http.StatusUnauthorized))
		v.refresh(ctx)
		Eventually(v.fleet).WithContext(ctx).Should(HaveField("Placements", ContainElement(HaveField("Placement", "blue/one"))))
		Expect(v.session().CSRF).To(Equal(csrf), "the page that is open can still act")

		By("no token, and tokens that are wrong")
		for _, token := range []string{"", "forged", v.token[:len(v.token)-9]} {
			Expect((&sharedViewer{server: server, token: token}).get("", 0, nil)).To(Equal(http.StatusUnauthorized))
		}
		Eventually(func() int {
			return (&sharedViewer{server: server, token: first}).get("api/fleet", 0, nil)
		}).WithContext(ctx).Should(Equal(http.StatusUnauthorized), "a token that ended")
	})

	It("forgets what a user may no longer see", func(ctx SpecContext) {
		team(ctx, "red")
		Expect(hub.Create(ctx, fixture.Placement("red", "one").Number(1).Obj())).To(Succeed())
		server := shared()
		v := server.of(ctx, "revoked", bind("red", "berth-viewer"))
		v.namespace = "red"
		Eventually(v.fleet).WithContext(ctx).Should(HaveField("Placements", HaveLen(1)))
		ended := v.stream()
		Expect(hub.DeleteAllOf(ctx, &rbacv1.RoleBinding{}, client.InNamespace("red"))).To(Succeed())
		Eventually(v.fleet).WithContext(ctx).Should(And(HaveField("Placements", BeEmpty()), HaveField("Missing", ContainElement("list placements in namespace red"))))
		Eventually(ended).WithContext(ctx).Should(BeClosed(), "the page is told to read everything again")
		v.expectNothingOf(ctx, "red-")
	})

	It("has room for 20 viewers, and for 5 of one namespace", func(ctx SpecContext) {
		server := shared()
		var all []*sharedViewer
		for i := range 20 {
			v := server.ofNamespace(ctx, "people-"+strconv.Itoa(i/5), "viewer-"+strconv.Itoa(i))
			Expect(v.get("api/session", http.StatusOK, nil)).To(Equal(http.StatusOK))
			all = append(all, v)
			if i == 4 {
				Expect(server.ofNamespace(ctx, "people-0", "one-more").get("api/session", http.StatusServiceUnavailable, nil)).To(Equal(http.StatusServiceUnavailable))
			}
		}
		late := server.of(ctx, "late")
		Expect(late.text("api/fleet", http.StatusServiceUnavailable)).To(ContainSubstring("20 people look at the fleet already"))
		Expect(all[0].get("api/session", http.StatusOK, nil)).To(Equal(http.StatusOK))
	})
})

// sharedServer is a server for many viewers, without the credentials of the hub's administrator.
type sharedServer struct{ *httptest.Server }

func shared() *sharedServer {
	ctx, cancel := context.WithCancel(context.Background())
	DeferCleanup(cancel)
	s := &sharedServer{httptest.NewServer(explore.NewSharedServer(ctx, simulator.Options{}, hub.Config, nil))}
	DeferCleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// sharedViewer is a service account that uses the server.
type sharedViewer struct {
	server *sharedServer
	// home is the namespace of the account, namespace the one that it looks at.
	home      string
	account   string
	token     string
	namespace string
	// secret ends the token when it is deleted.
	secret *corev1.Secret
}

// of creates a service account with roles, and a token.
func (s *sharedServer) of(ctx context.Context, account string, roles ...func(context.Context, rbacv1.Subject)) *sharedViewer {
	GinkgoHelper()
	return s.ofNamespace(ctx, "people", account, roles...)
}

func (s *sharedServer) ofNamespace(ctx context.Context, home, account string, roles ...func(context.Context, rbacv1.Subject)) *sharedViewer {
	GinkgoHelper()
	hub.ApplyYAML(ctx, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+home+"}")
	Expect(client.IgnoreAlreadyExists(hub.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: account}}))).To(Succeed())
	for _, bind := range roles {
		bind(ctx, rbacv1.Subject{Kind: "ServiceAccount", Namespace: home, Name: account})
	}
	v := &sharedViewer{server: s, home: home, account: account}
	v.refresh(ctx)
	return v
}

// refresh gets a new token.
func (v *sharedViewer) refresh(ctx context.Context) {
	GinkgoHelper()
	v.secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v.home, GenerateName: v.account + "-"}}
	Expect(hub.Create(ctx, v.secret)).To(Succeed())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: v.secret.Name, UID: v.secret.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v.home, Name: v.account}}
	Expect(hub.SubResource("token").Create(ctx, account, request)).To(Succeed())
	v.token = request.Status.Token
}

func bind(namespace, role string) func(context.Context, rbacv1.Subject) {
	return func(ctx context.Context, subject rbacv1.Subject) {
		GinkgoHelper()
		Expect(hub.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: role + "-"}, Subjects: []rbacv1.Subject{subject},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		})).To(Succeed())
	}
}

func bindCluster(role string) func(context.Context, rbacv1.Subject) {
	return func(ctx context.Context, subject rbacv1.Subject) {
		GinkgoHelper()
		Expect(hub.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: role + "-"}, Subjects: []rbacv1.Subject{subject},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		})).To(Succeed())
	}
}

// reader creates a role that reads Placements and their pages, and no more.
func reader(ctx context.Context) string {
	GinkgoHelper()
	Expect(hub.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "pages-only"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"cluster.open-cluster-management.io"}, Resources: []string{"placements", "placementdecisions"}, Verbs: []string{"get", "list", "watch"},
	}}})).To(Succeed())
	return "pages-only"
}

func (v *sharedViewer) request(method, path string, body io.Reader) *http.Request {
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	if v.namespace != "" {
		path += separator + "ns=" + v.namespace
	}
	r, err := http.NewRequest(method, v.server.URL+"/"+path, body)
	Expect(err).NotTo(HaveOccurred())
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if v.token != "" {
		r.Header.Set("Authorization", "Bearer "+v.token)
	}
	return r
}

// answer returns the code and the body of an answer. Neither may ever have the token.
func (v *sharedViewer) answer(r *http.Request) (int, string) {
	response, err := http.DefaultClient.Do(r)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	if v.token != "" {
		Expect(string(text)).NotTo(ContainSubstring(v.token))
	}
	return response.StatusCode, string(text)
}

// get returns the code of an answer. It checks the code unless that is 0, and reads the answer
// unless into is nil.
func (v *sharedViewer) get(path string, want int, into any) int {
	code, text := v.answer(v.request(http.MethodGet, path, http.NoBody))
	if want != 0 {
		Expect(code).To(Equal(want), text)
	}
	if into != nil {
		Expect(json.Unmarshal([]byte(text), into)).To(Succeed())
	}
	return code
}

func (v *sharedViewer) text(path string, want int) string {
	code, text := v.answer(v.request(http.MethodGet, path, http.NoBody))
	Expect(code).To(Equal(want), text)
	return text
}

func (v *sharedViewer) session() explore.Session {
	s := explore.Session{}
	v.get("api/session", http.StatusOK, &s)
	return s
}

func (v *sharedViewer) fleet(g Gomega) explore.Fleet {
	code, text := v.answer(v.request(http.MethodGet, "api/fleet", http.NoBody))
	g.Expect(code).To(Equal(http.StatusOK), text)
	f := explore.Fleet{}
	g.Expect(json.Unmarshal([]byte(text), &f)).To(Succeed())
	return f
}

// names are the names of all clusters.
func (v *sharedViewer) names(g Gomega) string {
	var names []string
	for _, row := range v.fleet(g).Clusters {
		names = append(names, row.Name)
	}
	return strings.Join(names, " ")
}

func (v *sharedViewer) column(g Gomega, placement string) explore.Column {
	code, text := v.answer(v.request(http.MethodGet, "api/columns?placement="+placement, http.NoBody))
	g.Expect(code).To(Equal(http.StatusOK), text)
	c := explore.Columns{}
	g.Expect(json.Unmarshal([]byte(text), &c)).To(Succeed())
	g.Expect(c.Columns).To(HaveLen(1))
	return c.Columns[0]
}

// post acts, and returns the answer.
func (v *sharedViewer) post(request explore.ActRequest, want int) string {
	GinkgoHelper()
	body, err := json.Marshal(request)
	Expect(err).NotTo(HaveOccurred())
	r := v.request(http.MethodPost, "api/act", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	code, text := v.answer(r)
	Expect(code).To(Equal(http.StatusForbidden), "without X-Berth-CSRF: "+text)
	r = v.request(http.MethodPost, "api/act", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Berth-CSRF", v.session().CSRF)
	code, text = v.answer(r)
	Expect(code).To(Equal(want), text)
	return text
}

// stream opens the events. The channel is closed when the server ends them, or has the page read
// everything again.
func (v *sharedViewer) stream() <-chan struct{} {
	GinkgoHelper()
	version := v.fleet(Default).Version
	response, err := http.DefaultClient.Do(v.request(http.MethodGet, "api/events?since="+strconv.FormatInt(version, 10), http.NoBody))
	Expect(err).NotTo(HaveOccurred())
	Expect(response.StatusCode).To(Equal(http.StatusOK))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
	}()
	return ended
}

// expectNothingOf asks for everything that there is. No answer may have the text, except for what
// was asked.
func (v *sharedViewer) expectNothingOf(ctx context.Context, text string) {
	GinkgoHelper()
	placements := &berthPlacements{}
	placements.read(ctx)
	clusters := placements.clusters
	paths := []string{"api/fleet", "api/session", "api/resilience", "api/time", "api/what-if?id=what-if-1"}
	for _, name := range placements.names {
		paths = append(paths, "api/placement?placement="+name, "api/columns?placement="+name, "api/scores?placement="+name)
		for _, cluster := range clusters {
			paths = append(paths, "api/cell?placement="+name+"&cluster="+cluster)
		}
	}
	for _, cluster := range clusters {
		paths = append(paths, "api/cluster?cluster="+cluster)
	}
	for _, path := range paths {
		code, answer := v.answer(v.request(http.MethodGet, path, http.NoBody))
		if code == http.StatusOK || !strings.Contains(path, text) {
			if v.namespace != "" {
				answer = strings.ReplaceAll(answer, "namespace "+v.namespace, "")
				answer = strings.ReplaceAll(answer, `"namespace":"`+v.namespace+`"`, "")
			}
			Expect(answer).NotTo(ContainSubstring(text), path)
		}
	}
}

// berthPlacements are the names of what there is on the hub.
type berthPlacements struct{ names, clusters []string }

func (p *berthPlacements) read(ctx context.Context) {
	GinkgoHelper()
	f := explore.Fleet{}
	admin := open(hub.Config)
	Eventually(func(g Gomega) string {
		f = get[explore.Fleet](g, admin, "api/fleet")
		return f.Hub.State
	}).WithContext(ctx).Should(Equal(explore.Connected))
	for _, row := range f.Placements {
		p.names = append(p.names, row.Placement)
	}
	for _, row := range f.Clusters {
		p.clusters = append(p.clusters, row.Name)
	}
	slices.Sort(p.names)
}
