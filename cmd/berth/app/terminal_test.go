package app

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/pkg/changes"
)

// screen passes on what is printed, piece by piece.
type screen chan string

func (s screen) Write(p []byte) (int, error) {
	s <- string(p)
	return len(p), nil
}

func TestProgressShowsAndClears(t *testing.T) {
	s := make(screen, 100)
	p := &progress{out: s}
	p.say("compared %d of %d", 1, 2)
	p.show(0)
	if got, want := <-s, "\r\x1b[Kcompared 1 of 2 …"; got != want {
		t.Errorf("shows %q, want %q", got, want)
	}
	p.say("compared 2 of 2")
	for got := range s {
		if got == "\r\x1b[Kcompared 2 of 2 …" {
			break
		}
	}
	p.stop()
	p.stop()
	close(s)
	last := ""
	for last = range s {
	}
	if want := "\r\x1b[K"; last != want {
		t.Errorf("leaves %q, want %q", last, want)
	}
}

// TestQuickProgress: what ends before progress is shown leaves no trace.
func TestQuickProgress(t *testing.T) {
	s := make(screen, 100)
	p := &progress{out: s}
	p.show(progressAfter * 1000)
	p.say("reading")
	p.stop()
	close(s)
	for got := range s {
		t.Errorf("shows %q", got)
	}
}

// TestNoProgressElsewhere: pipes, files and programs get no output.
func TestNoProgressElsewhere(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	defer pipe.Close()
	for name, p := range map[string]*progress{"buffer": startProgress(&bytes.Buffer{}), "file": startProgress(file), "pipe": startProgress(pipe)} {
		if p.done != nil {
			t.Errorf("progress is shown on a %s", name)
		}
		p.say("reading")
		p.stop()
	}
}

func TestTableOnATerminal(t *testing.T) {
	for colours, want := range map[bool]string{
		false: "  NAME   ON\n  a      true\n  bcdé   -\n",
		true:  "  NAME   ON\n  a      \x1b[32mtrue\x1b[0m\n  bcdé   -\n",
	} {
		t.Run(fmt.Sprint(colours), func(t *testing.T) {
			list := &table{indent: "  ", heading: []string{"NAME", "ON"}}
			list.add(cell{text: "a"}, cell{"true", green})
			list.add(cell{text: "bcdé"}, cell{text: "-"})
			var out bytes.Buffer
			if err := list.print(&out, colours); err != nil {
				t.Fatal(err)
			}
			if out.String() != want {
				t.Errorf("prints\n%q, want\n%q", out.String(), want)
			}
		})
	}
}

// TestOptionalColumns: a narrow terminal leaves out the least important columns before it cuts
// texts to what cannot be read.
func TestOptionalColumns(t *testing.T) {
	all := statusTable([]*placementStatus{statusOf(changes.StateInput{Placement: stated("web", 3, "PlacementSatisfied=False NoManagedClusterSetBindings")})}, false, time.Now())
	heading := make([]cell, len(all.heading))
	for i, text := range all.heading {
		heading[i].text = text
	}
	for width, want := range map[int]string{
		200: "NAMESPACE PLACEMENT STATE WANTED SELECTED REASON CHANGE ADDED REMOVED SINCE",
		110: "NAMESPACE PLACEMENT STATE WANTED SELECTED REASON CHANGE REMOVED SINCE",
		100: "NAMESPACE PLACEMENT STATE WANTED SELECTED REASON CHANGE SINCE",
		80:  "NAMESPACE PLACEMENT STATE WANTED SELECTED REASON",
		20:  "NAMESPACE PLACEMENT STATE WANTED SELECTED REASON",
	} {
		rows := withoutOptional(append([][]cell{heading}, all.rows...), all.optional, width)
		var got []string
		for _, c := range rows[0] {
			got = append(got, c.text)
		}
		if strings.Join(got, " ") != want || len(rows[1]) != len(got) {
			t.Errorf("%d columns: %q, want %q", width, got, want)
		}
	}
}
