package app

import (
	"os"

	"golang.org/x/sys/windows"
)

// enableEscapes makes a console obey escape sequences, which it prints otherwise. It returns false
// if the console is too old for that.
func enableEscapes(console *os.File) bool {
	handle, mode := windows.Handle(console.Fd()), uint32(0)
	return windows.GetConsoleMode(handle, &mode) == nil &&
		windows.SetConsoleMode(handle, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
