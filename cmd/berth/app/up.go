package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/berth-dev/berth/cmd/berth/localhub"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/install"
	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
)

// controllerPatience is how long the controller may take to stop before the hub stops.
const controllerPatience = 10 * time.Second

type upOptions struct {
	plugins framework.Registry
	config  string
	// configuration is the content of the file config.
	configuration *config.PlacementSchedulerConfiguration
	dataDir       string
	samples       bool
	queueFile     string
	log           logOptions
	record        recordOptions
	// queues is from the file queueFile, or from an earlier start on this hub; nil without
	// either.
	queues *localQueues
	// webhooks are the address and certificate of the admission webhooks.
	webhooks *webhook.Options
}

func newUpCommand(plugins framework.Registry) *cobra.Command {
	o := upOptions{plugins: plugins}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run a hub and the controller on this machine",
		Long: `Run a hub and the controller on this machine.

up needs Linux or macOS. It starts etcd and kube-apiserver, installs the CRDs and roles and runs the controller, until Ctrl-C stops all of them. It listens on loopback
addresses only. All data is in the data directory: a later start with the same directory continues with it, and does not change samples that exist. To start
afresh, stop the hub and delete the directory: rm -rf .berth`,
		Example: `  berth up --samples`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.dataDir == "" {
				return usagef("--data-dir must not be empty")
			}
			if err := o.record.check(); err != nil {
				return err
			}
			if err := o.log.check(); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&o.dataDir, "data-dir", ".berth", "folder for the data, the kubeconfig and the logs")
	addConfigFlag(cmd, &o.config)
	cmd.Flags().StringVar(&o.queueFile, "queue-file", "",
		"file with the queues: a queues.yaml, or a ConfigMap with that key; every Placement then needs a queue, and gets an annotation with its submitter, also after later starts")
	o.record.addFlags(cmd, "folder for the recording of all decisions and what they depend on, for berth replay; none records nothing (default: recording in the data directory)")
	addLogFlags(cmd, &o.log)
	cmd.Flags().BoolVar(&o.samples, "samples", false, "apply the sample fleet and Placements and print their decisions; objects that exist are not changed")
	return cmd
}

// run returns nil if ctx ends after everything has started, and an error in any other case.
func (o *upOptions) run(ctx context.Context, out io.Writer) error {
	var err error
	if o.configuration, err = loadConfig(ctx, o.config, o.plugins); err != nil {
		return err
	}
	if o.queues, err = readLocalQueues(o.queueFile); err != nil {
		return err
	}
	hub, err := localhub.Start(ctx, localhub.Options{DataDir: o.dataDir, Out: out})
	if err != nil {
		return err
	}
	defer hub.Stop()

	// A signal, the end of a hub process or the end of the controller stops all others.
	running, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		<-hub.Done()
		end(hub.Err())
	}()

	err = o.serve(running, end, hub, out)
	if ctx.Err() == nil {
		// A hub process may have died and the hub may be stopping. Its error is known once it has
		// stopped.
		hub.Stop()
	}
	switch {
	case hub.Err() != nil:
		return hub.Err() // the cause of any other error
	case ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
		say(out, "Stopping…\n")
		return nil
	default:
		return err
	}
}

// serve runs everything that needs a running hub, until ctx ends. It stops the controller before it
// returns.
func (o *upOptions) serve(ctx context.Context, end context.CancelCauseFunc, hub *localhub.Hub, out io.Writer) error {
	if err := o.install(ctx, hub, out); err != nil {
		return err
	}
	// Samples come before the controller, so that it decides with the whole fleet. Decisions on a
	// growing fleet differ from the samples' comments, because Placements may prefer the clusters
	// they have. With queues, samples come after the controller, which records their submitter at
	// admission.
	var placements []types.NamespacedName
	var err error
	if o.queues == nil {
		if err := o.awaitPolicies(ctx, hub); err != nil {
			return err
		}
		if placements, err = o.applySamples(ctx, hub.Config(), out); err != nil {
			return err
		}
	}
	stopped, err := o.startController(ctx, end, hub)
	if err != nil {
		return err
	}
	defer func() {
		end(nil)
		select {
		case <-stopped:
		case <-time.After(controllerPatience):
		}
	}()
	if err := o.awaitAdmission(ctx, hub); err != nil {
		return err
	}
	kubeconfig := filepath.Join(o.dataDir, "kubeconfig")
	say(out, "The hub is up at %s; its kubeconfig is %s.\n", hub.Config().Host, kubeconfig)
	if o.queues != nil {
		say(out, "Placements go to the queues of %s; the ConfigMap is %s.\n", o.queues.from, localQueueConfig)
		if placements, err = o.applySamples(ctx, hub.Config(), out); err != nil {
			return err
		}
	}
	if o.samples {
		if placements, err = printDecisions(ctx, hub.Config(), placements, out); err != nil {
			return err
		}
	}
	if err := o.complete(ctx, hub, kubeconfig, placements, out); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// complete waits for the programs that the commands for another terminal need, and prints these.
func (o *upOptions) complete(ctx context.Context, hub *localhub.Hub, kubeconfig string, placements []types.NamespacedName, out io.Writer) error {
	if err := hub.Complete(ctx, out); err != nil {
		return err
	}
	kubeconfig, err := filepath.Abs(kubeconfig)
	if err != nil {
		return err
	}
	path, err := localhub.SearchPath()
	if err != nil {
		return err
	}
	printNext(out, kubeconfig, path, o.dataDir, placements)
	return nil
}

// awaitPolicies waits until the API server's admission policies work.
func (o *upOptions) awaitPolicies(ctx context.Context, hub *localhub.Hub) error {
	namespace := metav1.NamespaceDefault
	if o.queues != nil {
		namespace = localQueueConfig.Namespace
	}
	return install.AwaitAdmissionPolicies(ctx, hub.Config(), namespace)
}

// awaitAdmission waits until the admission policies and the webhooks of the controller work.
func (o *upOptions) awaitAdmission(ctx context.Context, hub *localhub.Hub) error {
	if err := o.awaitPolicies(ctx, hub); err != nil {
		return err
	}
	if err := install.AwaitValidationWebhooks(ctx, hub.Config()); err != nil || o.queues == nil {
		return err
	}
	return install.AwaitQueueWebhooks(ctx, hub.Config(), localQueueConfig.Namespace, identity.UserInfoAnnotation)
}

// install installs on the hub what the controller needs. Webhooks come before the kind that they
// guard.
func (o *upOptions) install(ctx context.Context, hub *localhub.Hub, out io.Writer) error {
	if err := o.prepareWebhooks(ctx, hub); err != nil {
		return err
	}
	if err := installCRDs(ctx, hub.Config(), out); err != nil {
		return err
	}
	if err := install.Roles(ctx, hub.Config()); err != nil {
		return err
	}
	return install.AdmissionPolicies(ctx, hub.Config())
}

// startController runs the controller until ctx ends. It logs to a file of the hub, because the
// terminal is for the user. If the controller ends by itself, end is called with the reason.
func (o *upOptions) startController(ctx context.Context, end context.CancelCauseFunc, hub *localhub.Hub) (stopped <-chan struct{}, err error) {
	log, err := hub.OpenLog("controller")
	if err != nil {
		return nil, fmt.Errorf("opening the controller's log: %w", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer log.Close()
		options := controllers.Options{
			MetricsAddress: "0", HealthAddress: "0", Housekeeping: []string{"*"}, Config: o.configuration, Plugins: o.plugins, Webhooks: o.webhooks,
			Recording: o.record.in(o.dataDir),
		}
		if o.queues != nil {
			options.QueueConfig = localQueueConfig
		}
		err := startManager(ctx, hub.Config(), log, o.log, o.config, options)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			end(err)
		default:
			end(errors.New("the controller stopped by itself"))
		}
	}()
	return done, nil
}

// printNext prints commands for another terminal. Its PATH begins with the folders in path.
func printNext(out io.Writer, kubeconfig string, path []string, dataDir string, placements []types.NamespacedName) {
	commands := []string{"get managedclusters", "get placements --all-namespaces", "explain placement.spec"}
	if len(placements) > 0 {
		p := placements[0]
		for _, candidate := range placements {
			if candidate.Name == "demo" {
				p = candidate
			}
		}
		commands = []string{
			"get placements --all-namespaces",
			"describe placement " + actions.ShellQuote(p.Name) + " -n " + actions.ShellQuote(p.Namespace),
			"describe placementdecision " + actions.ShellQuote(p.Name+"-decision-1") + " -n " + actions.ShellQuote(p.Namespace),
		}
	}
	var folders strings.Builder
	for _, folder := range path {
		folders.WriteString(actions.ShellQuote(folder) + ":")
	}
	say(out, "\nTry in another terminal:\n")
	say(out, "  export KUBECONFIG=%s PATH=%s$PATH\n", actions.ShellQuote(kubeconfig), folders.String())
	for _, command := range commands {
		say(out, "  kubectl %s\n", command)
	}
	say(out, "\nCtrl-C stops the hub; its data stays. To start afresh, stop it and delete its data: rm -rf %s\n", actions.ShellQuote(dataDir))
}
