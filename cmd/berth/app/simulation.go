package app

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
)

// simulationFlags are the settings of the controller, for commands that read a hub and decide as it
// does.
type simulationFlags struct {
	plugins framework.Registry
	config  string
	queues  string
}

func (f *simulationFlags) add(cmd *cobra.Command) {
	addConfigFlag(cmd, &f.config)
	cmd.Flags().StringVar(&f.queues, "queue-config", localQueueConfig.String(), "ConfigMap with the queues, as NAMESPACE/NAME; read only if Placements have the condition QueueAdmitted")
}

// settings are those of the controller.
func (f *simulationFlags) settings(ctx context.Context) (simulator.Options, error) {
	configuration, err := loadConfig(ctx, f.config, f.plugins)
	return simulator.Options{UserLabel: os.Getenv(identity.UserLabelEnv), Config: configuration, Plugins: f.plugins}, err
}

// read lists the objects that decisions depend on.
func (f *simulationFlags) read(ctx context.Context, hub client.Reader) (simulator.Objects, error) {
	queues, err := parseQueueConfig(f.queues)
	if err != nil {
		return nil, err
	}
	return simulator.ReadHub(ctx, hub, queues)
}
