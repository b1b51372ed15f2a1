package app

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/simulator"
)

// Comments on pull requests contain texts of other users. As Markdown, these texts could mention
// people, contain links, or imitate a table. So each text becomes a code span unless it is
// harmless.

// harmless texts have no meaning in Markdown.
var harmless = regexp.MustCompile(`^[A-Za-z0-9 .,:;=+/()…%-]*$`)

// markdownText returns a text for a line of Markdown or a cell of a table.
func markdownText(text string) string {
	text = oneLine(text)
	if harmless.MatchString(text) && !strings.Contains(text, "//") && !strings.Contains(text, "www.") {
		return text
	}
	// A code span begins and ends with the same number of backticks. The text must not contain as
	// many in a row.
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if len(fence) > 1 {
		text = " " + text + " "
	}
	return fence + strings.ReplaceAll(text, "|", `\|`) + fence
}

// markdown returns the lines of the table. Empty cells stay empty.
func (t *table) markdown() string {
	var lines strings.Builder
	line := func(cells []string) { lines.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	rule := make([]string, len(t.heading))
	for i := range rule {
		rule[i] = "---"
	}
	line(t.heading)
	line(rule)
	for _, row := range t.rows {
		texts := make([]string, len(row))
		for i, c := range row {
			if c.text != none {
				texts[i] = markdownText(c.text)
			}
		}
		line(texts)
	}
	return lines.String()
}

// printMarkdown prints a title, a table if it has rows, and paragraphs.
func printMarkdown(out io.Writer, title string, t *table, paragraphs []string) error {
	parts := []string{"### " + title + "\n"}
	if len(t.rows) > 0 {
		parts = append(parts, t.markdown())
	}
	for _, text := range paragraphs {
		parts = append(parts, markdownText(text)+"\n")
	}
	_, err := io.WriteString(out, strings.Join(parts, "\n"))
	return err
}

// printMarkdown prints a table of the decided Placements.
func (s *simulation) printMarkdown(out io.Writer) error {
	t := &table{heading: []string{"NAMESPACE", "PLACEMENT", "SELECTED", "CANDIDATES", "SATISFIED", "REASON", "MESSAGE", "CLUSTERS"}}
	satisfied, wrong := 0, 0
	for _, r := range s.Results {
		if misconfigured(r) {
			wrong++
		}
		row := decidedRow(r)
		if row[4].text == string(metav1.ConditionTrue) {
			satisfied++
		}
		t.add(row...)
	}
	text := fmt.Sprintf("%s decided, %d satisfied, %d misconfigured.", number(len(s.Results), "Placement"), satisfied, wrong)
	return printMarkdown(out, "Placements decided", t, []string{text})
}

// decidedRow has the cells of one decided Placement.
func decidedRow(r *simulator.Report) []cell {
	namespace, name, _ := strings.Cut(r.Placement, "/")
	row := []cell{{text: namespace}, {text: name}}
	if r.Answer == nil {
		return append(row, cell{text: none}, cell{text: none}, cell{text: none}, cell{text: r.Skipped}, cell{text: none}, cell{text: none})
	}
	shown := cmp.Or(r.Conditions.Get(v1alpha1.PlacementConditionSatisfied), &simulator.Condition{})
	var clusters []string
	for _, d := range r.Decisions {
		clusters = append(clusters, d.Clusters...)
	}
	return append(row, cell{text: fmt.Sprint(r.NumberOfSelectedClusters)}, cell{text: fmt.Sprint(len(r.AvailableClusters))},
		cell{text: cmp.Or(string(shown.Status), none)}, cell{text: cmp.Or(shown.Reason, none)}, cell{text: cmp.Or(shown.Message, none)},
		cell{text: cmp.Or(list(clusters, false, " "), none)})
}

// misconfigured reports whether the Placement of a report is misconfigured.
func misconfigured(r *simulator.Report) bool {
	return r.Answer != nil && r.Conditions.Misconfigured() != nil
}
