package app

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// ocmPlacement is the program of Open Cluster Management's placement controller. Its manifests pass
// the arguments "/placement controller" to the image, whose entrypoint is berth.
const ocmPlacement = "placement"

// ocmLease is the lease of that controller. The two programs decide in turns if both use it.
const ocmLease = "placement-lock"

const ocmExample = `  berth placement controller --kubeconfig hub.kubeconfig --disable-leader-election`

// ocmDefaults are the values of Berth's flags for a hub with Open Cluster Management's registration
// controller: its lease, its probes and no housekeeping.
var ocmDefaults = map[string]string{
	"leader-election-lease": ocmLease, "metrics-bind-address": ":8443", "metrics-secure": "true", "health-probe-bind-address": ":8443", "housekeeping": "",
}

// ocmWithoutEffect are flags of Open Cluster Management's controller that Berth accepts and does
// not use.
var ocmWithoutEffect = []string{
	"kube-api-qps", "kube-api-burst", "terminate-on-files", "leader-election-lease-duration", "leader-election-renew-deadline", "leader-election-retry-period",
	"log-flush-frequency", "vmodule", "v",
}

// newOCMCommand returns the command line of Open Cluster Management's placement controller.
func newOCMCommand(o options) *cobra.Command {
	root := newRoot(o, ocmPlacement, "Run the controller as Open Cluster Management's manifests start their placement controller")
	root.Aliases, root.Hidden, root.Example = []string{"/" + ocmPlacement}, true, ocmExample
	root.AddCommand(newOCMControllerCommand(o.plugins))
	return root
}

// newOCMControllerCommand returns the controller with other defaults, and with the flags of Open
// Cluster Management's beside its own.
func newOCMControllerCommand(plugins framework.Registry) *cobra.Command {
	cmd := newControllerCommand(plugins)
	cmd.Example = ocmExample
	flags := cmd.Flags()
	for name, value := range ocmDefaults {
		if err := flags.Set(name, value); err != nil {
			panic(err) // a mistake in ocmDefaults
		}
		flags.Lookup(name).DefValue = value
	}
	flags.Func("namespace", "namespace of the lease", func(name string) error { return flags.Set("leader-election-namespace", name) })
	flags.Func("listen", "host:port of metrics and probes", func(address string) error {
		return errors.Join(flags.Set("metrics-bind-address", address), flags.Set("health-probe-bind-address", address))
	})
	flags.BoolFunc("disable-leader-election", "decide without a lease", func(value string) error {
		disable, err := strconv.ParseBool(value)
		return errors.Join(err, flags.Set("leader-elect", strconv.FormatBool(!disable)))
	})
	for _, name := range ocmWithoutEffect {
		shorthand := ""
		if len(name) == 1 {
			shorthand = name
		}
		flags.FuncP(name, shorthand, "no effect", func(string) error {
			say(cmd.ErrOrStderr(), "--%s has no effect in Berth.\n", name)
			return nil
		})
	}
	return cmd
}
