package hub

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/testhub"
)

const root = "../../.."

// example is a command of a page, and the output that follows it, if any.
type example struct{ command, output string }

// examplesOf returns the commands of a section of a page in order.
func examplesOf(page, section string) []example {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(root, page))
	Expect(err).NotTo(HaveOccurred())
	_, text, found := strings.Cut(string(content), "\n## "+section+"\n")
	Expect(found).To(BeTrue(), section)
	text, _, _ = strings.Cut(text, "\n## ")
	var all []example
	output := false
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "```"):
			output = !output
		case output:
			all[len(all)-1].output += line
		case strings.HasPrefix(line, "      ") && len(all) > 0: // the command goes on
			all[len(all)-1].command += line
		case strings.HasPrefix(line, "    "):
			all = append(all, example{command: strings.TrimPrefix(line, "    ")})
		}
	}
	return all
}

var changing = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:]+Z|[Cc]hange \d+`)

// steady returns an output without times and revisions, and up to a line that is only "…".
func steady(text string) string {
	text, _, _ = strings.Cut(text, "\n  …\n")
	return strings.TrimSpace(changing.ReplaceAllString(text, "…"))
}

// These sections show what a reader sees on the hub of make run.
var _ = Describe("The documentation", Ordered, func() {
	var env []string
	BeforeAll(func() {
		data := filepath.Join(GinkgoT().TempDir(), "data")
		up(data, "--samples")
		bin, err := filepath.Abs(filepath.Dir(testhub.Binary()))
		Expect(err).NotTo(HaveOccurred())
		path := strings.Join([]string{bin, testhub.Assets(), filepath.Join(bin, "hub"), os.Getenv("PATH")}, string(os.PathListSeparator))
		env = append(os.Environ(), "KUBECONFIG="+filepath.Join(data, "kubeconfig"), "PATH="+path)
	})

	for _, shown := range []struct{ page, section string }{
		{"README.md", "Quick start"}, {"README.md", "Why, and what if"}, {"docs/changes.md", "A change that needs an approval"},
	} {
		It("shows what its commands print: "+shown.page+", "+shown.section, func(ctx SpecContext) {
			ran := 0
			for _, e := range examplesOf(shown.page, shown.section) {
				if strings.HasPrefix(e.command, "make ") || strings.HasPrefix(e.command, "export ") {
					continue
				}
				By(e.command)
				ran++
				Eventually(func(g Gomega) {
					command := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", e.command)
					command.Dir, command.Env = root, env
					out, err := command.CombinedOutput()
					if e.output == "" {
						g.Expect(err).NotTo(HaveOccurred(), "%s", out)
						return
					}
					want, got := steady(e.output), steady(string(out))
					g.Expect(got[:min(len(got), len(want))]).To(Equal(want), "%s prints:\n%s", e.command, out)
				}).Should(Succeed())
			}
			Expect(ran).To(BeNumerically(">", 1))
		})
	}
})
