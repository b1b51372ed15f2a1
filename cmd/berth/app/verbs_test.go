package app

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestSharedVerbs: the commands of kubectl placement are those of berth, with the same flags.
func TestSharedVerbs(t *testing.T) {
	flags := func(root *cobra.Command) map[string][]string {
		all := map[string][]string{}
		for _, cmd := range root.Commands() {
			all[cmd.Name()] = []string{}
			cmd.Flags().VisitAll(func(f *pflag.Flag) { all[cmd.Name()] = append(all[cmd.Name()], "-"+f.Shorthand+" --"+f.Name) })
		}
		return all
	}
	plugin, berth := flags(NewKubectlCommand()), flags(NewCommand())
	for _, own := range []string{"add-cluster", "argocd-clusters", "controller", "explore", "generator", "placement", "queues", "replay", "report", "up"} {
		delete(berth, own)
	}
	if diff := cmp.Diff(berth, plugin); diff != "" {
		t.Errorf("berth and kubectl placement differ (-berth +plugin):\n%s", diff)
	}
	for _, verb := range []string{"approve", "diff", "drain", "evict", "explain", "history", "pin", "reject", "resume", "simulate", "status", "suspend", "top", "undo", "undrain", "unpin"} {
		if _, found := plugin[verb]; !found {
			t.Errorf("there is no %s", verb)
		}
	}
}

// TestExamples: the help of every command has examples that name the command and its flags.
func TestExamples(t *testing.T) {
	flag := regexp.MustCompile(`\s(--?[a-zA-Z][a-z-]*)`)
	for _, root := range []*cobra.Command{NewCommand(), NewKubectlCommand()} {
		eachCommand(root, func(cmd *cobra.Command) {
			t.Run(cmd.CommandPath(), func(t *testing.T) {
				if cmd.Example == "" {
					t.Fatal("no example")
				}
				own := 0
				for line := range strings.Lines(cmd.Example) {
					words, found := strings.CutPrefix(line[max(0, strings.LastIndex(line, "| ")):], "  "+root.CommandPath()+" ")
					if !found {
						words, found = strings.CutPrefix(line[max(0, strings.LastIndex(line, "| ")):], "| "+root.CommandPath()+" ")
					}
					if !found {
						continue
					}
					sub, _, err := root.Find(strings.Fields(words))
					if err != nil {
						t.Errorf("%s: %v", line, err)
						continue
					}
					if sub == cmd || slices.Contains(cmd.Commands(), sub) || cmd == root {
						own++
					}
					for _, match := range flag.FindAllStringSubmatch(words, -1) {
						long := strings.HasPrefix(match[1], "--") && sub.Flags().Lookup(strings.TrimPrefix(match[1], "--")) != nil
						if short := strings.TrimPrefix(match[1], "-"); !long && (len(short) != 1 || sub.Flags().ShorthandLookup(short) == nil) {
							t.Errorf("%s has no flag %s", sub.CommandPath(), match[1])
						}
					}
				}
				if own == 0 {
					t.Errorf("no example runs the command:\n%s", cmd.Example)
				}
			})
		})
	}
}

func TestResolve(t *testing.T) {
	for arg, want := range map[string]string{
		"web": "shop/web", "placement/web": "shop/web", "pl/web": "shop/web", "Placements/web": "shop/web",
		"placement.cluster.open-cluster-management.io/web": "shop/web",
		"shop/web": "shop/web", "ads/web": "ads/web", "placement.apps/web": "", "placement/": "", "managedcluster/paris1": "", "a/b/c": "",
	} {
		got, err := (&hubFlags{}).resolve(context.Background(), nil, "shop", arg)
		usage := (*usageError)(nil)
		if want != "" && (err != nil || got.String() != want || got.revision != 0) || want == "" && !errors.As(err, &usage) {
			t.Errorf("%s is %v, %v; want %q", arg, got, err, want)
		}
	}
	if _, err := (&hubFlags{namespace: "shop"}).resolve(context.Background(), nil, "shop", "ads/web"); err == nil {
		t.Error("the namespace of the argument differs from -n")
	}
	for text, want := range map[string]string{"paris1": "paris1", "mcl/paris1": "paris1", "managedclusters/paris1": "paris1", "pl/web": ""} {
		if got, err := clusterName("cluster", text); got != want || (err == nil) != (want != "") {
			t.Errorf("%s is %q, %v; want %q", text, got, err, want)
		}
	}
}
