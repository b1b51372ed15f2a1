package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/berth-dev/berth/pkg/generator"
)

type generatorOptions struct {
	kubeconfig string
	address    string
	secure     bool
	certDir    string
	argoCD     string
	log        logOptions
}

func newGeneratorCommand() *cobra.Command {
	o := generatorOptions{}
	cmd := &cobra.Command{
		Use:   "generator",
		Short: "Serve decisions to Argo CD's plugin generator and to the Flux Operator",
		Long: `Serve decisions to Argo CD's plugin generator and to the Flux Operator.

generator watches the hub and writes nothing. It answers POST /api/v1/getparams.execute as Argo CD's plugin generator expects it, and
GET /api/v1/inputs?placement=NAMESPACE/NAME for a ResourceSetInputProvider of type ExternalService. The answer has one entry for each cluster
of the Placement. /healthz, /readyz and, for users who may get that path on the hub, /metrics are served, too.

Every request needs the bearer token of a user of the hub, for example of a service account, who may get placementdecisions in the namespace
of the Placement. The hub's answers about a token are cached for a minute.

Until generator has listed all objects, and after it has lost the hub for some seconds, it answers 503. For a Placement that does not exist it
answers 404, and for one without a decision 503. An empty list means that the Placement selects no cluster.

With --argocd-namespace, the entries have the server of the cluster from Argo CD's cluster secrets. That needs permission to list and watch
the Secrets of that namespace.

Without --kubeconfig it uses the file that KUBECONFIG names, the default kubeconfig, or the service account of its pod.`,
		Example: `  berth generator --address 127.0.0.1:8080
  berth generator --cert-dir /etc/berth/tls --argocd-namespace argocd`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the hub")
	flags.StringVar(&o.address, "address", ":8443", "host:port to listen on; port 0 selects a free port")
	flags.BoolVar(&o.secure, "secure", true, "serve over TLS; the default on a loopback address is false")
	flags.StringVar(&o.certDir, "cert-dir", "", "folder with tls.crt and tls.key (default: a certificate that is generated at start)")
	flags.StringVar(&o.argoCD, "argocd-namespace", "", "namespace of Argo CD's cluster secrets, for the servers of the clusters (default: no servers)")
	addLogFlags(cmd, &o.log)
	return cmd
}

func (o *generatorOptions) check(cmd *cobra.Command) error {
	if _, _, err := net.SplitHostPort(o.address); err != nil {
		return usagef("--address: %q must be host:port", o.address)
	}
	if o.argoCD != "" && len(validation.IsDNS1123Label(o.argoCD)) > 0 {
		return usagef("--argocd-namespace: %q is not a namespace", o.argoCD)
	}
	if !cmd.Flags().Changed("secure") {
		o.secure = !onLoopback(o.address)
	}
	if o.certDir != "" && !o.secure {
		return usagef("--cert-dir requires --secure")
	}
	return o.log.check()
}

func (o *generatorOptions) run(ctx context.Context, out, errors io.Writer) error {
	cfg, err := connect(kubeconfigAt(o.kubeconfig), "hub", "kubeconfig")
	if err != nil {
		return err
	}
	// The reviews of tokens share a connection with nothing else.
	cfg.QPS, cfg.Burst = 50, 200
	logger := logTo(errors, o.log)
	server, err := generator.New(generator.Options{Config: cfg, ArgoCDNamespace: o.argoCD, Log: logger})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.address)
	if err != nil {
		return fmt.Errorf("listening on %s: %w (--address sets another port; 0 selects a free one)", o.address, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	scheme := "http"
	if o.secure {
		settings, watch, err := o.certificates()
		if err != nil {
			listener.Close()
			return err
		}
		running.Go(func() { _ = watch(ctx) })
		listener, scheme = tls.NewListener(listener, settings), "https"
	}
	running.Go(func() { server.Run(ctx) })
	say(out, "Listening on %s://%s for requests with a bearer token.\nCtrl-C stops it.\n", scheme, listener.Addr())
	return serve(ctx, listener, &http.Server{
		Handler: server, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 16,
		// What it would log are errors of clients.
		ErrorLog: log.New(io.Discard, "", 0),
	})
}

// certificates returns the settings of TLS, and a function that follows changes of the files.
func (o *generatorOptions) certificates() (settings *tls.Config, watch func(context.Context) error, err error) {
	settings = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if o.certDir != "" {
		files, err := certwatcher.New(filepath.Join(o.certDir, "tls.crt"), filepath.Join(o.certDir, "tls.key"))
		if err != nil {
			return nil, nil, fmt.Errorf("reading the certificate: %w", err)
		}
		settings.GetCertificate = files.GetCertificate
		return settings, files.Start, nil
	}
	certificate, key, err := certutil.GenerateSelfSignedCertKeyWithFixtures("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil, "")
	if err != nil {
		return nil, nil, fmt.Errorf("generating a certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, nil, fmt.Errorf("generating a certificate: %w", err)
	}
	settings.Certificates = []tls.Certificate{pair}
	return settings, func(context.Context) error { return nil }, nil
}
