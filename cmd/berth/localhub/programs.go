package localhub

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// programs are the folders that may have the hub's executables. Each program is used from the first
// folder that has it, because KUBEBUILDER_ASSETS of other tools lack gc.
type programs []string

// path is the program's path, or empty while no folder has it.
func (p programs) path(name string) string {
	for _, folder := range p {
		if path := filepath.Join(folder, name); isExecutable(path) {
			return path
		}
	}
	return ""
}

func (p programs) String() string { return strings.Join(p, ", ") }

// findPrograms fails if a server is missing. It never searches the current directory, whose files
// may be another user's.
func findPrograms(assets string) (programs, error) {
	found, err := assetFolders(assets)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if found.path(name) == "" {
			return nil, fmt.Errorf("no %s in %s: `make hub` builds it, KUBEBUILDER_ASSETS may name another folder", name, found)
		}
	}
	return found, nil
}

// assetFolders are absolute.
func assetFolders(assets string) (programs, error) {
	if assets == "" {
		assets = os.Getenv("KUBEBUILDER_ASSETS")
	}
	var folders []string
	if assets != "" {
		if !filepath.IsAbs(assets) {
			return nil, fmt.Errorf("KUBEBUILDER_ASSETS: %q is not an absolute path", assets)
		}
		folders = append(folders, filepath.Clean(assets))
	}
	if exe, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(exe); err == nil {
			exe = resolved
		}
		folders = append(folders, filepath.Join(filepath.Dir(exe), "hub"))
	}
	return slices.Compact(folders), nil
}

// SearchPath returns the folders of this program and of the hub's kubectl, for the PATH of a shell.
func SearchPath() ([]string, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	path := []string{filepath.Dir(exe)}
	found, err := assetFolders("")
	if err != nil {
		return nil, err
	}
	if kubectl := found.path("kubectl"); kubectl != "" {
		path = append(path, filepath.Dir(kubectl))
	}
	return path, nil
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
