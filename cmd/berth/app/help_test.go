package app

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestHelpWidth: no line of a command's help is wider than helpWidth.
func TestHelpWidth(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for line := range strings.SplitSeq(cmd.Long, "\n") {
			if len([]rune(line)) > helpWidth {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), len([]rune(line)), line)
			}
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(NewCommand())
	check(NewKubectlCommand())
}
