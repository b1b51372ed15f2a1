package app

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/berth-dev/berth/pkg/actions"
	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Option changes what NewCommand builds.
type Option func(*options)

type options struct {
	plugins framework.Registry
	err     error
}

// WithPlugin adds a plugin that is not in the tree. It runs only where the scheduler's
// configuration enables it. If another plugin has the name, every command fails.
func WithPlugin(name string, factory framework.PluginFactory) Option {
	return func(o *options) { o.err = errors.Join(o.err, o.plugins.Register(name, factory)) }
}

// NewCommand returns the command line, for Run. Under the program name of kubectl's plugin, it is
// that of NewKubectlCommand; under placement, that of Open Cluster Management's controller.
func NewCommand(opts ...Option) *cobra.Command {
	if name := programName(); name == kubectlPlugin || name == kubectlCompletion {
		return NewKubectlCommand(opts...)
	}
	o := optionsOf(opts)
	ocm := newOCMCommand(o)
	if programName() == ocmPlacement {
		markFailures(ocm)
		return ocm
	}
	root := newRoot(o, "berth", "Berth selects clusters for Placements and keeps the published decisions up to date")
	root.AddCommand(verbs(o)...)
	root.AddCommand(
		newAddClusterCommand(),
		newArgoCDClustersCommand(),
		newControllerCommand(o.plugins),
		newExploreCommand(o.plugins),
		newGeneratorCommand(),
		ocm,
		newQueuesCommand(),
		newReplayCommand(o.plugins),
		newReportCommand(),
		newUpCommand(o.plugins),
	)
	addGroups(root)
	markFailures(root)
	showStages(root)
	addExits(root)
	wrapHelp(root)
	return root
}

// verbs are the commands that berth and kubectl placement share.
func verbs(o options) []*cobra.Command {
	return []*cobra.Command{
		newAnswerCommand(actions.Approve),
		newAnswerCommand(actions.Reject),
		newDrainCommand(o.plugins),
		newUndrainCommand(o.plugins),
		newEvictCommand(o.plugins),
		newSuspendCommand(),
		newResumeCommand(),
		newDiffCommand(o.plugins),
		newExplainCommand(o.plugins),
		newHistoryCommand(),
		newResilienceCommand(o.plugins),
		newSimulateCommand(o.plugins),
		newStatusCommand(),
		newTopCommand(),
		newPinCommand(o.plugins),
		newUndoCommand(o.plugins),
		newUnpinCommand(o.plugins),
		newVersionCommand(),
	}
}

// noArguments is cobra's check, with a message that needs no knowledge of cobra.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes flags only, not %q", cmd.CommandPath(), args[0])
	}
	return nil
}

func optionsOf(opts []Option) options {
	o := options{plugins: framework.Registry{}}
	for _, opt := range opts {
		opt(&o)
	}
	o.err = errors.Join(o.err, builtin.Registry().Merge(o.plugins))
	return o
}

// newRoot returns a command line without subcommands.
func newRoot(o options, use, short string) *cobra.Command {
	root := &cobra.Command{
		Use:   use,
		Short: short,
		Example: `  berth explain web -n shop
  berth status -A
  berth diff -f placement.yaml
  berth simulate -f fleet.yaml -f placement.yaml`,
		Args: unknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		// This applies to every command, because no subcommand has its own.
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if o.err != nil {
				return &failure{o.err}
			}
			return nil
		},
		// Run prints the error itself.
		SilenceErrors:      true,
		SilenceUsage:       true,
		DisableSuggestions: true,
	}
	root.SetFlagErrorFunc(flagError)
	root.SetUsageFunc(usage)
	return root
}

// Run runs a command line and returns the exit code (exits.go). args exclude the program's name.
// Errors go to stderr. SIGINT, SIGTERM or SIGHUP ends the command's context; a second signal ends
// the process at once.
func Run(root *cobra.Command, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop)

	if programName() == kubectlCompletion {
		args = append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	root.SetArgs(args)
	root.SetOut(escaping(root.OutOrStdout()))
	root.SetErr(escaping(root.ErrOrStderr()))
	// Log lines of libraries contain texts of other users, too.
	klog.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(root.ErrOrStderr()))))
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if result := (*outcome)(nil); errors.As(err, &result) {
		return result.code
	}
	// The indent keeps further lines of a message from looking like separate messages.
	message := strings.ReplaceAll(withRoles(err.Error()), "\n", "\n  ")
	if failed := (*failure)(nil); errors.As(err, &failed) {
		cmd.PrintErrf("%s: %s\n", root.DisplayName(), message)
		return exitFailure
	}
	cmd.PrintErrf("%s: %s (see %s --help)\n", root.DisplayName(), message, cmd.CommandPath())
	return exitUsage
}

// failure is an error of a command that was called with correct usage.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

// usageError is an error of RunE about its arguments.
type usageError struct{ error }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// markFailures wraps the errors of commands in failure, to tell them from usage errors. cobra has
// no type for those; it reports unknown commands, invalid flags and missing arguments before RunE.
func markFailures(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			if usage := (*usageError)(nil); err == nil || errors.As(err, new(*outcome)) || errors.As(err, &usage) {
				return err
			}
			return &failure{err}
		}
	}
	for _, sub := range cmd.Commands() {
		markFailures(sub)
	}
}
