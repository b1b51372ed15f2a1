package plugin

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
)

var _ = Describe("docs/kubectl-placement.md", func() {
	It("shows the output of its commands", func(ctx SpecContext) {
		DeferCleanup(emptyHub)
		text, err := os.ReadFile(filepath.Join(root, "docs", "kubectl-placement.md"))
		Expect(err).NotTo(HaveOccurred())
		back, err := os.Getwd()
		Expect(err).NotTo(HaveOccurred())
		Expect(os.Chdir(GinkgoT().TempDir())).To(Succeed())
		DeferCleanup(os.Chdir, back)
		done := map[string]bool{}
		for _, block := range regexp.MustCompile("(?ms)^```(yaml|console)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
			if block[1] == "yaml" {
				if name := regexp.MustCompile(`^# (\S+\.yaml)`).FindStringSubmatch(block[2]); name != nil {
					Expect(os.WriteFile(name[1], []byte(block[2]), 0o600)).To(Succeed())
				}
				continue
			}
			for example := range strings.SplitSeq(strings.TrimPrefix(block[2], "$ "), "\n$ ") {
				line, want, _ := strings.Cut(example, "\n")
				By(line)
				words := strings.Fields(line)[1:]
				done[words[0]+" "+words[1]] = true
				if words[0] != "placement" {
					hub.Kubectl(ctx, words...)
					if words[0] == "apply" && words[len(words)-1] == "careful.yaml" {
						awaitPolicy(ctx)
					}
					continue
				}
				Eventually(func() string {
					got := run(ctx, "", words[1:]...)
					return stable(got.out + got.err)
				}).Should(Equal(stable(want)), line)
			}
		}
		for _, command := range []string{"explain", "diff", "simulate", "resilience", "top", "status", "history", "approve", "reject"} {
			Expect(done).To(HaveKey("placement " + command))
		}
	})
})

var age = regexp.MustCompile(`  (\d+[smhd])+ `)

// stable is a text without what is another at every run: times, ages and, beside ages, the width of
// columns.
func stable(text string) string {
	if aged := age.ReplaceAllString(text, "  AGE "); aged != text {
		text = regexp.MustCompile(` {2,}`).ReplaceAllString(aged, "  ")
	}
	text = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`).ReplaceAllString(text, "TIME")
	return strings.TrimSpace(text)
}

// awaitPolicy waits until the controller knows the page's DisruptionPolicy, whose status it writes.
func awaitPolicy(ctx context.Context) {
	GinkgoHelper()
	policy := &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "careful"}}
	Eventually(func(g Gomega) {
		g.Expect(hub.Get(ctx, client.ObjectKeyFromObject(policy), policy)).To(Succeed())
		g.Expect(policy.Status.Placements).To(BeEquivalentTo(1))
	}).Should(Succeed())
}

func patch(ctx context.Context, object client.Object, text string) {
	GinkgoHelper()
	Expect(hub.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(text)))).To(Succeed())
}
