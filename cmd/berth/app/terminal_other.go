//go:build !windows

package app

import "os"

// enableEscapes has nothing to do: a terminal obeys escape sequences.
func enableEscapes(*os.File) bool { return true }
