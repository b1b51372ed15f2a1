package install

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// step is a step of a workflow.
type step struct {
	Name, Uses, Run, If string
	With, Env           map[string]any
}

// granted are the permissions of each job, by the workflow's file; other jobs may have none.
var granted = map[string]map[string]map[string]string{
	"verify.yaml": {"verify": {"contents": "read"}, "world": {"contents": "read"}},
	"release.yaml": {
		"verify":  {"contents": "read"},
		"build":   {"contents": "read"},
		"bills":   {"attestations": "write", "id-token": "write"},
		"publish": {"attestations": "write", "contents": "write", "id-token": "write"},
	},
}

// TestWorkflowPermissions: a workflow has no permissions, and each of its jobs those of the table.
func TestWorkflowPermissions(t *testing.T) {
	for file, text := range workflows(t) {
		var workflow struct {
			Permissions *map[string]string
			Jobs        map[string]struct{ Permissions map[string]string }
		}
		if err := yaml.Unmarshal(text, &workflow); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if workflow.Permissions == nil || len(*workflow.Permissions) > 0 {
			t.Errorf("%s: the permissions of all jobs are not {}", file)
		}
		for name, job := range workflow.Jobs {
			if want := granted[filepath.Base(file)][name]; !maps.Equal(job.Permissions, want) {
				t.Errorf("%s: job %s has %v, want %v", file, name, job.Permissions, want)
			}
		}
	}
}

// TestActionsArePinned: a tag of an action can be moved, a digest cannot.
func TestActionsArePinned(t *testing.T) {
	pinned := regexp.MustCompile(`^\s*(?:- )?uses: (?:(?:actions/[a-z-]+|sigstore/cosign-installer)@[0-9a-f]{40} # v\d+\.\d+\.\d+|\./\.github/workflows/verify\.yaml)$`)
	err := filepath.WalkDir(filepath.Join(root, ".github"), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.SplitSeq(string(text), "\n") {
			if strings.Contains(line, "uses:") && !pinned.MatchString(line) {
				t.Errorf("%s: %s", path, line)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestReleasesAreVerified: a release is built only after what CI runs has passed, and the notes are
// those of its version.
func TestReleasesAreVerified(t *testing.T) {
	texts := workflows(t)
	var release struct {
		Jobs map[string]struct{ Needs, Uses string }
	}
	if err := yaml.Unmarshal(texts[filepath.Join(root, ".github/workflows/release.yaml")], &release); err != nil {
		t.Fatal(err)
	}
	if jobs := release.Jobs; jobs["build"].Needs != "verify" || jobs["bills"].Needs != "build" || jobs["publish"].Needs != "bills" || jobs["verify"].Uses != "./.github/workflows/verify.yaml" {
		t.Errorf("jobs: %+v", jobs)
	}
	if verify := string(texts[filepath.Join(root, ".github/workflows/verify.yaml")]); !strings.Contains(verify, ".ci/run\n") || !strings.Contains(verify, "pull_request:") {
		t.Errorf("verify.yaml: %s", verify)
	}
}

// workflows returns the texts of the workflows by file.
func workflows(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflow found: %v", err)
	}
	texts := map[string][]byte{}
	for _, file := range files {
		if texts[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	return texts
}

// TestWorkflows: what a workflow runs is a shell script, and the make targets and the paths that it
// names exist. It names no host, and its registry is a variable.
func TestWorkflows(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range workflows(t) {
		var workflow struct {
			Jobs map[string]struct{ Steps []step }
		}
		if err := yaml.Unmarshal(text, &workflow); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if host := regexp.MustCompile(`[a-z0-9-]+\.(?:io|com|org|dev|net)\b`).Find(text); host != nil {
			t.Errorf("%s names the host %s", file, host)
		}
		steps := 0
		for _, job := range workflow.Jobs {
			for _, s := range job.Steps {
				steps++
				checkStep(t, file, s, string(makefile))
			}
		}
		if steps == 0 {
			t.Errorf("%s has no steps", file)
		}
	}
}

func checkStep(t *testing.T, file string, s step, makefile string) {
	t.Helper()
	if (s.Uses == "") == (s.Run == "") {
		t.Errorf("%s: a step runs %q and uses %q", file, s.Run, s.Uses)
	}
	if path, ok := s.With["go-version-file"].(string); ok {
		checkPath(t, file, path)
	}
	// The shell of a workflow reads a script after the workflow has replaced its expressions.
	check := exec.Command("bash", "-n")
	check.Stdin = strings.NewReader(regexp.MustCompile(`\$\{\{.*?\}\}`).ReplaceAllString(s.Run, "expression"))
	if said, err := check.CombinedOutput(); err != nil {
		t.Errorf("%s: %s: %v\n%s", file, s.Name, err, said)
	}
	for _, target := range regexp.MustCompile(`\bmake ([a-z]+)`).FindAllStringSubmatch(s.Run, -1) {
		if !regexp.MustCompile(`(?m)^` + target[1] + `:`).MatchString(makefile) {
			t.Errorf("%s: the Makefile has no target %s", file, target[1])
		}
	}
	for _, path := range regexp.MustCompile(`\b(?:config|charts|docs|tools|bin)/[\w.-]+`).FindAllString(s.Run, -1) {
		// What is built is named by the target that builds it.
		if strings.HasPrefix(path, "bin/") && regexp.MustCompile(`\b`+regexp.QuoteMeta(path)+`\s`).MatchString(makefile) {
			continue
		}
		checkPath(t, file, path)
	}
}

func checkPath(t *testing.T, file, path string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, path)); err != nil {
		t.Errorf("%s names %s: %v", file, path, err)
	}
}

// TestReleaseWorkflow: a tag of a version starts a release, of all that make release builds.
func TestReleaseWorkflow(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".github", "workflows", "release.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"on:\n  push:\n    tags: [\"v*\"]\n", "run: make release\n", "bin/release/*\n", "skopeo copy --all", "helm push", "subject-path: bin/release/*\n",
		"system: [" + strings.Join(systems, ", ") + "]\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in the workflow", want)
		}
	}
	if _, after, signed := strings.Cut(string(text), "cosign sign-blob "); !signed || !strings.Contains(after, "attest-build-provenance@") {
		t.Error("the checksums are not signed before the files are attested")
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(makefile), "\nRELEASE_SYSTEMS ?= "+strings.Join(systems, " ")+"\n") {
		t.Errorf("make release does not build for %v", systems)
	}
}
