package onboarding

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// The clusters of the score writer in docs/configuration.md, with what saving-of prints for them.
var savings = map[string]string{
	"cheap": "echo 60", "dear": "echo 5", "unknown": "exit 1", "empty-text": `echo 'many'`, "hostile": `echo '1}],"validUntil":"2999-01-01T00:00:00Z","x":[{"y":1'`,
}

var _ = Describe("the score writer of docs/configuration.md", func() {
	It("writes the scores that are integers, and the Placement prefers the best", func(ctx SpecContext) {
		page, err := os.ReadFile(filepath.Join(root, "docs", "configuration.md"))
		Expect(err).NotTo(HaveOccurred())
		_, text, _ := strings.Cut(string(page), "\n## 10. ")
		script, text := blockOf(text, "sh")
		placement, _ := blockOf(text, "yaml")
		Expect(strings.Count(script+placement, "\n")).To(BeNumerically("<=", 40))

		program := "#!/bin/bash\ncase $1 in\n"
		hub.ApplyYAML(ctx, `{apiVersion: cluster.open-cluster-management.io/v1beta2, kind: ManagedClusterSet, metadata: {name: priced}}`)
		for name, prints := range savings {
			hub.ApplyYAML(ctx, `{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: priced-`+name+
				`, labels: {cluster.open-cluster-management.io/clusterset: priced}}}`)
			hub.ApplyYAML(ctx, `{apiVersion: v1, kind: Namespace, metadata: {name: priced-`+name+`}}`)
			program += "priced-" + name + ") " + prints + ";;\n"
		}
		tools := GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(tools, "saving-of"), []byte(program+"*) exit 1;;\nesac\n"), 0o700)).To(Succeed())

		By("running the script")
		began := time.Now()
		out, err := start(ctx, "PATH="+tools+":$PATH\n"+script).CombinedOutput()
		Expect(err).To(MatchError("exit status 1"), "clusters without a saving: %s", out)
		for name, value := range map[string]int32{"cheap": 60, "dear": 5} {
			score := &v1alpha1.AddOnPlacementScore{}
			Expect(hub.Get(ctx, client.ObjectKey{Namespace: "priced-" + name, Name: "price"}, score)).To(Succeed())
			Expect(score.Status.Scores).To(Equal([]v1alpha1.AddOnPlacementScoreItem{{Name: "saving", Value: value}}))
			Expect(score.Status.ValidUntil.Time).To(BeTemporally("~", began.Add(15*time.Minute), time.Minute))
		}
		for _, name := range []string{"unknown", "empty-text", "hostile"} {
			Expect(hub.Kubectl(ctx, "get", "addonplacementscores", "-n", "priced-"+name, "-o", "name")).To(BeEmpty())
		}

		By("applying the Placement")
		hub.ApplyYAML(ctx, `{apiVersion: v1, kind: Namespace, metadata: {name: priced}}`)
		hub.ApplyYAML(ctx, `{apiVersion: cluster.open-cluster-management.io/v1beta2, kind: ManagedClusterSetBinding, metadata: {name: priced, namespace: priced}, spec: {clusterSet: priced}}`)
		hub.ApplyYAML(ctx, strings.ReplaceAll(placement, "namespace: shop", "namespace: priced"))
		Eventually(func() string {
			return hub.Kubectl(ctx, "get", "placementdecisions", "cheap-decision-1", "-n", "priced", "--ignore-not-found", "-o", "jsonpath={.status.decisions[*].clusterName}")
		}).Should(Equal("priced-cheap"))
	})
})

// blockOf returns the first block of a language, and the text after it.
func blockOf(text, language string) (block, rest string) {
	GinkgoHelper()
	_, text, found := strings.Cut(text, "```"+language+"\n")
	Expect(found).To(BeTrue())
	block, rest, found = strings.Cut(text, "\n```\n")
	Expect(found).To(BeTrue())
	return block + "\n", rest
}
