package localhub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// UntrustedError is the error for a data directory that another user could have changed or could
// read.
type UntrustedError struct {
	// Path is the file or folder, Problem the reason, and Remedy the action for the user.
	Path, Problem, Remedy string
}

func (e *UntrustedError) Error() string {
	return fmt.Sprintf("the data directory cannot be trusted: %q %s: %s, or choose another --data-dir", e.Path, e.Problem, e.Remedy)
}

// checkTrust returns an *UntrustedError unless the user owns everything in the data directory and
// no other user can write to it or read its private keys. It does not follow links inside. A
// directory that does not exist is accepted.
func checkTrust(root string, user int) error {
	given, err := os.Lstat(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// A link of another user could point to any folder of this user.
	if given.Mode()&fs.ModeSymlink != 0 {
		if err := checkOwner(root, given, user); err != nil {
			return err
		}
		if root, err = filepath.EvalSymlinks(root); err != nil {
			return err
		}
	}
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a running hub removes files; this start fails later
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return checkEntry(path, info, user)
	})
}

func checkEntry(path string, info fs.FileInfo, user int) error {
	if err := checkOwner(path, info, user); err != nil {
		return err
	}
	private := strings.HasSuffix(path, ".key") || strings.HasSuffix(path, "kubeconfig")
	switch mode := info.Mode(); {
	case !mode.IsRegular() && !mode.IsDir():
		return &UntrustedError{path, "is neither a file nor a folder", "remove it"}
	case mode&fs.ModeSticky != 0 && mode.Perm()&0o022 != 0:
		return &UntrustedError{path, "is a folder in which other users can create files", "name a new folder inside of it"}
	case mode.Perm()&0o022 != 0:
		return &UntrustedError{path, fmt.Sprintf("can be written by other users (mode %04o)", mode.Perm()),
			"check its content and remove the permission with chmod go-w"}
	case private && mode.Perm()&0o077 != 0:
		return &UntrustedError{path, fmt.Sprintf("contains a private key and can be read by other users (mode %04o)", mode.Perm()),
			"remove it: the next start creates a new one"}
	}
	return nil
}

func checkOwner(path string, info fs.FileInfo, user int) error {
	owner, ok := ownerOf(info)
	if !ok || owner == user {
		return nil
	}
	return &UntrustedError{path, fmt.Sprintf("belongs to the user with ID %d, not to your user with ID %d", owner, user),
		"remove it, or change its owner with chown"}
}
