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
	output := ""
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit, the API versions of the CRDs and the stages of the features",
		Example: `  berth version
  berth version -o json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return usagef("-o: %q is not one of table, json", output)
			}
			return printVersion(cmd.OutOrStdout(), output)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

// versionInfo is the output of version -o json.
type versionInfo struct {
	Version  string       `json:"version"`
	Commit   string       `json:"commit"`
	Go       string       `json:"go"`
	Kinds    []servedKind `json:"kinds"`
	Features []Feature    `json:"features"`
}

type servedKind struct {
	Kind   string   `json:"kind"`
	Group  string   `json:"group"`
	Served []string `json:"served"`
	Stored string   `json:"stored"`
}

func printVersion(out io.Writer, format string) error {
	info := versionInfo{Go: runtime.Version(), Features: Features()}
	info.Version, info.Commit = buildVersion()
	crds, err := crd.All()
	if err != nil {
		return fmt.Errorf("reading the CRDs: %w", err)
	}
	for _, crd := range crds {
		kind := servedKind{Kind: crd.Spec.Names.Kind, Group: crd.Spec.Group}
		for _, v := range crd.Spec.Versions {
			if v.Served {
				kind.Served = append(kind.Served, v.Name)
			}
			if v.Storage {
				kind.Stored = v.Name
			}
		}
		info.Kinds = append(info.Kinds, kind)
	}
	if format == "json" {
		return printObject(out, format, info)
	}
	say(out, "berth %s (commit %s, %s)\n", info.Version, info.Commit, info.Go)
	t := &table{heading: []string{"KIND", "GROUP", "SERVED", "STORED"}}
	for _, k := range info.Kinds {
		t.add(cell{text: k.Kind}, cell{text: k.Group}, cell{text: strings.Join(k.Served, ", ")}, cell{text: k.Stored})
	}
	if err := t.print(out, false); err != nil {
		return err
	}
	say(out, "\n")
	t = &table{heading: []string{"FEATURE", "STAGE", "MAY CHANGE"}}
	for _, f := range info.Features {
		t.add(cell{text: f.Name}, cell{text: string(f.Stage)}, cell{text: f.MayChange})
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
