package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/berth-dev/berth/pkg/explore"
	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/pkg/simulator"
)

// shutdownAfter is how long open requests may take once the command is stopped.
const shutdownAfter = 2 * time.Second

type exploreOptions struct {
	simulation simulationFlags
	hub        hubFlags
	address    string
	domains    string
	recording  string
	// inCluster serves viewers who bring a bearer token each.
	inCluster bool
}

func newExploreCommand(plugins framework.Registry) *cobra.Command {
	o := exploreOptions{simulation: simulationFlags{plugins: plugins}}
	cmd := &cobra.Command{
		Use:   "explore",
		Short: "Show the fleet in a browser: a matrix of clusters and Placements, and why each cluster was or was not selected",
		Long: `Show the fleet in a browser: a matrix of clusters and Placements, and why each cluster was or was not selected.

explore prints a URL and serves it until Ctrl-C. It watches the hub as the kubeconfig's user, and decides the Placements that are shown with
the same engine as the controller.

The URL contains a token that changes with every start. Only this machine can use it. To use it from another machine, forward the port:
ssh -L 8001:127.0.0.1:8001 HOST

With --in-cluster it serves many people behind a reverse proxy, which must add the header Authorization with the bearer token of each of them.
Everything is read, watched and written with that token, and never with permissions of the server: it has none. The address of the hub is that
of the pod's cluster, or of --kubeconfig, whose credentials are not used. At most 20 people can use it at a time.`,
		Example: `  berth explore
  berth explore --context production --address 127.0.0.1:0
  berth explore --domains label:region
  berth explore --recording .berth/recording
  berth explore --in-cluster --address 0.0.0.0:8001`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			by, err := o.key()
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), by, cmd.OutOrStdout())
		},
	}
	o.hub.add(cmd)
	cmd.Flags().StringVar(&o.address, "address", "127.0.0.1:8001", "loopback host:port to listen on; port 0 selects a free port; with --in-cluster any host:port (default there: 0.0.0.0:8001)")
	cmd.Flags().BoolVar(&o.inCluster, "in-cluster", false, "serve people behind a reverse proxy that adds their bearer tokens")
	cmd.Flags().StringVar(&o.domains, "domains", "", "show which domains Placements can lose, by a property of clusters: "+resilience.Syntax)
	complete(cmd, "domains", cobra.FixedCompletions(domainKinds, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	cmd.Flags().StringVar(&o.recording, "recording", "", "folder of a recording, to show the fleet as it was at any time; without a kubeconfig, only that is shown")
	o.simulation.add(cmd)
	return cmd
}

// check returns an error for flags that do not go together.
// credentialFlags are the flags that say who the user is.
var credentialFlags = []string{"as", "as-group", "as-uid", "as-user-extra", "client-certificate", "client-key", "token", "user"}

// changedOf returns the first of the flags that is set; empty if none is.
func changedOf(cmd *cobra.Command, flags []string) string {
	for _, name := range flags {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

func (o *exploreOptions) check(cmd *cobra.Command) error {
	switch {
	case !o.inCluster && !onLoopback(o.address):
		return usagef("--address: %q must be host:port with a loopback address, such as 127.0.0.1:8001, because connections are not encrypted", o.address)
	case !o.inCluster:
		return nil
	case o.recording != "":
		return usagef("--recording cannot be used with --in-cluster: a recording has what not everybody may see")
	case changedOf(cmd, credentialFlags) != "":
		return usagef("--%s cannot be used with --in-cluster: everybody brings a bearer token", changedOf(cmd, credentialFlags))
	case !cmd.Flags().Changed("address"):
		o.address = "0.0.0.0:8001"
	}
	if _, _, err := net.SplitHostPort(o.address); err != nil {
		return usagef("--address: %q must be host:port", o.address)
	}
	return nil
}

// key returns the key of --domains; nil without the flag.
func (o *exploreOptions) key() (*resilience.Key, error) {
	if o.domains == "" {
		return nil, nil
	}
	key, err := resilience.ParseKey(o.domains)
	if err != nil {
		return nil, usagef("--domains: %w", err)
	}
	return &key, nil
}

func (o *exploreOptions) run(ctx context.Context, by *resilience.Key, out io.Writer) error {
	options, err := o.simulation.settings(ctx)
	if err != nil {
		return err
	}
	// The page says what is wrong with the hub.
	ctrllog.SetLogger(logr.Discard())
	pages, err := o.server(ctx, options)
	if err != nil {
		return err
	}
	pages.By = by
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.address)
	if err != nil {
		return fmt.Errorf("listening on %s: %w (--address sets another port; 0 selects a free one)", o.address, err)
	}
	if o.inCluster {
		say(out, "Listening on %s for requests with a bearer token.\nCtrl-C stops it.\n", listener.Addr())
		return serveUntil(ctx, listener, pages)
	}
	say(out, "Open http://%s%s\nCtrl-C stops it.\n", listener.Addr(), pages.Path())
	return serveUntil(ctx, listener, pages)
}

// server returns the server for the kubeconfig's user, or for everybody with a bearer token.
func (o *exploreOptions) server(ctx context.Context, options simulator.Options) (*explore.Server, error) {
	if o.inCluster {
		cfg, err := o.sharedHub()
		if err != nil {
			return nil, err
		}
		return explore.NewSharedServer(ctx, options, cfg, o.readQueues), nil
	}
	viewer, err := o.viewer(ctx, options)
	if err != nil {
		return nil, err
	}
	return explore.NewServer(options, viewer), nil
}

// podCA is where a pod has the certificate of its cluster.
const podCA = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt"

// sharedHub returns the hub of --in-cluster, without credentials. It does not need the token of the
// pod's service account.
func (o *exploreOptions) sharedHub() (*rest.Config, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if *o.hub.config.KubeConfig == "" && *o.hub.config.Context == "" && *o.hub.config.APIServer == "" && host != "" && port != "" {
		return &rest.Config{Host: "https://" + net.JoinHostPort(host, port), TLSClientConfig: rest.TLSClientConfig{CAFile: podCA}}, nil
	}
	cfg, err := connect(o.hub.config.ToRawKubeConfigLoader(), "hub", "kubeconfig")
	if err != nil {
		return nil, err
	}
	return rest.AnonymousClientConfig(cfg), nil
}

// viewer returns the kubeconfig's user, for whom the hub is watched until ctx ends. With a
// recording, there need not be a hub.
func (o *exploreOptions) viewer(ctx context.Context, options simulator.Options) (*explore.Viewer, error) {
	if o.recording != "" {
		r, err := recording.Open(o.recording)
		if err != nil {
			return nil, fmt.Errorf("opening the recording: %w", err)
		}
		r.Close()
	}
	loader := o.hub.config.ToRawKubeConfigLoader()
	cfg, err := connect(loader, "hub", "kubeconfig")
	if err != nil {
		if o.recording != "" && errors.Is(err, errNoKubeconfig) {
			return explore.NewViewer(options, nil, nil, o.recording), nil
		}
		return nil, err
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	follower := explore.Follower{Config: cfg, Context: cmp.Or(*o.hub.config.Context, raw.CurrentContext), Namespace: namespace, Queues: o.readQueues}
	return explore.NewFollowingViewer(ctx, options, follower, o.recording)
}

// readQueues returns the objects of the queues, if Placements have one.
func (o *exploreOptions) readQueues(ctx context.Context, hub client.Client, placements simulator.Objects) (simulator.Objects, error) {
	queues, err := parseQueueConfig(o.simulation.queues)
	if err != nil {
		return nil, err
	}
	return simulator.ReadQueues(ctx, hub, queues, placements)
}

// serveUntil serves until ctx ends, then completes open requests for at most shutdownAfter.
func serveUntil(ctx context.Context, listener net.Listener, handler http.Handler) error {
	return serve(ctx, listener, &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 16})
}

// serve is serveUntil with the limits of a server.
func serve(ctx context.Context, listener net.Listener, server *http.Server) error {
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
		return fmt.Errorf("serving requests: %w", err)
	}
	<-stopped
	return nil
}
