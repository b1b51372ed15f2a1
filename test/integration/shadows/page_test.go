package shadows

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("docs/shadow-profiles.md", func() {
	It("prints what the page shows", func(ctx SpecContext) {
		page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "shadow-profiles.md"))
		Expect(err).NotTo(HaveOccurred())
		blocks := regexp.MustCompile("(?ms)^```(yaml|console)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
		Expect(blocks).To(HaveLen(5))
		stop := run(" []")
		hub.ApplyYAML(ctx, blocks[1][2])
		// Wait until the controller knows the clusters.
		hub.ApplyYAML(ctx, strings.NewReplacer("name: web", "name: all", "{numberOfClusters: 1}", "{}").Replace(strings.Split(blocks[2][2], "---\n")[0]))
		Eventually(published).WithContext(ctx).WithArguments("shop", "all").Should(Equal("paris1 paris2 rome1"))
		hub.Kubectl(ctx, "delete", "placement", "all", "-n", "shop")
		Eventually(published).WithContext(ctx).WithArguments("shop", "all").Should(BeEmpty())
		hub.ApplyYAML(ctx, blocks[2][2])
		Eventually(published).WithContext(ctx).WithArguments("shop", "web").Should(Equal("paris1"))
		Eventually(published).WithContext(ctx).WithArguments("shop", "training").Should(Equal("paris2"))
		stop()

		_, profiles, _ := strings.Cut(blocks[0][2], "profiles:")
		run(profiles)
		for _, block := range blocks[3:] {
			line, want, _ := strings.Cut(block[2], "\n")
			words := strings.Fields(strings.TrimPrefix(line, "$ kubectl placement "))
			Eventually(func() string {
				_, out, stderr := command(words...)
				return stable(out + stderr)
			}).Should(Equal(stable(want)), line)
		}
	})
})

var (
	age  = regexp.MustCompile(`(\s|in )\d+(s|m|ms)(\.|:|\s)`)
	many = regexp.MustCompile(` {2,}`)
)

// stable is a text without ages and the width of columns.
func stable(text string) string {
	return strings.TrimSpace(many.ReplaceAllString(age.ReplaceAllString(text, "${1}AGE$3"), "  "))
}
