package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/cmd/berth/app"
)

func commandLinePage() string {
	var page strings.Builder
	page.WriteString(generated("cmd/berth/app") + "# Command line\n\n" + exitCodes() + "\n" +
		"As a plugin of kubectl, the program has these commands with the same flags: " + shared() + ".\n")
	describe(&page, app.NewCommand(), "")
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

// shared lists the commands of kubectl placement.
func shared() string {
	var names []string
	for _, cmd := range app.NewKubectlCommand().Commands() {
		names = append(names, "`"+cmd.CommandPath()+"`")
	}
	return strings.Join(names, ", ")
}

// describe writes a command and those below it.
func describe(page *strings.Builder, cmd *cobra.Command, parent string) {
	name := strings.TrimSpace(parent + " " + cmd.DisplayName())
	if !cmd.Runnable() || cmd.Hidden || cmd.Name() == "help" {
		return
	}
	use := strings.TrimSpace(parent + " " + cmd.Use)
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	fmt.Fprintf(page, "\n## %s\n\n    %s\n\n%s\n", name, use, text)
	if cmd.Example != "" {
		fmt.Fprintf(page, "\n```text\n%s\n```\n", strings.TrimRight(cmd.Example, "\n"))
	}
	if flags := cmd.LocalFlags().FlagUsagesWrapped(0); cmd.LocalFlags().HasAvailableFlags() {
		fmt.Fprintf(page, "\n```text\n%s```\n", flags)
	}
	for _, sub := range cmd.Commands() {
		describe(page, sub, name)
	}
}
