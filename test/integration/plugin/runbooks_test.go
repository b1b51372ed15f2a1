package plugin

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

// needsNodes are commands that read logs of a container, which this hub cannot run.
var needsNodes = []string{"kubectl -n berth-system logs deployment/berth-reporter"}

// lease creates what an installed controller has.
const lease = `kubectl apply -f - <<'END'
{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: berth.berth.dev, namespace: berth-system}, spec: {holderIdentity: berth-0}}
END`

var _ = Describe("docs/runbooks.md", func() {
	It("has commands that run", func(ctx SpecContext) {
		t := newTeam(ctx)
		t.place(ctx, fixture.Placement(string(t), "web").Number(1), 1)
		text, err := os.ReadFile(filepath.Join(root, "docs", "runbooks.md"))
		Expect(err).NotTo(HaveOccurred())
		commands := shellCommands(string(text))
		Expect(len(commands)).To(BeNumerically(">=", 18))
		Expect(commands).To(ContainElements(needsNodes))
		out, err := shell(ctx, lease)
		Expect(err).NotTo(HaveOccurred(), "%s", out)
		for _, command := range commands {
			if slices.Contains(needsNodes, command) {
				continue
			}
			By(command)
			if len(strings.Fields(command)) <= 3 && !strings.Contains(command, " get ") {
				command += " --help" // The text names a command without arguments.
			}
			line := strings.NewReplacer("NAMESPACE", string(t), "-n NS", "-n "+string(t), "NAME", "web", "--revision N", "--revision 1").Replace(command)
			out, err := shell(ctx, line)
			if code := (*exec.ExitError)(nil); strings.Contains(line, "| grep ") && errors.As(err, &code) {
				// grep finds nothing where nothing is wrong.
				Expect(code.ExitCode()).To(Equal(1), "%s", out)
				continue
			}
			Expect(err).NotTo(HaveOccurred(), "%s", out)
		}
	})
})

// shellCommands returns the commands of a page, in lines of their own and in the text, once each.
func shellCommands(page string) []string {
	var commands []string
	for _, found := range regexp.MustCompile("(?m)^    ((?:kubectl|berth) .*)$|`((?:kubectl|berth) [^`]*)`").FindAllStringSubmatch(strings.ReplaceAll(page, "\n   `", " `"), -1) {
		command := found[1] + strings.Join(strings.Fields(found[2]), " ")
		if !slices.Contains(commands, command) {
			commands = append(commands, command)
		}
	}
	return commands
}

// shell runs a line of a page in the folder of the repository.
func shell(ctx context.Context, line string) ([]byte, error) {
	command := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", line)
	command.Dir = root
	command.Env = append(os.Environ(), "KUBECONFIG="+hub.Kubeconfig, "PATH="+strings.Join([]string{programs, testhub.KubectlFolder(), os.Getenv("PATH")}, ":"))
	return command.CombinedOutput()
}
