package localhub

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestCheckTrust takes one permission or owner away from a data directory that is fine otherwise.
func TestCheckTrust(t *testing.T) {
	chmod := func(mode os.FileMode, name ...string) func(*testing.T, string) {
		return func(t *testing.T, root string) {
			if err := os.Chmod(filepath.Join(append([]string{root}, name...)...), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	create := func(with func(path string) error, name ...string) func(*testing.T, string) {
		return func(t *testing.T, root string) {
			if err := with(filepath.Join(append([]string{root}, name...)...)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tc := range map[string]struct {
		change      func(*testing.T, string)
		stranger    bool // another user starts the hub
		wantPath    string
		wantProblem string
	}{
		"as it was made":                        {},
		"a readable directory":                  {change: chmod(0o755)},
		"another user's":                        {stranger: true, wantPath: ".", wantProblem: "belongs to the user with ID "},
		"a directory that everybody may write":  {change: chmod(0o777), wantPath: ".", wantProblem: "can be written by other users (mode 0777)"},
		"a directory for everybody, like /tmp":  {change: chmod(0o777 | os.ModeSticky), wantPath: ".", wantProblem: "is a folder in which other users can create files"},
		"a directory that the group may write":  {change: chmod(0o770), wantPath: ".", wantProblem: "can be written by other users (mode 0770)"},
		"an authority that others may write":    {change: chmod(0o666, "pki", "ca.crt"), wantPath: "pki/ca.crt", wantProblem: "can be written by other users (mode 0666)"},
		"an authority's key that others read":   {change: chmod(0o644, "pki", "ca.key"), wantPath: "pki/ca.key", wantProblem: "contains a private key and can be read by other users (mode 0644)"},
		"the folder of keys":                    {change: chmod(0o773, "pki"), wantPath: "pki", wantProblem: "can be written by other users (mode 0773)"},
		"an authority that is a link":           {change: create(func(path string) error { return os.Symlink("/etc/hosts", path) }, "pki", "linked.crt"), wantPath: "pki/linked.crt", wantProblem: "is neither a file nor a folder"},
		"a pipe for a lock":                     {change: create(func(path string) error { return syscall.Mkfifo(path, 0o600) }, "lock"), wantPath: "lock", wantProblem: "is neither a file nor a folder"},
		"etcd's data":                           {change: create(func(path string) error { return os.Mkdir(path, 0o700) }, "etcd")},
		"etcd's data where others may write it": {change: create(func(path string) error { return errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o720)) }, "etcd"), wantPath: "etcd", wantProblem: "can be written by other users (mode 0720)"},
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "data")
			files, err := newLayout(root)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ensurePKI(files.path("pki"), time.Now()); err != nil {
				t.Fatal(err)
			}
			if tc.change != nil {
				tc.change(t, root)
			}
			user := os.Geteuid()
			if tc.stranger {
				user++
			}
			err = checkTrust(root, user)
			if tc.wantPath == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			untrusted := (*UntrustedError)(nil)
			if !errors.As(err, &untrusted) || untrusted.Path != filepath.Join(root, tc.wantPath) ||
				len(untrusted.Problem) < len(tc.wantProblem) || untrusted.Problem[:len(tc.wantProblem)] != tc.wantProblem || untrusted.Remedy == "" {
				t.Errorf("got %v, want that %s %s", err, filepath.Join(root, tc.wantPath), tc.wantProblem)
			}
			if !tc.stranger {
				if _, err := newLayout(root); !errors.As(err, &untrusted) {
					t.Errorf("newLayout takes it: %v", err)
				}
			}
		})
	}
	if err := checkTrust(filepath.Join(t.TempDir(), "none"), 0); err != nil {
		t.Errorf("a directory that is not there yet: %v", err)
	}
}

// TestCheckTrustOfLinks: a link to the data directory is its owner's word for where it is.
func TestCheckTrustOfLinks(t *testing.T) {
	folder := t.TempDir()
	link := filepath.Join(folder, "link")
	if err := errors.Join(os.Mkdir(filepath.Join(folder, "data"), 0o700), os.Symlink("data", link)); err != nil {
		t.Fatal(err)
	}
	if err := checkTrust(link, os.Geteuid()); err != nil {
		t.Error(err)
	}
	untrusted := (*UntrustedError)(nil)
	if err := checkTrust(link, os.Geteuid()+1); !errors.As(err, &untrusted) || untrusted.Path != link {
		t.Errorf("a link of another user's: %v", err)
	}
	if err := os.Chmod(filepath.Join(folder, "data"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := checkTrust(link, os.Geteuid()); !errors.As(err, &untrusted) {
		t.Errorf("a link to what everybody may write: %v", err)
	}
}
