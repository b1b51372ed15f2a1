package app

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// newTerminal is a terminal, and the screen on which is seen what is printed there.
func newTerminal(t *testing.T) (terminal, screen *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close() })
	var unlock, number int32
	for request, value := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlock, syscall.TIOCGPTN: &number} {
		if _, _, failure := syscall.Syscall(syscall.SYS_IOCTL, screen.Fd(), request, uintptr(unsafe.Pointer(value))); failure != 0 {
			t.Fatal(failure)
		}
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return terminal, screen
}

// TestProgressOnATerminal waits for the first line that a person who waits is shown.
func TestProgressOnATerminal(t *testing.T) {
	terminal, screen := newTerminal(t)
	p := startProgress(terminal)
	p.say("reading the hub")
	shown, part := "", make([]byte, 256)
	for !strings.Contains(shown, "\x1b[Kreading the hub …") {
		n, err := screen.Read(part)
		if err != nil {
			t.Fatal(err)
		}
		shown += string(part[:n])
	}
	p.stop()
}

func TestColourful(t *testing.T) {
	terminal, _ := newTerminal(t)
	for name, tc := range map[string]struct {
		noColour, kind string
		want           bool
	}{
		"a terminal": {kind: "xterm", want: true}, "NO_COLOR": {noColour: "1", kind: "xterm"}, "a dumb one": {kind: "dumb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NO_COLOR", tc.noColour)
			t.Setenv("TERM", tc.kind)
			if got := colourful(terminal); got != tc.want {
				t.Errorf("colours: %t, want %t", got, tc.want)
			}
		})
	}
}
