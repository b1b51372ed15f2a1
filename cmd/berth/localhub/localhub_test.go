package localhub

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestReservePorts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ports.json")
	first := reserve(t, path)
	if first.apiServer.number == first.etcd.number {
		t.Fatalf("one port for both: %d", first.etcd.number)
	}
	if _, err := net.Listen("tcp4", first.etcd.listener.Addr().String()); err == nil {
		t.Error("the port is not held")
	}
	first.release()

	second := reserve(t, path)
	if got, want := numbers(second), numbers(first); got != want {
		t.Errorf("free ports were not taken again: got %v, want %v", got, want)
	}
	second.etcd.release()

	// The API server's port is still held, as if by a stranger.
	third := reserve(t, path)
	if third.apiServer.number == second.apiServer.number {
		t.Errorf("a taken port was chosen: %d", third.apiServer.number)
	}
	third.release()
	second.release()

	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	reserve(t, path).release()
}

func reserve(t *testing.T, path string) *ports {
	t.Helper()
	p, err := reservePorts(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.release)
	return p
}

func numbers(p *ports) [2]int { return [2]int{p.apiServer.number, p.etcd.number} }

func TestLockDir(t *testing.T) {
	dir := t.TempDir()
	// What a killed process leaves behind does not matter.
	if err := os.WriteFile(filepath.Join(dir, "lock"), []byte("4194304000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lockDir(dir)
	running := (*RunningError)(nil)
	if !errors.As(err, &running) || running.PID != strconv.Itoa(os.Getpid()) || running.DataDir != dir {
		t.Fatalf("second lock: got %v", err)
	}
	lock.release()
	again, err := lockDir(dir)
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	again.release()
}

func TestFindPrograms(t *testing.T) {
	assets, beside := t.TempDir(), filepath.Join(filepath.Dir(executable(t)), "hub")
	t.Cleanup(func() { os.RemoveAll(beside) })
	t.Chdir(t.TempDir())
	for _, folder := range []string{filepath.Join("bin", "hub"), "hub", beside} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(mode os.FileMode, paths ...string) {
		for _, path := range paths {
			if err := os.WriteFile(path, nil, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Programs that the owner of the current directory put there.
	for _, folder := range []string{filepath.Join("bin", "hub"), "hub", "."} {
		write(0o755, filepath.Join(folder, "etcd"), filepath.Join(folder, "kube-apiserver"), filepath.Join(folder, "gc"))
	}
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	if got, err := findPrograms(""); err == nil || !strings.Contains(err.Error(), assets+", "+beside+":") {
		t.Errorf("got %+v, %v; want an error that names the folders %s and %s only", got, err, assets, beside)
	}
	t.Setenv("KUBEBUILDER_ASSETS", filepath.Join("bin", "hub"))
	if got, err := findPrograms(""); err == nil || !strings.Contains(err.Error(), `KUBEBUILDER_ASSETS: "bin/hub" is not an absolute path`) {
		t.Errorf("got %+v, %v; want an error about a relative path", got, err)
	}

	t.Setenv("KUBEBUILDER_ASSETS", assets)
	write(0o755, filepath.Join(assets, "etcd"), filepath.Join(assets, "kube-apiserver"), filepath.Join(beside, "etcd"), filepath.Join(beside, "gc"))
	write(0o644, filepath.Join(assets, "gc")) // not executable
	got, err := findPrograms("")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"etcd":           filepath.Join(assets, "etcd"),
		"kube-apiserver": filepath.Join(assets, "kube-apiserver"),
		"gc":             filepath.Join(beside, "gc"),
		"kubectl":        "",
	} {
		if path := got.path(name); path != want {
			t.Errorf("%s: got %q, want %q", name, path, want)
		}
	}
}

func TestSearchPath(t *testing.T) {
	own := filepath.Dir(executable(t))
	kubectl, other := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(kubectl, "kubectl"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for assets, want := range map[string][]string{kubectl: {own, kubectl}, other: {own}} {
		t.Setenv("KUBEBUILDER_ASSETS", assets)
		if got, err := SearchPath(); err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	}
}

// executable is the path of the running test.
func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEndStale(t *testing.T) {
	files, err := newLayout(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ours := sleeper(t, "--data-dir="+files.path("etcd"))
	stranger := sleeper(t, "--data-dir="+files.root+"-of-another-user/etcd")
	for name, pid := range map[string]string{
		"etcd":           strconv.Itoa(ours.Process.Pid),
		"kube-apiserver": strconv.Itoa(stranger.Process.Pid), // a pid that was given out again
		"gc":             "nonsense",
	} {
		if err := os.WriteFile(files.path("run", name+".pid"), []byte(pid), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := killStale(files); err != nil {
		t.Fatal(err)
	}
	if err := ours.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("our own process: got %v, want it killed", err)
	}
	if !strings.Contains(commandLine(stranger.Process.Pid), "another-user") {
		t.Error("a stranger's process was ended")
	}
	if left, err := os.ReadDir(files.path("run")); err != nil || len(left) > 0 {
		t.Errorf("pid files left: %v, %v", left, err)
	}
}

// sleeper starts a process with the argument on its command line. It waits for its standard input
// to end.
func sleeper(t *testing.T, arg string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", "read line; exit 0", arg)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // an error after a first Wait
	})
	// Start returns while the kernel is still laying out the program, and with it the command line.
	for end := time.Now().Add(10 * time.Second); !strings.Contains(commandLine(cmd.Process.Pid), arg); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s is not on the command line, which is %q", arg, commandLine(cmd.Process.Pid))
		}
	}
	return cmd
}

func TestLogTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	for name, tc := range map[string]struct {
		content string
		want    string
	}{
		"empty": {"\n", "; its log " + path + " is empty"},
		"short": {"one\ntwo\n", "; the last lines of " + path + ":\n  one\n  two"},
		"long":  {strings.Repeat("x\n", 10000) + "1\n2\n3\n4\n5\n6\n7\n8\n", "; the last lines of " + path + ":\n  1\n  2\n  3\n  4\n  5\n  6\n  7\n  8"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := (&child{log: path}).logTail(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
