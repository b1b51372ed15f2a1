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

	"github.com/google/go-cmp/cmp"
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

// TestImageHasNoBase: no part of the image comes from a registry, so there is nothing to pin. The
// image holds one file, and the build context has no other.
func TestImageHasNoBase(t *testing.T) {
	all := instructions(t)
	want := []string{"FROM scratch", "COPY --chmod=0555 bin/berth /berth", "USER 65532:65532", `ENTRYPOINT ["/berth"]`}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("the Dockerfile (-want +got):\n%s", diff)
	}
	file, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	// A directive can name an image, too: the one that reads the Dockerfile.
	if directive := regexp.MustCompile(`(?mi)^#\s*(syntax|escape|check)\s*=.*`).FindString(string(file)); directive != "" {
		t.Errorf("the Dockerfile has the directive %q", directive)
	}
	ignored, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("*\n!bin/berth\n", string(ignored)); diff != "" {
		t.Errorf(".dockerignore (-want +got):\n%s", diff)
	}
}

// TestImageProgram: the program that `make build` builds for the image needs no other file.
func TestImageProgram(t *testing.T) {
	path := filepath.Join(root, "bin", "berth")
	said, err := exec.Command(path, "version").CombinedOutput()
	if err != nil || !regexp.MustCompile(`^berth \S+ \(commit \S+, `).Match(said) {
		t.Errorf("berth version: %v\n%s", err, said)
	}
	if runtime.GOOS != "linux" {
		return // make build builds this system's format, which is not the image's
	}
	program, err := elf.Open(path)
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
}

// TestImageIsWhatTheManifestsRun: the pods start the image's program by its entry point, as the
// image's user.
func TestImageIsWhatTheManifestsRun(t *testing.T) {
	all := instructions(t)
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
					if len(c.Command) > 0 || len(c.Args) == 0 || !slices.Contains([]string{"controller", "explore", "generator", "report"}, c.Args[0]) {
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
		return "others"
	}
	return fmt.Sprintf("%d:%d", *context.RunAsUser, *context.RunAsGroup)
}
