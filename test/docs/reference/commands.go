package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-dev/berth/cmd/berth/app"
)

func commandLinePage() string {
	var page strings.Builder
	page.WriteString(generated("cmd/berth/app") + "# Command line\n\n`--help` also shows examples. " + strings.Join(repeated, " ") + "\n\n" + exitCodes() + "\n" +
		"Under `kubectl placement` the same commands exist, with the same flags: " + shared() + ".\n")
	root := app.NewCommand()
	common := commonFlags(root)
	page.WriteString("\nFlags of several commands, which list their names only" + groupsText() + ":\n\n```text\n" + usages(described(common)) + "```\n")
	describe(&page, root, "", common)
	return page.String()
}

// exitCodes is the table of the exit codes of all commands.
func exitCodes() string {
	var table strings.Builder
	table.WriteString("| exit code | meaning, if the command lists no other |\n|---|---|\n")
	for _, exit := range app.CommonExits {
		fmt.Fprintf(&table, "| %d | %s |\n", exit.Code, exit.Meaning)
	}
	return table.String()
}

// repeated are sentences in the help of many commands, which the page has once.
var repeated = []string{
	"A NAME is a Placement, or TYPE/NAME of a Placement, PlacementChange or PlacementDecision, such as pl/web or pch/web-3, or NAMESPACE/NAME.",
	"If you may not list the fleet, the controller answers, about candidates of the namespace only (role berth-explainer).",
	"The command shows the change of the decision first, as diff does, and asks.",
}

// paragraphs is a text with one line for each paragraph, except for indented lines.
func paragraphs(text string) string {
	return regexp.MustCompile(`(\S)\n(\S)`).ReplaceAllString(text, "$1 $2")
}

// withoutRepeated removes what the page has once, and the stage, which the page of features has.
func withoutRepeated(text string) string {
	for _, sentence := range repeated {
		text = strings.ReplaceAll(text, " "+sentence, "")
	}
	for _, exit := range app.CommonExits {
		text = regexp.MustCompile(fmt.Sprintf(`(?m)\n  %d  %s$`, exit.Code, exit.Meaning)).ReplaceAllString(text, "")
	}
	text = regexp.MustCompile(`(?m)^Stage: .*$`).ReplaceAllString(text, "")
	return strings.TrimSpace(regexp.MustCompile(`\n{3,}`).ReplaceAllString(text, "\n\n"))
}

// flagGroups are flags that commands have together, by the name of the group.
var flagGroups = []struct {
	name string
	// of begins the list of the flags.
	of    string
	flags []string
}{
	{"act flags", "", []string{"comment", "dry-run", "yes"}},
	{"hub flags", "kubectl's ", hubFlags},
}

// hubFlags are those of kubectl about the connection to the hub and its user.
var hubFlags = strings.Fields("as as-group as-uid as-user-extra certificate-authority client-certificate client-key context disable-compression " +
	"insecure-skip-tls-verify kubeconfig proxy-url request-timeout server tls-server-name token user")

func groupsText() string {
	var text strings.Builder
	for _, group := range flagGroups {
		fmt.Fprintf(&text, "; *%s* are %s`--%s`", group.name, group.of, strings.Join(group.flags, "`, `--"))
	}
	return text.String()
}

// described are the flags without those that kubectl describes.
func described(common map[string]*pflag.Flag) []*pflag.Flag {
	return slices.DeleteFunc(slices.Collect(maps.Values(common)), func(f *pflag.Flag) bool { return slices.Contains(hubFlags, f.Name) })
}

// groupOf returns the group of a flag of a command that has all flags of the group; first is true
// for the first of them.
func groupOf(cmd *cobra.Command, flag string) (name string, first bool) {
	for _, group := range flagGroups {
		at := slices.Index(group.flags, flag)
		if at >= 0 && !slices.ContainsFunc(group.flags, func(name string) bool { return cmd.Flags().Lookup(name) == nil }) {
			return group.name, at == 0
		}
	}
	return "", false
}

// commonFlags are the flags that at least three commands have with one meaning, by identity. Of a
// name with several meanings, it is the most frequent one.
func commonFlags(root *cobra.Command) map[string]*pflag.Flag {
	counts, byName := map[string]int{}, map[string]*pflag.Flag{}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			id := identity(f)
			counts[id]++
			if best := byName[f.Name]; best == nil || counts[id] > counts[identity(best)] {
				byName[f.Name] = f
			}
		})
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
	common := map[string]*pflag.Flag{}
	for _, f := range byName {
		if counts[identity(f)] >= 3 && !f.Hidden {
			common[identity(f)] = f
		}
	}
	return common
}

// identity is what makes a flag of two commands the same one.
func identity(f *pflag.Flag) string {
	return strings.Join([]string{f.Name, f.Shorthand, f.DefValue, f.Usage}, "\n")
}

// usages describes flags, sorted by name.
func usages(flags []*pflag.Flag) string {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, f := range flags {
		set.AddFlag(&pflag.Flag{Name: f.Name, Shorthand: f.Shorthand, Usage: f.Usage, Value: f.Value, DefValue: f.DefValue, NoOptDefVal: f.NoOptDefVal})
	}
	return set.FlagUsagesWrapped(0)
}

// shared lists the commands of kubectl placement.
func shared() string {
	var names []string
	for _, cmd := range app.NewKubectlCommand().Commands() {
		names = append(names, "`"+cmd.Name()+"`")
	}
	return strings.Join(names, ", ")
}

// describe writes a command and those below it.
func describe(page *strings.Builder, cmd *cobra.Command, parent string, common map[string]*pflag.Flag) {
	name := strings.TrimSpace(parent + " " + cmd.DisplayName())
	if !cmd.Runnable() || cmd.Hidden || cmd.Name() == "help" {
		return
	}
	use := strings.TrimSpace(parent + " " + cmd.Use)
	text := withoutRepeated(paragraphs(cmd.Long))
	if text == "" {
		text = cmd.Short + "."
	}
	fmt.Fprintf(page, "\n## %s\n\n    %s\n\n%s\n", name, use, text)
	var own []*pflag.Flag
	var names []string
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		group, first := groupOf(cmd, f.Name)
		switch {
		case f.Hidden:
		case common[identity(f)] == nil:
			own = append(own, f)
		case group == "":
			names = append(names, "`--"+f.Name+"`")
		case first:
			names = append(names, group)
		}
	})
	if len(own) > 0 {
		fmt.Fprintf(page, "\n```text\n%s```\n", usages(own))
	}
	if len(names) > 0 {
		fmt.Fprintf(page, "\nAlso %s.\n", strings.Join(names, ", "))
	}
	for _, sub := range cmd.Commands() {
		describe(page, sub, name, common)
	}
}
