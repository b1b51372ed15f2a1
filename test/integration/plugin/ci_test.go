package plugin

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/test/fixture"
)

// workflow is the part of a GitHub workflow that the spec runs.
type workflow struct {
	Name        string
	On          map[string]any
	Permissions map[string]string
	Jobs        map[string]struct {
		RunsOn string `json:"runs-on"`
		Steps  []struct {
			ID, Name, Uses, If, Run string
			Env, With               map[string]string
		}
	}
}

// checkout is a folder with what a runner gives to the steps.
type checkout struct{ dir string }

func (c checkout) file(name string) string { return filepath.Join(c.dir, name) }

// runSteps runs the shell steps of the sample whose conditions hold. gh only records its arguments.
// It returns the exit code of the last step, and which steps ran.
func (c checkout) runSteps(ctx context.Context, kubeconfig string) (code int, ran []string) {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(root, "examples", "ci", "placements.yaml"))
	Expect(err).NotTo(HaveOccurred())
	var w workflow
	Expect(yaml.UnmarshalStrict(text, &w)).To(Succeed())
	bin := c.file("bin")
	Expect(os.Mkdir(bin, 0o700)).To(Succeed())
	Expect(os.Symlink(filepath.Join(programs, berthName), filepath.Join(bin, berthName))).To(Succeed())
	Expect(os.WriteFile(filepath.Join(bin, "gh"), []byte("#!/bin/sh\necho \"$@\" >> "+c.file("gh.txt")+"\n"), 0o700)).To(Succeed())
	for _, step := range w.Jobs["diff"].Steps {
		if step.Run == "" || step.Name == "Install" || !c.holds(step.If) {
			continue
		}
		ran = append(ran, step.Name)
		command := exec.CommandContext(ctx, "bash", "-e", "-o", "pipefail", "-c", step.Run)
		command.Dir = c.dir
		command.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG=/nowhere",
			"HUB_KUBECONFIG="+kubeconfig, "PULL_REQUEST=7", "GITHUB_OUTPUT="+c.file("output.txt"), "GITHUB_STEP_SUMMARY="+c.file("summary.md"))
		if out, err := command.CombinedOutput(); err != nil {
			GinkgoLogr.Info("step failed", "step", step.Name, "output", string(out))
			return command.ProcessState.ExitCode(), ran
		}
	}
	return 0, ran
}

// holds evaluates the conditions that the sample has: an output of the step diff and a value.
func (c checkout) holds(condition string) bool {
	GinkgoHelper()
	words := strings.Fields(condition)
	if len(words) == 0 {
		return true
	}
	Expect(words).To(HaveLen(3))
	Expect(words[0]).To(Equal("steps.diff.outputs.code"))
	output, err := os.ReadFile(c.file("output.txt"))
	Expect(err).NotTo(HaveOccurred())
	equal := string(output) == "code="+strings.Trim(words[2], "'")+"\n"
	return equal == (words[1] == "==")
}

var _ = Describe("examples/ci/placements.yaml", func() {
	for name, tc := range map[string]struct {
		spec     string
		wantCode int
		wantRan  []string
		// want is in the comment.
		want string
	}{
		"nothing changes":              {"numberOfClusters: 2", same, []string{"Compare with the hub"}, "Nothing changes: 1 Placement compared."},
		"only counts of messages do":   {"numberOfClusters: 4", same, []string{"Compare with the hub"}, "Nothing changes: 1 Placement compared."},
		"clusters change":              {"numberOfClusters: 1", same, []string{"Compare with the hub", "Comment"}, "| TEAM | web | Updated | 2 | 1 |  | 1: TEAM-2 | 1 |  |\n"},
		"a Placement is misconfigured": {"numberOfClusters: 2, predicates: [{requiredClusterSelector: {celSelector: {celExpressions: ['1']}}}]", 4, []string{"Compare with the hub", "Comment", "Refuse what is misconfigured"}, "Misconfigured: TEAM/web: "},
		"a file is wrong":              {"numberOfClusers: 2", failed, []string{"Compare with the hub"}, ""},
	} {
		It("runs against the hub if "+name, func(ctx SpecContext) {
			t := newTeam(ctx)
			number, clusters := int32(2), 2
			if strings.Contains(name, "counts") {
				number, clusters = 5, 3
			}
			t.place(ctx, fixture.Placement(string(t), "web").Number(number), clusters)
			c := checkout{GinkgoT().TempDir()}
			Expect(os.Mkdir(c.file("placements"), 0o700)).To(Succeed())
			file := fmt.Sprintf("apiVersion: cluster.open-cluster-management.io/v1beta1\nkind: Placement\nmetadata: {name: web, namespace: %s}\nspec: {%s}\n", t, tc.spec)
			Expect(os.WriteFile(filepath.Join(c.file("placements"), "web.yaml"), []byte(file), 0o600)).To(Succeed())
			kubeconfig, err := os.ReadFile(hub.Kubeconfig)
			Expect(err).NotTo(HaveOccurred())

			code, ran := c.runSteps(ctx, string(kubeconfig))
			Expect(code).To(Equal(tc.wantCode))
			Expect(ran).To(Equal(tc.wantRan))
			comment, err := os.ReadFile(c.file("comment.md"))
			Expect(err).NotTo(HaveOccurred())
			text := strings.NewReplacer("`", "", string(t), "TEAM").Replace(string(comment))
			Expect(text).To(ContainSubstring(tc.want))
			called, _ := os.ReadFile(c.file("gh.txt")) // there is none if gh was not called
			Expect(strings.Contains(string(called), "pr comment 7 --body-file comment.md")).To(Equal(len(tc.wantRan) > 1))
		})
	}
})
