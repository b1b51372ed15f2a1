package install

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	ocm     = "cluster.open-cluster-management.io"
	account = "system:serviceaccount:berth-system:berth"
)

// unasked are rights that no request of the controller's shows here, with what asks for them on its
// behalf, or when it would.
var unasked = map[string]string{
	"create managedclustersets/join." + ocm:     "the policy berth-join-cluster-set, when a cluster is put into the default set",
	"delete placementchanges.berth.dev":         "the recorder, when a Placement has more records than historyLimit",
	"get placementchanges.berth.dev":            "the recorder, when another writer, such as a former leader, created a record of the same name",
	"get placementdecisions." + ocm:             "the publisher, when the answer to a write was lost: it reads the page before it writes again",
	"list leases.coordination.k8s.io":           "the loop cluster-lease, where an API server does not begin a watch with what there is",
	"update placements/finalizers." + ocm:       "OwnerReferencesPermissionEnforcement, when a page names its Placement as owner that blocks",
	"delete placementevictions.berth.dev":       "the controller, an hour after a PlacementEviction ended",
	"patch placementevictions/status.berth.dev": "the controller, when a user evicts a cluster",
	"patch selectionpolicies/status.berth.dev":  "the controller, when a Placement has a SelectionPolicy",
	"delete placementexplanations.berth.dev":    "the controller, 10 minutes after a PlacementExplanation was created",
}

var _ = Describe("The controller as its service account", Ordered, func() {
	var objects []*unstructured.Unstructured
	var metrics string

	BeforeAll(func(ctx SpecContext) {
		var err error
		objects, err = installed("queues")
		Expect(err).NotTo(HaveOccurred())
		for _, o := range objects {
			// The webhooks would need a certificate, and ask for no right. Nobody here would make
			// pods of the Deployment.
			if known(o) && o.GetKind() != "Deployment" && !strings.HasSuffix(o.GetKind(), "WebhookConfiguration") {
				Expect(apply(ctx, o)).To(Succeed())
			}
		}
		create(ctx, `
{apiVersion: v1, kind: ConfigMap, metadata: {name: yunikorn-configs, namespace: berth-system}, data: {queues.yaml:
  "partitions: [{name: default, placementrules: [{name: fixed, value: root.all, create: true}], queues: [{name: root, submitacl: '*'}]}]"}}`)
		for _, object := range []string{
			`{apiVersion: v1, kind: ServiceAccount, metadata: {name: scraper, namespace: berth-system}}`,
			`{apiVersion: v1, kind: ServiceAccount, metadata: {name: stranger, namespace: berth-system}}`,
			`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: scraper},
			  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: berth-metrics-reader},
			  subjects: [{kind: ServiceAccount, name: scraper, namespace: berth-system}]}`,
			`{apiVersion: v1, kind: Namespace, metadata: {name: team}}`,
		} {
			create(ctx, object)
		}
		metrics = start(ctx, objects)
	})

	It("decides, holds and publishes changes, and runs the housekeeping loops", func(ctx SpecContext) {
		create(ctx, `{apiVersion: `+ocm+`/v1, kind: ManagedCluster, metadata: {name: one}, spec: {taints: [{key: slow, effect: PreferNoSelect}]}}`)
		create(ctx, `{apiVersion: `+ocm+`/v1beta2, kind: ManagedClusterSetBinding, metadata: {name: default, namespace: team}, spec: {clusterSet: default}}`)
		create(ctx, `{apiVersion: `+ocm+`/v1beta1, kind: Placement, metadata: {name: app, namespace: team}, spec: {}}`)
		Eventually(answer(ctx)).Should(ConsistOf("one"))
		create(ctx, `{apiVersion: `+ocm+`/v1, kind: ManagedCluster, metadata: {name: two}}`)
		Eventually(answer(ctx)).Should(ConsistOf("one", "two"))

		By("turning a cluster to Unknown whose lease is not renewed")
		create(ctx, `{apiVersion: `+ocm+`/v1, kind: ManagedCluster, metadata: {name: silent}, spec: {leaseDurationSeconds: 1}}`)
		create(ctx, `{apiVersion: v1, kind: Namespace, metadata: {name: silent}}`)
		create(ctx, `{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: managed-cluster-lease, namespace: silent}, spec: {renewTime: "2026-01-01T00:00:00.000000Z"}}`)
		Eventually(availability(ctx, "silent")).Should(Equal("Unknown ManagedClusterLeaseUpdateStopped"))
		Eventually(answer(ctx)).Should(ConsistOf("one", "two"))

		By("restoring the selector of the set global")
		global := object(ocm+"/v1beta2", "ManagedClusterSet", "", "global")
		selectorType := func() string {
			Expect(hub.Get(ctx, client.ObjectKeyFromObject(global), global)).To(Succeed())
			kind, _, _ := unstructured.NestedString(global.Object, "spec", "clusterSelector", "selectorType")
			return kind
		}
		Expect(hub.Patch(ctx, global, client.RawPatch("application/merge-patch+json",
			[]byte(`{"spec":{"clusterSelector":{"selectorType":"ExclusiveClusterSetLabel","labelSelector":null}}}`)))).To(Succeed())
		Eventually(selectorType).Should(Equal("LabelSelector"))

		By("counting the Placements that a policy selects")
		create(ctx, `{apiVersion: berth.dev/v1alpha1, kind: DisruptionPolicy, metadata: {name: all, namespace: team}, spec: {placementSelector: {}}}`)
		Eventually(func() int64 {
			policy := object("berth.dev/v1alpha1", "DisruptionPolicy", "team", "all")
			Expect(hub.Get(ctx, client.ObjectKeyFromObject(policy), policy)).To(Succeed())
			count, _, _ := unstructured.NestedInt64(policy.Object, "status", "placements")
			return count
		}).Should(BeEquivalentTo(1))

		By("explaining a Placement")
		create(ctx, `{apiVersion: berth.dev/v1alpha1, kind: PlacementExplanation, metadata: {name: why, namespace: team}, spec: {placement: app}}`)
		Eventually(func() int64 {
			why := object("berth.dev/v1alpha1", "PlacementExplanation", "team", "why")
			Expect(hub.Get(ctx, client.ObjectKeyFromObject(why), why)).To(Succeed())
			candidates, _, _ := unstructured.NestedInt64(why.Object, "status", "candidates")
			return candidates
		}).Should(BeNumerically(">", 0))

		By("holding a change until it is approved")
		create(ctx, `{apiVersion: berth.dev/v1alpha1, kind: DisruptionPolicy, metadata: {name: careful, namespace: team}, spec: {placements: [app], approval: Required}}`)
		create(ctx, `{apiVersion: `+ocm+`/v1, kind: ManagedCluster, metadata: {name: three}}`)
		var held string
		Eventually(func() string { held = change(ctx); return held }).ShouldNot(BeEmpty())
		Expect(answer(ctx)()).To(ConsistOf("one", "two"))
		approve(ctx, held)
		Eventually(answer(ctx)).Should(ConsistOf("one", "two", "three"))
		Eventually(func() string { return change(ctx) }).Should(BeEmpty())
	})

	It("shows metrics only to users with permission", func(ctx SpecContext) {
		code, text := scrape(metrics, token(ctx, "scraper"))
		Expect(code).To(Equal(http.StatusOK))
		for name := range libraryLabels {
			Expect(text).To(ContainSubstring("\n"+name), "metrics that alerts or the dashboard name")
		}
		Expect(text).To(And(
			ContainSubstring(`workqueue_depth{controller="placement",name="placement"`),
			ContainSubstring(`leader_election_master_status{name="berth.berth.dev"} 1`),
			MatchRegexp(`(?m)^berth_framework_extension_point_duration_seconds_count\{extension_point="Filter",profile="default"\} [1-9]`),
			MatchRegexp(`(?m)^berth_permit_wait_duration_seconds_count\{result="Published"\} 1$`),
			MatchRegexp(`(?m)^berth_scheduling_duration_seconds_count\{stage="status"\} [1-9]`),
			MatchRegexp(`(?m)^workqueue_queue_duration_seconds_count\{controller="placement",name="placement"\} [1-9]`),
			MatchRegexp(`(?m)^berth_placements\{reason="AllDecisionsScheduled",satisfied="True",state="satisfied"\} 1$`)))
		for bearer, want := range map[string]int{"": http.StatusUnauthorized, "made-up": http.StatusUnauthorized, token(ctx, "stranger"): http.StatusForbidden} {
			code, _ := scrape(metrics, bearer)
			Expect(code).To(Equal(want))
		}
	})

	It("publishes PlacementDecisions of ClusterProfiles", func(ctx SpecContext) {
		stop()
		chart, err := helm("berth-system", "{multicluster: {enabled: true, installCRD: true, namespace: fleet}, queues: {enabled: true}, webhook: {certificate: cert-manager}}")
		Expect(err).NotTo(HaveOccurred())
		roles, err := kustomize("multicluster")
		Expect(err).NotTo(HaveOccurred())
		objects = append(objects, roles...)
		for _, o := range slices.Concat(chart, roles) {
			if strings.Contains(o.GetName(), "multicluster") {
				Expect(apply(ctx, o)).To(Succeed())
			}
		}
		By("avoiding the name of a page of another client")
		create(ctx, `{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: PlacementDecision, metadata: {name: profiles-decision-1, namespace: team}, decisions: []}`)
		start(ctx, chart)
		create(ctx, `
{apiVersion: `+ocm+`/v1beta1, kind: Placement, metadata: {name: profiles, namespace: team},
 spec: {decisionStrategy: {groupStrategy: {clustersPerDecisionGroup: 2}}}}`)
		Eventually(func() []string { return profiles(ctx) }).Should(ConsistOf("fleet/one", "fleet/two", "fleet/three"))
		By("changing a page and removing another")
		merge(ctx, "profiles", `{"spec":{"numberOfClusters":1}}`)
		Eventually(func() []string { return profiles(ctx) }).Should(HaveLen(1))
	})

	It("publishes pages in several requests on OCM's CRDs", func(ctx SpecContext) {
		stop()
		crd := object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "placementdecisions."+ocm)
		Expect(hub.Get(ctx, client.ObjectKeyFromObject(crd), crd)).To(Succeed())
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		Expect(err).NotTo(HaveOccurred())
		for _, v := range versions {
			if v := v.(map[string]any); v["name"] == "v1alpha1" {
				v["served"] = false
			}
		}
		Expect(unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions")).To(Succeed())
		Expect(hub.Update(ctx, crd)).To(Succeed())
		discovery, err := kubernetes.NewForConfig(config)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() ([]string, error) {
			var names []string
			list, err := discovery.Discovery().ServerResourcesForGroupVersion(ocm + "/v1alpha1")
			if err == nil {
				for _, r := range list.APIResources {
					names = append(names, r.Name)
				}
			}
			return names, err
		}).ShouldNot(ContainElement("placementdecisions"))
		// A client lists where the API server, an older one perhaps, does not begin a watch with
		// what there is.
		start(ctx, objects, "KUBE_FEATURE_WatchListClient=false")
		create(ctx, `{apiVersion: `+ocm+`/v1beta1, kind: Placement, metadata: {name: other, namespace: team}, spec: {numberOfClusters: 1}}`)
		Eventually(func() []string { return clusters(ctx, "other") }).Should(HaveLen(1))
		stop()
	})

	It("has exactly the permissions that it uses", func(ctx SpecContext) {
		granted := rights(objects)
		used, refused := requests(account)
		Expect(refused).To(BeEmpty(), "requests that were forbidden")
		for _, right := range slices.Sorted(maps.Keys(used)) {
			Expect(granted).To(HaveKey(right), "used, and granted by something else than config/rbac")
		}
		var idle []string
		for _, right := range slices.Sorted(maps.Keys(granted)) {
			if _, known := unasked[right]; !used[right] && !known {
				idle = append(idle, right)
			}
		}
		Expect(idle).To(BeEmpty(), "granted and never used")
		for right := range unasked {
			Expect(granted).To(HaveKey(right))
			Expect(used).NotTo(HaveKey(right), "it is asked for after all")
		}
	})
})

func object(version, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func create(ctx context.Context, text string) {
	GinkgoHelper()
	parsed, err := parse("the test", []byte(text))
	Expect(err).NotTo(HaveOccurred())
	for _, o := range parsed {
		// A kind is served a moment after its CRD.
		Eventually(func() error { return apply(ctx, o) }).Should(Succeed())
	}
}

// approve approves the change of the Placement with a revision.
func approve(ctx context.Context, revision string) {
	GinkgoHelper()
	me := object("authentication.k8s.io/v1", "SelfSubjectReview", "", "")
	Expect(hub.Create(ctx, me)).To(Succeed())
	user, _, _ := unstructured.NestedString(me.Object, "status", "userInfo", "username")
	Expect(hub.Patch(ctx, object("berth.dev/v1alpha1", "PlacementChange", "team", "app-"+revision), client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"spec":{"approval":{"decision":"Approved","by":%q}}}`, user)))).To(Succeed())
}

func merge(ctx context.Context, placement, patch string) {
	GinkgoHelper()
	Expect(hub.Patch(ctx, object(ocm+"/v1beta1", "Placement", "team", placement), client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
}

// profiles are the ClusterProfiles published for the Placement of that name.
func profiles(ctx context.Context) []string {
	GinkgoHelper()
	pages := &unstructured.UnstructuredList{}
	pages.SetAPIVersion("multicluster.x-k8s.io/v1alpha1")
	pages.SetKind("PlacementDecisionList")
	Expect(hub.List(ctx, pages, client.InNamespace("team"), client.MatchingLabels{"multicluster.x-k8s.io/decision-key": "profiles"})).To(Succeed())
	var names []string
	for _, page := range pages.Items {
		decisions, _, _ := unstructured.NestedSlice(page.Object, "decisions")
		for _, d := range decisions {
			profile, _, _ := unstructured.NestedStringMap(d.(map[string]any), "clusterProfileRef")
			names = append(names, profile["namespace"]+"/"+profile["name"])
		}
	}
	return names
}

func answer(ctx context.Context) func() []string {
	return func() []string { return clusters(ctx, "app") }
}

// clusters are those published for a Placement.
func clusters(ctx context.Context, placement string) []string {
	GinkgoHelper()
	pages := &unstructured.UnstructuredList{}
	pages.SetAPIVersion(ocm + "/v1beta1")
	pages.SetKind("PlacementDecisionList")
	Expect(hub.List(ctx, pages, client.InNamespace("team"), client.MatchingLabels{ocm + "/placement": placement})).To(Succeed())
	var names []string
	for _, page := range pages.Items {
		decisions, _, _ := unstructured.NestedSlice(page.Object, "status", "decisions")
		for _, d := range decisions {
			names = append(names, d.(map[string]any)["clusterName"].(string))
		}
	}
	return names
}

// availability is the status and reason of a cluster's Available condition.
func availability(ctx context.Context, cluster string) func() string {
	return func() string {
		c := object(ocm+"/v1", "ManagedCluster", "", cluster)
		Expect(hub.Get(ctx, client.ObjectKeyFromObject(c), c)).To(Succeed())
		conditions, _, _ := unstructured.NestedSlice(c.Object, "status", "conditions")
		for _, condition := range conditions {
			if condition := condition.(map[string]any); condition["type"] == "ManagedClusterConditionAvailable" {
				return fmt.Sprint(condition["status"], " ", condition["reason"])
			}
		}
		return ""
	}
}

// change is the revision that is held for the Placement; empty when nothing is.
func change(ctx context.Context) string {
	GinkgoHelper()
	pl := object(ocm+"/v1beta1", "Placement", "team", "app")
	Expect(hub.Get(ctx, client.ObjectKeyFromObject(pl), pl)).To(Succeed())
	conditions, _, _ := unstructured.NestedSlice(pl.Object, "status", "conditions")
	for _, c := range conditions {
		c := c.(map[string]any)
		if _, rest, found := strings.Cut(fmt.Sprint(c["message"]), "Change "); found && c["reason"] == "Held" {
			token, _, _ := strings.Cut(rest, " ")
			return token
		}
	}
	return ""
}

// token is one of a service account in berth-system.
func token(ctx context.Context, name string) string {
	GinkgoHelper()
	kube, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	request, err := kube.CoreV1().ServiceAccounts("berth-system").CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return request.Status.Token
}

func freeAddress() string {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(listener.Close()).To(Succeed()) }()
	return listener.Addr().String()
}

// running is the controller's process.
var running *gexec.Session

// start runs the program with the arguments of the Deployment, but for where it listens, and waits
// until it is ready. It returns the address of its metrics. The environment is added to the test's
// own.
func start(ctx context.Context, objects []*unstructured.Unstructured, environment ...string) string {
	GinkgoHelper()
	metrics, health := freeAddress(), freeAddress()
	arguments := []string{"--kubeconfig=" + kubeconfig(ctx), "--metrics-secure"}
	for _, o := range objects {
		if o.GetKind() != "Deployment" {
			continue
		}
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		given, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
		for i, argument := range given {
			switch flag, _, _ := strings.Cut(argument, "="); flag {
			case "--metrics-bind-address":
				given[i] = flag + "=" + metrics
			case "--health-probe-bind-address":
				given[i] = flag + "=" + health
			case "--config":
				given[i] = flag + "=" + filepath.Join(GinkgoT().TempDir(), "config.yaml")
				Expect(os.WriteFile(strings.TrimPrefix(given[i], flag+"="), []byte(configurationIn(objects)), 0o600)).To(Succeed())
			case "--webhook-cert-dir":
				given[i] = ""
			}
		}
		arguments = slices.DeleteFunc(append(given, arguments...), func(s string) bool { return s == "" })
	}
	command := exec.Command(binary(), arguments...)
	command.Env = append(os.Environ(), environment...)
	var err error
	running, err = gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(stop)
	Eventually(func() string {
		response, err := http.Get("http://" + health + "/readyz")
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		return response.Status
	}).Should(Equal("200 OK"), "%v", arguments)
	return metrics
}

// binary is the path of berth.
func binary() string {
	GinkgoHelper()
	program := os.Getenv("BERTH_BIN")
	if program == "" {
		program = filepath.Join(root, "bin", "berth")
	}
	program, err := filepath.Abs(program)
	Expect(err).NotTo(HaveOccurred())
	Expect(program).To(BeARegularFile(), "make build builds it")
	return program
}

// stop ends the controller as a node does, so that the lease is free for the next.
func stop() {
	GinkgoHelper()
	if running != nil {
		running.Signal(syscall.SIGTERM)
		Eventually(running).Should(gexec.Exit(0))
		running = nil
	}
}

// kubeconfig leads to the hub as the controller's service account.
func kubeconfig(ctx context.Context) string { return kubeconfigOf(token(ctx, "berth")) }

// kubeconfigOf leads to the hub with a token.
func kubeconfigOf(token string) string {
	GinkgoHelper()
	return writeKubeconfig(api.AuthInfo{Token: token})
}

// adminKubeconfig leads to the hub as the administrator.
func adminKubeconfig() string {
	GinkgoHelper()
	return writeKubeconfig(api.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData})
}

func writeKubeconfig(user api.AuthInfo) string {
	GinkgoHelper()
	c := api.NewConfig()
	c.Clusters["hub"] = &api.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	c.AuthInfos["berth"] = &user
	c.Contexts["berth"] = &api.Context{Cluster: "hub", AuthInfo: "berth", Namespace: "berth-system"}
	c.CurrentContext = "berth"
	path := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*c, path)).To(Succeed())
	return path
}

func scrape(address, bearer string) (int, string) {
	GinkgoHelper()
	request, err := http.NewRequest(http.MethodGet, "https://"+address+"/metrics", nil)
	Expect(err).NotTo(HaveOccurred())
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	scraper := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := scraper.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(text)
}

// rights are what the roles grant that are bound to the account: "verb resource.group", and " in
// namespace" for a Role.
func rights(objects []*unstructured.Unstructured) map[string]bool {
	GinkgoHelper()
	granted := map[string]bool{}
	for _, o := range objects {
		role := strings.TrimSuffix(o.GetKind(), "Role")
		if role == o.GetKind() || !slices.ContainsFunc(objects, func(b *unstructured.Unstructured) bool {
			name, _, _ := unstructured.NestedString(b.Object, "roleRef", "name")
			return b.GetKind() == o.GetKind()+"Binding" && name == o.GetName()
		}) {
			continue
		}
		rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
		for _, rule := range rules {
			rule := rule.(map[string]any)
			for _, group := range rule["apiGroups"].([]any) {
				for _, resource := range rule["resources"].([]any) {
					for _, verb := range rule["verbs"].([]any) {
						granted[right(verb.(string), resource.(string), group.(string), o.GetNamespace())] = true
					}
				}
			}
		}
	}
	Expect(granted).NotTo(BeEmpty())
	return granted
}

func right(verb, resource, group, namespace string) string {
	text := verb + " " + resource
	if group != "" {
		text += "." + group
	}
	if namespace != "" {
		text += " in " + namespace
	}
	return text
}

// requests are what the account asked of the API server, as the audit log has it: rights that it
// used, and what it was refused. What every account may ask, what there is and what itself may do,
// needs no right of its own.
func requests(account string) (used, refused map[string]bool) {
	GinkgoHelper()
	file, err := os.Open(auditLog)
	Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	used, refused = map[string]bool{}, map[string]bool{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Verb, RequestURI string
			User             struct{ Username string }
			ObjectRef        *struct{ Resource, Subresource, APIGroup, Namespace string }
			Annotations      map[string]string
		}
		Expect(json.Unmarshal(lines.Bytes(), &event)).To(Succeed())
		if event.User.Username != account {
			continue
		}
		if event.Annotations["authorization.k8s.io/decision"] != "allow" {
			refused[event.Verb+" "+event.RequestURI] = true
			continue
		}
		if event.ObjectRef == nil {
			continue
		}
		resource := event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			resource += "/" + event.ObjectRef.Subresource
		}
		// A Role shows in why it was allowed.
		namespace := ""
		if strings.Contains(event.Annotations["authorization.k8s.io/reason"], ` Role "`) {
			namespace = event.ObjectRef.Namespace
		}
		used[right(event.Verb, resource, event.ObjectRef.APIGroup, namespace)] = true
	}
	Expect(lines.Err()).NotTo(HaveOccurred())
	return used, refused
}
