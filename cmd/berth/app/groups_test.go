package app

import (
	"slices"
	"strings"
	"testing"
)

// TestEveryCommandHasAGroup: the help lists each command in exactly one group, but the version.
func TestEveryCommandHasAGroup(t *testing.T) {
	var grouped []string
	for _, g := range groups {
		grouped = append(grouped, g.commands...)
	}
	var all []string
	for _, cmd := range NewCommand().Commands() {
		if cmd.Name() != "version" {
			all = append(all, cmd.Name())
		}
	}
	slices.Sort(grouped)
	slices.Sort(all)
	if !slices.Equal(grouped, all) {
		t.Errorf("groups have %v, the commands are %v", grouped, all)
	}
	for _, cmd := range NewKubectlCommand().Commands() {
		if cmd.GroupID == "" && cmd.Name() != "version" {
			t.Errorf("kubectl placement: %s has no group", cmd.Name())
		}
	}
}

// TestDidYouMean: an unknown command or flag names similar ones, in one line.
func TestDidYouMean(t *testing.T) {
	for line, want := range map[string]string{
		"statsu":               `unknown command "statsu" for "berth"; did you mean status?`,
		"nonsense":             `unknown command "nonsense" for "berth"`,
		"explain --namspace":   "unknown flag: --namspace; did you mean --namespace?",
		"history --revision x": `--revision: "x" is not a whole number`,
		"history --since 3x":   `--since: "3x" is not a duration such as 12h or 30m`,
		"status -w=x":          `--watch: "x" is not true or false`,
		"explain --xyz":        "unknown flag: --xyz",
		"explain -n":           "flag needs an argument: 'n' in -n",
	} {
		root := NewCommand()
		root.SetArgs(strings.Fields(line))
		if err := root.Execute(); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}
