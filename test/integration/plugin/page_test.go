package plugin

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("docs/kubectl-placement.md", func() {
	It("shows the output of its commands", func(ctx SpecContext) {
		DeferCleanup(emptyHub)
		text, err := os.ReadFile(filepath.Join(root, "docs", "kubectl-placement.md"))
		Expect(err).NotTo(HaveOccurred())
		fleet, err := os.ReadFile(filepath.Join(root, "examples", "fleet.yaml"))
		Expect(err).NotTo(HaveOccurred())
		back, err := os.Getwd()
		Expect(err).NotTo(HaveOccurred())
		Expect(os.Chdir(GinkgoT().TempDir())).To(Succeed())
		DeferCleanup(os.Chdir, back)
		Expect(os.WriteFile("fleet.yaml", fleet, 0o600)).To(Succeed())
		hub.Kubectl(ctx, "apply", "--server-side", "-f", "fleet.yaml")
		hub.Kubectl(ctx, "apply", "--server-side", "--subresource=status", "-f", "fleet.yaml")
		By("waiting for the record to which undo returns, which otherwise has both changes")
		Eventually(func() string { return run(ctx, "", "history", "web", "-n", "shop").out }).Should(ContainSubstring("Published"))
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
					continue
				}
				Eventually(func() string {
					got := run(ctx, "", words[1:]...)
					return stable(got.out + got.err)
				}).Should(Equal(stable(want)), line)
			}
		}
		for _, command := range []string{"explain", "status", "diff", "undo"} {
			Expect(done).To(HaveKey("placement " + command))
		}
	})
})

var age = regexp.MustCompile(`(?m)  (\d+[smhd])+( |$)`)

// stable is a text without what is another at every run: times, ages and, beside ages, the width of
// columns.
func stable(text string) string {
	if aged := age.ReplaceAllString(text, "  AGE "); aged != text {
		text = regexp.MustCompile(` {2,}`).ReplaceAllString(aged, "  ")
	}
	text = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`).ReplaceAllString(text, "TIME")
	return strings.TrimSpace(text)
}

func patch(ctx context.Context, object client.Object, text string) {
	GinkgoHelper()
	Expect(hub.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(text)))).To(Succeed())
}
