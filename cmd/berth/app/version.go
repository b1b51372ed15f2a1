package app

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/config/crd"
)

// The linker sets version and commit (-X …/cmd/berth/app.version=v1.2.3). Without them, the build
// information is used.
var version, commit string

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit and the API versions of the CRDs",
		Example: `  berth version`,
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return printVersion(cmd.OutOrStdout()) },
	}
}

func printVersion(out io.Writer) error {
	name, revision := buildVersion()
	crds, err := crd.All()
	if err != nil {
		return fmt.Errorf("reading the CRDs: %w", err)
	}
	say(out, "berth %s (commit %s, %s)\n", name, revision, runtime.Version())
	t := &table{heading: []string{"KIND", "GROUP", "SERVED", "STORED"}}
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
		t.add(cell{text: crd.Spec.Names.Kind}, cell{text: crd.Spec.Group}, cell{text: strings.Join(served, ", ")}, cell{text: stored})
	}
	return t.print(out, false)
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
