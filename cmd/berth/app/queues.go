package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/pkg/boundedfile"
	"github.com/berth-dev/berth/pkg/tenancy"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
	"github.com/berth-dev/berth/pkg/tenancy/queueconfig"
)

func newQueuesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queues",
		Short: "Validate a queue configuration, and show in which queue it places a Placement",
		Long: `Validate a queue configuration, and show in which queue it places a Placement.

On a hub, the configuration is in the key queues.yaml of a ConfigMap. The commands need no hub and write nothing.`,
		Example: `  berth queues check -f queues.yaml
  berth queues place -f queues.yaml --user ann --group dev`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newQueuesCheckCommand(), newQueuesPlaceCommand())
	return cmd
}

type placeOptions struct {
	file     string
	user     string
	groups   []string
	queue    string
	tags     []string
	existing []string
	output   string
}

func newQueuesPlaceCommand() *cobra.Command {
	o := placeOptions{}
	cmd := &cobra.Command{
		Use:   "place -f FILE|- --user USER",
		Short: "Show the queue of a submission, the rule that matches, and why earlier rules do not match",
		Long: `Show the queue of a submission, the rule that matches, and why earlier rules do not match.

Without --group, the usergroupresolver of the configuration provides the groups: by default one group with the name of the user. If no
rule matches, the submission is rejected; the exit code is 0 then, too.`,
		Example: `  berth queues place -f queues.yaml --user ann --group dev --queue root.dev`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("user") {
				return usagef("--user is required")
			}
			return o.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.file, "filename", "f", "", "queue configuration to read, or a ConfigMap with one; - for standard input")
	flags.StringVar(&o.user, "user", "", "user who submits; required")
	flags.StringArrayVar(&o.groups, "group", nil, "group of the user; repeatable")
	flags.StringVar(&o.queue, "queue", "", "requested queue")
	flags.StringArrayVar(&o.tags, "tag", nil, "tag of the submission, as NAME=VALUE; repeatable")
	flags.StringArrayVar(&o.existing, "existing", nil, "dynamic queue that exists already, such as root.a.b; repeatable")
	flags.StringVarP(&o.output, "output", "o", "text", "text or json")
	return cmd
}

func (o *placeOptions) run(cmd *cobra.Command) error {
	if o.output != "text" && o.output != "json" {
		return usagef("-o: %q is not one of text, json", o.output)
	}
	request := tenancy.Request{User: o.user, Groups: o.groups, Queue: o.queue, Tags: map[string]string{}}
	for _, tag := range o.tags {
		name, value, ok := strings.Cut(tag, "=")
		if !ok || name == "" {
			return usagef("--tag: %s is not NAME=VALUE", tenancy.Quote(tag))
		}
		request.Tags[name] = value
	}
	members := tenancy.NewMembers()
	for _, queue := range o.existing {
		if !tenancy.LegalQueueName(queue) {
			return usagef("--existing: %s is not the name of a queue, such as root.a.b, of at most %d levels and %d characters",
				tenancy.Quote(queue), tenancy.MaxQueueLevels, tenancy.MaxQueueLength)
		}
		members.Add(tenancy.Application{Queue: queue})
	}
	config, err := readQueues(o.file, cmd.InOrStdin(), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if len(o.groups) == 0 {
		if request.Groups, err = groupsOf(config, o.user); err != nil {
			return err
		}
	}
	placed, err := config.Tree.Place(request, members)
	if rejected := (*tenancy.Rejected)(nil); errors.As(err, &rejected) {
		return o.printRejected(cmd.OutOrStdout(), rejected.Reasons)
	} else if err != nil {
		return err
	}
	return o.printPlaced(cmd.OutOrStdout(), placed)
}

func groupsOf(config *queueconfig.Config, user string) ([]string, error) {
	resolver, err := identity.NewGroupResolver(config.Resolver, time.Now)
	if err != nil {
		return nil, err
	}
	resolved, err := resolver.Resolve(identity.Identity{User: user})
	if err != nil {
		return nil, fmt.Errorf("finding the groups of user %s: %w", tenancy.Cut(user), err)
	}
	return resolved.Groups, nil
}

// readQueues reads a queue configuration and prints its warnings to warn.
func readQueues(file string, in io.Reader, warn io.Writer) (*queueconfig.Config, error) {
	text, err := readQueueFile(&file, in)
	if err != nil {
		return nil, err
	}
	config, warnings, err := queueconfig.Parse(text)
	for _, warning := range warnings {
		say(warn, "warning: %s: %s\n", file, warning)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not a valid queue configuration:\n%w", file, err)
	}
	return config, nil
}

// readQueueFile reads the queues in a file, or in a ConfigMap in it. It replaces the file name - by
// words for messages.
func readQueueFile(file *string, in io.Reader) (text []byte, err error) {
	switch *file {
	case "":
		return nil, usagef("-f is required")
	case "-":
		*file = "standard input"
		text, err = boundedfile.ReadAll(in, *file, maxConfig)
	default:
		text, err = boundedfile.ReadFile(*file, maxConfig)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the queue configuration: %w", err)
	}
	if text, err = queuesText(text); err != nil {
		return nil, fmt.Errorf("%s: %w", *file, err)
	}
	return text, nil
}

func (o *placeOptions) printPlaced(out io.Writer, placed tenancy.Placed) error {
	if o.output == "json" {
		return json.NewEncoder(out).Encode(struct {
			Queue string `json:"queue"`
			Rule  string `json:"rule"`
		}{placed.Queue, placed.Rule})
	}
	dynamic := ""
	if !placed.Configured {
		dynamic = " (dynamic)"
	}
	say(out, "%s%s, by rule %d (%s)\n", placed.Queue, dynamic, len(placed.Reasons)+1, placed.Rule)
	return printReasons(out, placed.Reasons)
}

func (o *placeOptions) printRejected(out io.Writer, reasons []string) error {
	if o.output == "json" {
		return json.NewEncoder(out).Encode(struct {
			Rejected bool     `json:"rejected"`
			Reasons  []string `json:"reasons"`
		}{true, reasons})
	}
	say(out, "rejected: no placement rule matched\n")
	return printReasons(out, reasons)
}

func printReasons(out io.Writer, reasons []string) error {
	for _, reason := range reasons {
		if err := say(out, "  %s\n", reason); err != nil {
			return err
		}
	}
	return nil
}
