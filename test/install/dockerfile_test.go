package install

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// instructions are those of the Dockerfile, comments left out and lines joined.
func instructions(t *testing.T) []string {
	t.Helper()
	file, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(string(file), "")
	var found []string
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			found = append(found, line)
		}
	}
	return found
}

// instruction is what follows a keyword in the one instruction that begins with it.
func instruction(t *testing.T, all []string, keyword string) string {
	t.Helper()
	var found []string
	for _, line := range all {
		if rest, ok := strings.CutPrefix(line, keyword+" "); ok {
			found = append(found, rest)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d instructions begin with %s: %q", len(found), keyword, found)
	}
	return found[0]
}

// TestImageBuilds does on this machine what the Dockerfile does: from the folders that it copies, it builds a program that needs nothing
// else of the image.
func TestImageBuilds(t *testing.T) {
	all, folder, output := instructions(t), t.TempDir(), filepath.Join(t.TempDir(), "berth")
	var build string
	for _, line := range all {
		words := strings.Fields(line)
		switch {
		case words[0] == "COPY" && words[len(words)-1] == "./":
			for _, name := range words[1 : len(words)-1] {
				text, err := os.ReadFile(filepath.Join(root, name))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		case words[0] == "COPY" && !strings.HasPrefix(words[1], "--"):
			if err := os.CopyFS(filepath.Join(folder, words[2]), os.DirFS(filepath.Join(root, words[1]))); err != nil {
				t.Fatal(err)
			}
		case words[0] == "RUN" && strings.Contains(line, "go build"):
			build = regexp.MustCompile(`--mount=\S+ `).ReplaceAllString(strings.TrimPrefix(line, "RUN "), "")
		}
	}
	// The cache is the machine's, and so is the platform.
	for inImage, here := range map[string]string{"GOCACHE=/cache ": "", "-o /berth ": "-o " + output + " "} {
		if !strings.Contains(build, inImage) {
			t.Fatalf("the Dockerfile builds with %s", build)
		}
		build = strings.Replace(build, inImage, here, 1)
	}
	command := exec.Command("sh", "-c", build)
	command.Dir = folder
	command.Env = append(os.Environ(), "GOWORK=off", "TARGETOS=linux", "TARGETARCH="+runtime.GOARCH, "VERSION=v1.2.3", "COMMIT=abcdef")
	if said, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, said)
	}

	program, err := elf.Open(output)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	libraries, err := program.ImportedLibraries()
	if err != nil || len(libraries) > 0 {
		t.Errorf("it needs the libraries %v: %v", libraries, err)
	}
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			t.Error("it needs a loader")
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	said, err := exec.Command(output, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(said), "v1.2.3") || !strings.Contains(string(said), "abcdef") {
		t.Errorf("berth version: %v\n%s", err, said)
	}
}

// TestImageIsWhatTheManifestsRun: the pods start the image's program by its entry point, as the image's user.
func TestImageIsWhatTheManifestsRun(t *testing.T) {
	all := instructions(t)
	if last := all[len(all)-1]; last != `ENTRYPOINT ["/berth"]` || instruction(t, all, "COPY --from=build") != "/berth /berth" {
		t.Errorf("the image starts with %s", last)
	}
	// docs/install.md says that these can be chosen.
	for _, argument := range []string{"ARG BUILD_IMAGE=golang:1.26", "ARG BASE_IMAGE=scratch", "FROM --platform=$BUILDPLATFORM ${BUILD_IMAGE} AS build", "FROM ${BASE_IMAGE}"} {
		if !slices.Contains(all, argument) {
			t.Errorf("the Dockerfile lacks %s", argument)
		}
	}
	user := instruction(t, all, "USER")
	for name, installation := range installations() {
		objects, err := installation.render()
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range objects {
			if o.GetKind() != "Deployment" {
				continue
			}
			for _, d := range (&rendered{objects: objects}).selects(o, "spec", "selector", "matchLabels") {
				pod := d.Spec.Template.Spec
				if got := who(pod.SecurityContext); got != user || user == "" {
					t.Errorf("%s: the pods run as %s, the image as %s", name, got, user)
				}
				for _, c := range pod.Containers {
					if len(c.Command) > 0 || len(c.Args) == 0 || c.Args[0] != "controller" {
						t.Errorf("%s: the pods run %v %v", name, c.Command, c.Args)
					}
				}
			}
		}
	}
}

// who is user and group, as in a Dockerfile.
func who(context *corev1.PodSecurityContext) string {
	if context == nil || context.RunAsUser == nil || context.RunAsGroup == nil {
		return "anybody"
	}
	return fmt.Sprintf("%d:%d", *context.RunAsUser, *context.RunAsGroup)
}
