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
	"github.com/berth-dev/berth/test/fixture"
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
		files, done := map[string]string{}, map[string]bool{}
		for _, block := range regexp.MustCompile("(?ms)^```(yaml|console)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
			if block[1] == "yaml" {
				if name := regexp.MustCompile(`^# (\S+\.yaml)`).FindStringSubmatch(block[2]); name != nil {
					files[name[1]] = block[2]
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
					kubectl(ctx, files, words)
					continue
				}
				Eventually(func() string {
					got := run(ctx, "", words[1:]...)
					return stable(got.out + got.err)
				}).Should(Equal(stable(want)), line)
			}
		}
		for _, command := range []string{"explain", "simulate", "top", "history", "approve", "reject"} {
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

// kubectl does what kubectl would, for the few commands that the page has.
func kubectl(ctx context.Context, files map[string]string, words []string) {
	GinkgoHelper()
	switch words[0] {
	case "apply": // --server-side [--subresource=status] -f FILE
		text, known := files[words[len(words)-1]]
		Expect(known).To(BeTrue(), "%v", words)
		apply(ctx, text, words[2] == "--subresource=status")
		if strings.Contains(text, "kind: DisruptionPolicy") {
			// The controller knows it once it has written its status.
			policy := &berthv1alpha1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "careful"}}
			Eventually(func(g Gomega) {
				g.Expect(hub.Get(ctx, client.ObjectKeyFromObject(policy), policy)).To(Succeed())
				g.Expect(policy.Status.Placements).To(BeEquivalentTo(1))
			}).Should(Succeed())
		}
	case "label": // managedcluster NAME KEY=VALUE
		key, value, _ := strings.Cut(words[3], "=")
		patch(ctx, fixture.Cluster(words[2]).Obj(), `{"metadata":{"labels":{"`+key+`":"`+value+`"}}}`)
	default:
		Fail("kubectl " + words[0] + " is not known here")
	}
}

func patch(ctx context.Context, object client.Object, text string) {
	GinkgoHelper()
	Expect(hub.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(text)))).To(Succeed())
}
