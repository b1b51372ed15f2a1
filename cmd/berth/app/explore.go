package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/pkg/explore"
	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/pkg/tenancy/identity"
)

// shutdownAfter is how long open requests may take once the command is stopped.
const shutdownAfter = 2 * time.Second

type exploreOptions struct {
	plugins framework.Registry
	hub     hubFlags
	address string
	config  string
	queues  string
	by      string
}

func newExploreCommand(plugins framework.Registry) *cobra.Command {
	o := exploreOptions{plugins: plugins}
	cmd := &cobra.Command{
		Use:   "explore",
		Short: "Show the fleet in a browser: a matrix of clusters and Placements, and why each cluster was or was not selected",
		Long: `Show the fleet in a browser: a matrix of clusters and Placements, and why each cluster was or was not selected.

explore prints a URL and serves it until Ctrl-C. Each time the browser loads it, explore reads the hub as the kubeconfig's user and decides
every Placement again with the same engine as the controller. It writes nothing.

The URL contains a token that changes with every start. Only this machine can use it. To use it from another machine, forward the port:
ssh -L 8001:127.0.0.1:8001 HOST`,
		Example: `  berth explore
  berth explore --context production --address 127.0.0.1:0
  berth explore --resilience label:region`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !onLoopback(o.address) {
				return usagef("--address: %q must be host:port with a loopback address, such as 127.0.0.1:8001, because connections are not encrypted", o.address)
			}
			by, err := o.key()
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), by, cmd.OutOrStdout())
		},
	}
	o.hub.add(cmd)
	cmd.Flags().StringVar(&o.address, "address", "127.0.0.1:8001", "loopback host:port to listen on; port 0 selects a free port")
	cmd.Flags().StringVar(&o.by, "resilience", "", "show which domains Placements can lose, by a property of clusters: "+resilience.Syntax)
	complete(cmd, "resilience", cobra.FixedCompletions(domainKinds, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	addConfigFlag(cmd, &o.config)
	addQueuesFlag(cmd, &o.queues)
	return cmd
}

// key returns the key of --resilience; nil without the flag.
func (o *exploreOptions) key() (*resilience.Key, error) {
	if o.by == "" {
		return nil, nil
	}
	key, err := resilience.ParseKey(o.by)
	if err != nil {
		return nil, usagef("--resilience: %w", err)
	}
	return &key, nil
}

func (o *exploreOptions) run(ctx context.Context, by *resilience.Key, out io.Writer) error {
	configuration, err := loadConfig(ctx, o.config, o.plugins)
	if err != nil {
		return err
	}
	hub, _, err := o.hub.connect()
	if err != nil {
		return err
	}
	read := func(ctx context.Context) (simulator.Objects, error) {
		objects, err := readHub(ctx, hub)
		if err == nil {
			err = readHubQueues(ctx, hub, o.queues, &objects)
		}
		return objects, err
	}
	pages := explore.NewServer(read, simulator.Options{UserLabel: os.Getenv(identity.UserLabelEnv), Config: configuration, Plugins: o.plugins})
	pages.By = by
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.address)
	if err != nil {
		return fmt.Errorf("listening on %s: %w (--address sets another port; 0 selects a free one)", o.address, err)
	}
	say(out, "Open http://%s%s\nCtrl-C stops it.\n", listener.Addr(), pages.Path())
	return serveUntil(ctx, listener, pages)
}

// serveUntil serves until ctx ends, then completes open requests for at most shutdownAfter.
func serveUntil(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 16}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.Background(), shutdownAfter)
		defer cancel()
		if server.Shutdown(grace) != nil {
			server.Close()
		}
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the page: %w", err)
	}
	<-stopped
	return nil
}
