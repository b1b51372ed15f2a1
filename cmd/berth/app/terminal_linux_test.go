package app

import (
	"fmt"
	"io"
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

// TestTableFitsTheTerminal: on a terminal, empty columns are left out and long texts are cut.
func TestTableFitsTheTerminal(t *testing.T) {
	for name, tc := range map[string]struct {
		columns uint16
		whole   bool
		want    string
	}{
		"wide":   {100, false, "NAME   CAUSE             MESSAGE\nweb    Placement: spec   all is well with it\ndb     <none>            no cluster\n"},
		"narrow": {38, false, "NAME   CAUSE            MESSAGE\nweb    Placement: sp…   all is well w…\ndb     <none>           no cluster\n"},
		"tiny":   {12, false, "NAME   CAUSE        MESSAGE\nweb    Placement…   all is we…\ndb     <none>       no cluster\n"},
		"whole":  {12, true, "NAME   NONE     CAUSE             MESSAGE\nweb    <none>   Placement: spec   all is well with it\ndb              <none>            no cluster\n"},
	} {
		t.Run(name, func(t *testing.T) {
			terminal, screen := newTerminal(t)
			size := [4]uint16{24, tc.columns}
			if _, _, failure := syscall.Syscall(syscall.SYS_IOCTL, screen.Fd(), syscall.TIOCSWINSZ, uintptr(unsafe.Pointer(&size))); failure != 0 {
				t.Fatal(failure)
			}
			list := &table{heading: []string{"NAME", "NONE", "CAUSE", "MESSAGE"}, whole: tc.whole}
			list.add(cell{text: "web"}, cell{text: none}, cell{text: "Placement: spec"}, cell{text: "all is well with it"})
			list.add(cell{text: "db"}, cell{}, cell{text: none}, cell{text: "no cluster"})
			if err := list.print(terminal, false); err != nil {
				t.Fatal(err)
			}
			// A terminal passes on each line by itself.
			part := make([]byte, len(tc.want)+strings.Count(tc.want, "\n"))
			n, err := io.ReadFull(screen, part)
			if got := strings.ReplaceAll(string(part[:n]), "\r\n", "\n"); err != nil || got != tc.want {
				t.Errorf("%v, got\n%s\nwant\n%s", err, got, tc.want)
			}
		})
	}
}
