package localhub

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// programs are the paths of the hub's executables.
type programs struct{ etcd, apiServer, gc string }

// findPrograms finds each program in the first folder that has it, because KUBEBUILDER_ASSETS of
// other tools lack gc. It never searches the current directory, whose files may be another user's.
func findPrograms(assets string) (programs, error) {
	folders, err := assetFolders(assets)
	if err != nil {
		return programs{}, err
	}
	var found programs
	for name, path := range map[string]*string{"etcd": &found.etcd, "kube-apiserver": &found.apiServer, "gc": &found.gc} {
		i := slices.IndexFunc(folders, func(folder string) bool { return isExecutable(filepath.Join(folder, name)) })
		if i < 0 {
			return programs{}, fmt.Errorf("no %s in %s: `make hub` builds it, KUBEBUILDER_ASSETS may name another folder",
				name, strings.Join(folders, ", "))
		}
		*path = filepath.Join(folders[i], name)
	}
	return found, nil
}

// assetFolders are absolute.
func assetFolders(assets string) ([]string, error) {
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
	folders, err := assetFolders("")
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(folders, func(folder string) bool { return isExecutable(filepath.Join(folder, "kubectl")) }); i >= 0 {
		path = append(path, folders[i])
	}
	return path, nil
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
