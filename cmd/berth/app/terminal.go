package app

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// colourful is true if the output may have colours: on a terminal that supports them, unless
// NO_COLOR is set.
func colourful(out io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && obeysEscapes(out)
}

// Colours of a cell.
const (
	green = "\x1b[32m"
	red   = "\x1b[31m"
	plain = ""
)

// cell is a text in a table, with its colour.
type cell struct{ text, colour string }

// table has a heading and columns that are spaced as in kubectl.
type table struct {
	// indent is the start of each line.
	indent  string
	heading []string
	rows    [][]cell
}

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// columnGap and minColumn have kubectl's values. minColumn includes the gap.
const (
	columnGap = 3
	minColumn = 6
)

func (t *table) print(out io.Writer, colours bool) error {
	heading := make([]cell, len(t.heading))
	for i, text := range t.heading {
		heading[i].text = text
	}
	rows := append([][]cell{heading}, t.rows...)
	widths := make([]int, len(heading))
	for _, row := range rows {
		for i := range row {
			row[i].text = oneLine(row[i].text)
			c := row[i]
			widths[i] = max(widths[i], minColumn, utf8.RuneCountInString(c.text)+columnGap)
		}
	}
	for _, row := range rows {
		var line strings.Builder
		line.WriteString(t.indent)
		for i, c := range row {
			text := c.text
			if colours && c.colour != plain {
				text = c.colour + text + "\x1b[0m"
			}
			line.WriteString(text)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)))
			}
		}
		// The cells are escaped; the colours must not be.
		if err := writeRaw(out, line.String()+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// When progress is shown first, and the interval after that.
const (
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
)

// progress shows the current step of a long command on a terminal.
type progress struct {
	out  io.Writer
	mu   sync.Mutex
	text string
	// done ends the display; nil if there is no display.
	done chan struct{}
	gone sync.WaitGroup
}

// startProgress starts the display on a terminal. Stop it before printing anything else.
func startProgress(out io.Writer) *progress {
	p := &progress{out: out}
	if obeysEscapes(out) {
		p.show(progressAfter)
	}
	return p
}

func (p *progress) show(after time.Duration) {
	done := make(chan struct{})
	p.done = done
	p.gone.Go(func() {
		timer := time.NewTimer(after)
		defer timer.Stop()
		shown := false
		for {
			select {
			case <-timer.C:
				_ = writeRaw(p.out, "\r\x1b[K"+oneLine(p.said())+" …") // progress may go unseen
				shown = true
				timer.Reset(progressEvery)
			case <-done:
				if shown {
					_ = writeRaw(p.out, "\r\x1b[K")
				}
				return
			}
		}
	})
}

// say sets the text of the current step.
func (p *progress) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = fmt.Sprintf(format, args...)
}

func (p *progress) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text
}

// stop clears the line. A second call does nothing.
func (p *progress) stop() {
	if p.done != nil {
		close(p.done)
		p.done = nil
		p.gone.Wait()
	}
}
