package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// systems are those that a release has clients for.
var systems = []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64", "windows-amd64", "windows-arm64"}

// TestKrew: krew accepts the manifest, and installs the program of each system from its archive.
func TestKrew(t *testing.T) {
	k := newKrew(t)
	for _, system := range systems {
		program := "berth"
		if strings.HasPrefix(system, "windows-") {
			program += ".exe"
		}
		k.write(t, program, "program of "+system)
		k.run(t, k.folder, "tar", "-czf", k.archive(system), program)
	}
	k.run(t, root, "make", "-s", filepath.Join(k.folder, "placement.yaml"), "RELEASE_FOLDER="+k.folder, "VERSION="+krewVersion)
	for _, system := range systems {
		t.Run(system, func(t *testing.T) {
			goos, goarch, _ := strings.Cut(system, "-")
			t.Setenv("KREW_OS", goos)
			t.Setenv("KREW_ARCH", goarch)
			installed := filepath.Join(k.install(t, system), "kubectl-placement")
			if goos == "windows" {
				installed += ".exe"
			}
			if got, err := os.ReadFile(installed); err != nil || string(got) != "program of "+system {
				t.Errorf("krew installed %q: %v", got, err)
			}
		})
	}
	t.Run("another archive", func(t *testing.T) {
		k.write(t, "berth", "another program")
		k.run(t, k.folder, "tar", "-czf", k.archive(systems[0]), "berth")
		t.Setenv("KREW_OS", "linux")
		t.Setenv("KREW_ARCH", "amd64")
		if said, err := k.command(t, t.TempDir(), systems[0]).CombinedOutput(); err == nil || !strings.Contains(string(said), "checksum does not match") {
			t.Errorf("krew says %v\n%s", err, said)
		}
	})
}

// TestClients: make clients builds what krew installs, and kubectl runs it.
func TestClients(t *testing.T) {
	k := newKrew(t)
	system := runtime.GOOS + "-" + runtime.GOARCH
	k.run(t, root, "make", "-s", "clients", "RELEASE_FOLDER="+k.folder, "RELEASE_SYSTEMS="+system, "VERSION="+krewVersion, "COMMIT=test")
	entries, err := os.ReadDir(k.folder)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if want := []string{"berth-" + krewVersion + "-" + system + ".spdx.json", filepath.Base(k.archive(system)), "placement.yaml"}; !slices.Equal(got, want) {
		t.Errorf("make clients wrote %v, want %v", got, want)
	}
	if got := strings.Fields(k.run(t, k.folder, "tar", "-tzf", k.archive(system))); !slices.Equal(got, []string{"LICENSE", "berth"}) {
		t.Errorf("the archive has %v", got)
	}
	if bill := k.run(t, k.folder, "cat", got[0]); !strings.Contains(bill, `"name": "berth `+krewVersion+`"`) || !strings.Contains(bill, "pkg:golang/k8s.io/client-go@v") {
		t.Errorf("the bill of materials: %.1000s", bill)
	}
	here, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", k.install(t, system)+":"+os.Getenv("PATH"))
	kubectl := filepath.Join(here, "bin", "hub", "kubectl")
	if said := k.run(t, k.folder, kubectl, "placement", "version"); !strings.HasPrefix(said, "berth "+krewVersion+" (commit test, ") {
		t.Errorf("kubectl placement version says %q", said)
	}
	if said := k.run(t, k.folder, kubectl, "placement", "--help"); !strings.Contains(said, "kubectl placement explain") {
		t.Errorf("kubectl placement --help says %q", said)
	}
}

// krewVersion is that of make test, whose build is used again.
const krewVersion = "v0.0.0-test"

// krew is the program, and a folder of a release.
type krew struct{ program, folder string }

func newKrew(t *testing.T) *krew {
	t.Helper()
	k := &krew{program: filepath.Join(t.TempDir(), "krew"), folder: t.TempDir()}
	k.run(t, ".", "go", "build", "-o", k.program, "sigs.k8s.io/krew/cmd/krew")
	return k
}

func (k *krew) archive(system string) string {
	return filepath.Join(k.folder, "berth-"+krewVersion+"-"+system+".tar.gz")
}

func (k *krew) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(k.folder, name), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// command installs the plugin below a folder.
func (k *krew) command(t *testing.T, below, system string) *exec.Cmd {
	t.Helper()
	command := exec.Command(k.program, "install", "--manifest="+filepath.Join(k.folder, "placement.yaml"), "--archive="+k.archive(system))
	command.Env = append(os.Environ(), "KREW_ROOT="+below, "KREW_NO_UPGRADE_CHECK=1")
	return command
}

// install installs the plugin and returns the folder to add to the PATH.
func (k *krew) install(t *testing.T, system string) string {
	t.Helper()
	below := t.TempDir()
	if said, err := k.command(t, below, system).CombinedOutput(); err != nil {
		t.Fatalf("krew: %v\n%s", err, said)
	}
	return filepath.Join(below, "bin")
}

// run runs a program in a folder, and returns what it prints.
func (k *krew) run(t *testing.T, folder, program string, args ...string) string {
	t.Helper()
	command := exec.Command(program, args...)
	command.Dir = folder
	var failure strings.Builder
	command.Stderr = &failure
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, out, failure.String())
	}
	return string(out)
}
