package app

import (
	"strings"

	"github.com/spf13/cobra"
)

// helpWidth is the largest number of columns of a line of help text.
const helpWidth = 100

// wrapHelp breaks the lines of the help of a command and of those below it. Indented lines stay.
func wrapHelp(cmd *cobra.Command) {
	paragraphs := strings.Split(cmd.Long, "\n\n")
	for i, text := range paragraphs {
		if !strings.HasPrefix(text, " ") && !strings.Contains(text, "\n ") {
			paragraphs[i] = wrap(text)
		}
	}
	cmd.Long = strings.Join(paragraphs, "\n\n")
	for _, sub := range cmd.Commands() {
		wrapHelp(sub)
	}
}

func wrap(text string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > helpWidth {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return strings.Join(append(lines, line), "\n")
}
