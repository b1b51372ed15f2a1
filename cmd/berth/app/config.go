package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/pkg/boundedfile"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// maxConfig is the maximum size of a configuration file, in bytes.
const maxConfig = 4 << 20

func addConfigFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "config", "", "file with the PlacementSchedulerConfiguration (default: the built-in profile)")
}

// loadConfig reads the scheduler's configuration; nil if no file is named. It builds the profiles
// once to report every mistake in the file, with the file's name, before anything starts. The file
// may name plugins that are not in the tree.
func loadConfig(ctx context.Context, path string, plugins framework.Registry) (*config.PlacementSchedulerConfiguration, error) {
	if path == "" {
		return nil, nil
	}
	data, err := boundedfile.ReadFile(path, maxConfig)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	registry := builtin.Registry()
	if err := registry.Merge(plugins); err != nil {
		return nil, err
	}
	c, err := config.Load(data)
	if err == nil {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		_, err = builtin.Profiles(ctx, c, registry, &framework.Handle{})
	}
	if err != nil {
		// Each line is one mistake.
		return nil, fmt.Errorf("%s: %s", path, strings.ReplaceAll(err.Error(), "\n", "\n"+path+": "))
	}
	return c, nil
}
