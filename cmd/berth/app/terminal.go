package app

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
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
	// optional are the headings of columns that a narrow terminal leaves out, the least important
	// first.
	optional []string
	// whole is true if the user asked for all there is: then a terminal is no reason to leave out
	// anything.
	whole bool
}

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// columnGap and minColumn have kubectl's values. minColumn includes the gap. No column is cut to
// less than minText or its heading.
const (
	columnGap = 3
	minColumn = 6
	minText   = 10
	// readableText is the width to which optional columns are left out, before others are cut more.
	readableText = 24
)

// print prints the table. On a terminal it leaves out empty columns and fits the others into the
// width.
func (t *table) print(out io.Writer, colours bool) error {
	heading := make([]cell, len(t.heading))
	for i, text := range t.heading {
		heading[i].text = text
	}
	rows := [][]cell{heading}
	for _, row := range t.rows {
		escaped := slices.Clone(row)
		for i := range escaped {
			escaped[i].text = oneLine(escaped[i].text)
		}
		rows = append(rows, escaped)
	}
	if width := terminalWidth(out); width > 0 && !t.whole {
		rows = withoutOptional(withoutEmpty(rows), t.optional, width-len(t.indent))
		fit(rows, width-len(t.indent))
	}
	widths := widthsOf(rows)
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
				line.WriteString(strings.Repeat(" ", max(minColumn, widths[i]+columnGap)-utf8.RuneCountInString(c.text)))
			}
		}
		// The cells are escaped; the colours must not be.
		if err := writeRaw(out, line.String()+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// widthsOf returns the longest text of each column.
func widthsOf(rows [][]cell) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	return widths
}

// withoutEmpty removes the columns that have no value in any row, but not the first column.
func withoutEmpty(rows [][]cell) [][]cell {
	return without(rows, func(column int) bool {
		return len(rows) > 1 && column > 0 && !slices.ContainsFunc(rows[1:], func(row []cell) bool {
			return !slices.Contains([]string{"", "-", none}, row[column].text)
		})
	})
}

// withoutOptional removes columns with these headings, in this order, until texts of readableText
// fit into the width.
func withoutOptional(rows [][]cell, optional []string, width int) [][]cell {
	for _, heading := range optional {
		widths := widthsOf(rows)
		for i, w := range widths {
			if cuttable(rows[0][i].text) {
				widths[i] = min(w, max(readableText, utf8.RuneCountInString(rows[0][i].text)))
			}
		}
		if lineWidth(widths) <= width {
			break
		}
		rows = without(rows, func(column int) bool { return rows[0][column].text == heading })
	}
	return rows
}

// without removes columns.
func without(rows [][]cell, removed func(column int) bool) [][]cell {
	kept := make([][]cell, len(rows))
	for i := range rows[0] {
		if removed(i) {
			continue
		}
		for at, row := range rows {
			kept[at] = append(kept[at], row[i])
		}
	}
	return kept
}

// lineWidth is the width of a line with columns of these widths.
func lineWidth(widths []int) (width int) {
	for i, w := range widths {
		if width += w; i < len(widths)-1 {
			width += max(minColumn-w, columnGap)
		}
	}
	return width
}

// names are the headings of columns that are never cut, because users copy what they have.
var names = []string{"NAMESPACE", "PLACEMENT", "CLUSTER"}

func cuttable(heading string) bool { return !slices.Contains(names, heading) }

// fit cuts the longest texts until the lines are no longer than width, if that is possible. Those
// are the least important: reasons and lists.
func fit(rows [][]cell, width int) {
	widths := widthsOf(rows)
	for over := lineWidth(widths) - width; over > 0; over-- {
		longest := -1
		for i, w := range widths {
			if w > max(minText, utf8.RuneCountInString(rows[0][i].text)) && cuttable(rows[0][i].text) && (longest < 0 || w >= widths[longest]) {
				longest = i
			}
		}
		if longest < 0 {
			break
		}
		widths[longest]--
	}
	for _, row := range rows {
		for i, c := range row {
			if runes := []rune(c.text); len(runes) > widths[i] {
				row[i].text = string(runes[:widths[i]-1]) + "…"
			}
		}
	}
}

// terminalWidth is the number of columns of a terminal; 0 if the stream is none.
func terminalWidth(stream any) int {
	if w, ok := stream.(*escapingWriter); ok {
		stream = w.out
	}
	if file, ok := stream.(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			return width
		}
	}
	return 0
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
