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

	"github.com/berth-dev/berth/pkg/builtin"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Exit codes of every command; only a comparison has the last.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitChanges = 3
)

// errChanges is no failure: the command did its work, and found that something changes.
var errChanges = errors.New("something changes")

// Option changes what NewCommand builds.
type Option func(*options)

type options struct {
	plugins framework.Registry
	err     error
}

// WithPlugin lets the scheduler's configuration name a plugin that is not in the tree. It runs
// where the configuration enables it, and nowhere else. A name that is taken, in the tree too, is
// an error that every command ends with.
func WithPlugin(name string, factory framework.PluginFactory) Option {
	return func(o *options) { o.err = errors.Join(o.err, o.plugins.Register(name, factory)) }
}

// NewCommand returns the command line, to be given to Run. Under the plugin's program name it is
// that of NewKubectlCommand.
func NewCommand(opts ...Option) *cobra.Command {
	if name := programName(); name == kubectlPlugin || name == kubectlCompletion {
		return NewKubectlCommand(opts...)
	}
	o := optionsOf(opts)
	root := newRoot(o, "berth", "Berth decides which clusters a Placement goes to, and keeps the answer true")
	root.AddCommand(
		newControllerCommand(o.plugins),
		newExplainCommand(o.plugins),
		newExploreCommand(o.plugins),
		newQueuesCommand(),
		newReportCommand(),
		newSimulateCommand(o.plugins),
		newUpCommand(o.plugins),
		newVersionCommand(),
	)
	markFailures(root)
	return root
}

// noArguments and onePlacement are cobra's checks in words for somebody who does not know its
// terms.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes flags only, not %q", cmd.CommandPath(), args[0])
	}
	return nil
}

func onePlacement(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%s takes the name of one Placement, not %d arguments", cmd.CommandPath(), len(args))
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

// newRoot is a command line without commands yet.
func newRoot(o options, use, short string) *cobra.Command {
	return &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		// For every command; none has another.
		PersistentPreRunE: func(*cobra.Command, []string) error {
			if o.err != nil {
				return &failure{o.err}
			}
			return nil
		},
		// Run prints the one line there is to say.
		SilenceErrors:      true,
		SilenceUsage:       true,
		DisableSuggestions: true,
	}
}

// Run runs a command line from NewCommand with the arguments after the program's name and returns
// the exit code: 0, 1 for a failure, 2 for wrong usage, 3 when a comparison found changes. An error
// is one message on stderr. The command's context ends with SIGINT, SIGTERM or SIGHUP; a second
// signal ends the process at once.
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
	// What libraries log is the text of others, too.
	klog.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(root.ErrOrStderr()))))
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if errors.Is(err, errChanges) {
		return exitChanges
	}
	// Indented, no further line of a message looks like a message of its own.
	message := strings.ReplaceAll(err.Error(), "\n", "\n  ")
	if failed := (*failure)(nil); errors.As(err, &failed) {
		cmd.PrintErrf("%s: %s\n", root.DisplayName(), message)
		return exitFailure
	}
	cmd.PrintErrf("%s: %s (see %s --help)\n", root.DisplayName(), message, cmd.CommandPath())
	return exitUsage
}

// failure is an error of a command that was called correctly.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

// usageError is what a RunE returns for arguments that only it can judge.
type usageError struct{ error }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// markFailures tells the errors of commands from those of cobra, which has no type for them: it
// reports unknown commands, bad flags and missing arguments before a RunE is called.
func markFailures(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := run(cmd, args)
			if usage := (*usageError)(nil); err == nil || errors.Is(err, errChanges) || errors.As(err, &usage) {
				return err
			}
			return &failure{err}
		}
	}
	for _, sub := range cmd.Commands() {
		markFailures(sub)
	}
}
