package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// step is a command of README.md with what it prints, as far as README.md shows it.
type step struct{ command, output string }

func readSteps(t *testing.T) []step {
	t.Helper()
	var steps []step
	block := false
	for line := range strings.Lines(readFile(t, "README.md")) {
		switch {
		case line == "```text\n", line == "```\n":
			block = !block
		case block:
			steps[len(steps)-1].output += line
		case strings.HasPrefix(line, "    "):
			steps = append(steps, step{command: strings.TrimSpace(line)})
		}
	}
	return steps
}

// TestREADME does what README.md says.
func TestREADME(t *testing.T) {
	dataDir := filepath.Join(t.TempDir(), "data")
	setPath(t)
	t.Setenv("KUBECONFIG", filepath.Join(dataDir, "kubeconfig"))
	done := map[string]int{}
	for _, s := range readSteps(t) {
		t.Log("$ " + s.command)
		words := strings.Fields(strings.ReplaceAll(s.command, "'", ""))
		what := words[0] + " " + words[1]
		done[what]++
		switch {
		case words[0] == "cd", words[0] == "export", what == "go test":
		case what == "berth-cheapest up":
			start(t, "Try in another terminal", append(words, "--data-dir", dataDir)...)
		case words[0] == "kubectl":
			kubectl(t, s)
		default:
			run(t, s)
		}
	}
	for _, what := range []string{"go build", "berth-cheapest simulate", "berth-cheapest up", "kubectl get", "berth-cheapest explain"} {
		if done[what] == 0 {
			t.Errorf("README.md has no command %s", what)
		}
	}
}

// TestLines holds main.go to what README.md says about it.
func TestLines(t *testing.T) {
	if lines := strings.Count(readFile(t, "main.go"), "\n"); lines >= 40 {
		t.Errorf("main.go has %d lines, want fewer than 40", lines)
	}
}

// run demands that a command prints what README.md shows, if it shows anything, and fails if that
// is an error.
func run(t *testing.T, s step) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", s.command)
	// Not every checkout belongs to who builds it, which is a mistake to git.
	command.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -buildvcs=false")
	out, err := command.CombinedOutput()
	if wantFailure := strings.HasPrefix(s.output, "berth: "); (err != nil) != wantFailure {
		t.Fatalf("%s: error %v, want one: %t\n%s", s.command, err, wantFailure, out)
	}
	if s.output != "" && string(out) != s.output {
		t.Errorf("%s prints\n%s\nwant\n%s", s.command, out, s.output)
	}
}

// setPath is the README's export of PATH.
func setPath(t *testing.T) {
	t.Helper()
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", strings.Join([]string{bin, filepath.Join(bin, "hub"), os.Getenv("PATH")}, string(os.PathListSeparator)))
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
