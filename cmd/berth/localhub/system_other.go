//go:build !unix

package localhub

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// supported makes Start return an error, so that nothing below is called.
const supported = false

func flock(*os.File) error { return errors.ErrUnsupported }

func killProcess(int) error { return errors.ErrUnsupported }

func ownerOf(fs.FileInfo) (user int, known bool) { return 0, false }

func processAttributes() *syscall.SysProcAttr { return nil }

func commandLine(int) string { return "" }
