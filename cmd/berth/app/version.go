package app

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/config/crd"
)

// version and commit are set by the linker (-X …/cmd/berth/app.version=v1.2.3). Without them the build information serves.
var version, commit string

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and the API versions berth serves",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return printVersion(cmd.OutOrStdout()) },
	}
}

func printVersion(out io.Writer) error {
	name, revision := buildVersion()
	crds, err := crd.All()
	if err != nil {
		return fmt.Errorf("reading the CRDs: %w", err)
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "berth %s (commit %s, %s)\n", name, revision, runtime.Version())
	fmt.Fprintln(table, "KIND\tGROUP\tSERVED\tSTORED")
	for _, crd := range crds {
		var served []string
		stored := ""
		for _, v := range crd.Spec.Versions {
			if v.Served {
				served = append(served, v.Name)
			}
			if v.Storage {
				stored = v.Name
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", crd.Spec.Names.Kind, crd.Spec.Group, strings.Join(served, ", "), stored)
	}
	return table.Flush()
}

func buildVersion() (name, revision string) {
	name, revision = version, commit
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if name == "" {
		name = info.Main.Version
	}
	if revision == "" {
		revision = settings["vcs.revision"]
	}
	if revision == "" {
		return name, "unknown"
	}
	revision = revision[:min(12, len(revision))]
	if settings["vcs.modified"] == "true" {
		revision += ", modified"
	}
	return name, revision
}
