package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/controllers"
	"github.com/berth-dev/berth/controllers/housekeeping"
	"github.com/berth-dev/berth/pkg/admission"
	"github.com/berth-dev/berth/pkg/install"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// The values of --cluster-profile-names.
const (
	plainNames     = "plain"
	qualifiedNames = "qualified"
)

type controllerOptions struct {
	plugins        framework.Registry
	kubeconfig     string
	config         string
	leaderElection bool
	leaseNamespace string
	lease          string
	metrics        string
	metricsSecure  bool
	metricsCertDir string
	health         string
	pprof          string
	workers        int
	checkSkips     bool
	installCRDs    bool
	housekeeping   []string
	profiles       housekeeping.ClusterProfileOptions
	profileNames   string
	queueConfig    string
	webhookCertDir string
	webhookClients string
	webhookPort    int
	tls            tlsOptions
	record         recordOptions
	log            logOptions
}

func newControllerCommand(plugins framework.Registry) *cobra.Command {
	o := controllerOptions{plugins: plugins}
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run the controller against a hub",
		Long: `Run the controller against a hub.

Without --kubeconfig it uses the file that KUBECONFIG names, the default kubeconfig, or the service account of its pod.`,
		Example: `  berth controller --kubeconfig hub.kubeconfig --leader-elect=false --install-crds`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("metrics-secure") {
				o.metricsSecure = !onLoopback(o.metrics)
			}
			if err := o.check(); err != nil {
				return err
			}
			return o.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the hub")
	addConfigFlag(cmd, &o.config)
	flags.BoolVar(&o.leaderElection, "leader-elect", true, "decide only while this replica holds the lease, so that several replicas can run")
	flags.StringVar(&o.leaseNamespace, "leader-election-namespace", "", "namespace of the lease (default: the pod's, or the kubeconfig's)")
	flags.StringVar(&o.lease, "leader-election-lease", "berth.berth.dev",
		"name of the lease; placement-lock is that of Open Cluster Management's placement controller, which then never decides at the same time")
	flags.StringVar(&o.metrics, "metrics-bind-address", "0", "host:port of the metrics endpoint; 0 switches it off")
	flags.BoolVar(&o.metricsSecure, "metrics-secure", true,
		"serve metrics over TLS, and only to users with permission to get /metrics on the hub; the default on a loopback address is false")
	flags.StringVar(&o.metricsCertDir, "metrics-cert-dir", "",
		"folder with tls.crt and tls.key for the metrics endpoint (default: a certificate that is generated at start)")
	flags.StringVar(&o.health, "health-probe-bind-address", ":8081", "host:port of /healthz and /readyz; 0 switches it off; that of the metrics adds them there")
	flags.StringVar(&o.pprof, "pprof-address", "0", "host:port of Go's profiles, which can contain data of the controller; 0 switches it off")
	flags.IntVar(&o.workers, "workers", 16, "number of Placements that are published at the same time, at least 1")
	flags.BoolVar(&o.checkSkips, "check-skips", false,
		"run attempts that are skipped because they cannot change the answer all the same, and log an error if one of them would change it")
	flags.StringSliceVar(&o.housekeeping, "housekeeping", []string{"*"},
		"controllers that maintain cluster sets and clusters, in order: * for all (for none on CRDs of Open Cluster Management), NAME to add one, -NAME to remove one; for example *,-clusterset; only its name adds cluster-profile")
	flags.StringSliceVar(&o.profiles.Namespaces, "cluster-profile-namespace", nil,
		"namespaces with ClusterProfiles (multicluster.x-k8s.io), of which --housekeeping=cluster-profile makes ManagedClusters")
	flags.StringVar(&o.profileNames, "cluster-profile-names", plainNames,
		"names of the ManagedClusters of ClusterProfiles: plain, as the ClusterProfile, or qualified, NAMESPACE.NAME")
	flags.StringVar(&o.queueConfig, "queue-config", "", "ConfigMap with the queues, as NAMESPACE/NAME (default: no queues)")
	flags.StringVar(&o.webhookCertDir, "webhook-cert-dir", "",
		"folder with tls.crt and tls.key for the admission webhooks, which validate Placements and, with --queue-config, stamp and verify submitters (default: no webhooks)")
	flags.StringVar(&o.webhookClients, "webhook-client-ca-file", "",
		"certificates of the authorities that sign the API server's client certificate; the admission webhooks then refuse callers without such a certificate "+
			"(default: callers are not verified)")
	flags.IntVar(&o.webhookPort, "webhook-port", 9443, "port of the admission webhooks")
	o.tls.addFlags(flags)
	o.record.addFlags(cmd, "folder for the recording of all decisions and what they depend on, for berth replay (default: nothing is recorded)")
	addLogFlags(cmd, &o.log)
	flags.BoolVar(&o.installCRDs, "install-crds", false, "install Berth's CRDs before the start; CRDs that something else installed are not changed")
	return cmd
}

func (o *controllerOptions) check() error {
	switch {
	case o.workers < 1:
		return usagef("--workers: %d must be at least 1", o.workers)
	case o.webhookClients != "" && o.webhookCertDir == "":
		return usagef("--webhook-client-ca-file requires --webhook-cert-dir")
	case o.profileNames != plainNames && o.profileNames != qualifiedNames:
		return usagef("--cluster-profile-names: %q must be %s or %s", o.profileNames, plainNames, qualifiedNames)
	}
	if _, err := parseQueueConfig(o.queueConfig); err != nil {
		return err
	}
	if err := o.tls.check(); err != nil {
		return err
	}
	if err := o.record.check(); err != nil {
		return err
	}
	return o.log.check()
}

func (o *controllerOptions) run(ctx context.Context, out io.Writer) error {
	configuration, err := loadConfig(ctx, o.config, o.plugins)
	if err != nil {
		return err
	}
	loader := kubeconfigAt(o.kubeconfig)
	cfg, err := connect(loader, "hub", "kubeconfig")
	if err != nil {
		return err
	}
	if o.leaseNamespace == "" {
		if o.leaseNamespace, _, err = loader.Namespace(); err != nil {
			return fmt.Errorf("finding the namespace of the lease: %w", err)
		}
	}
	if o.installCRDs {
		if err := installCRDs(ctx, cfg, out); err != nil {
			return err
		}
	}
	queueConfig, err := parseQueueConfig(o.queueConfig)
	if err != nil {
		return err
	}
	configureTLS := []func(*tls.Config){o.tls.configure(out)}
	var webhooks *webhook.Options
	if o.webhookCertDir != "" {
		webhooks = &webhook.Options{Port: o.webhookPort, CertDir: o.webhookCertDir, TLSOpts: configureTLS}
		if o.webhookClients != "" {
			verify, err := admission.VerifyClients(o.webhookClients)
			if err != nil {
				return err
			}
			webhooks.TLSOpts = append(webhooks.TLSOpts, verify)
		}
	}
	o.profiles.Qualified = o.profileNames == qualifiedNames
	return startManager(ctx, cfg, out, o.log, o.config, controllers.Options{
		QueueConfig:             queueConfig,
		Webhooks:                webhooks,
		LeaderElection:          o.leaderElection,
		LeaderElectionNamespace: o.leaseNamespace,
		LeaseName:               o.lease,
		MetricsAddress:          o.metrics,
		MetricsSecure:           o.metricsSecure,
		MetricsCertDir:          o.metricsCertDir,
		TLS:                     configureTLS,
		HealthAddress:           o.health,
		PprofAddress:            o.pprof,
		Workers:                 o.workers,
		CheckSkips:              o.checkSkips,
		Housekeeping:            o.housekeeping,
		ClusterProfiles:         o.profiles,
		Config:                  configuration,
		Recording:               o.record.options(),
		Plugins:                 o.plugins,
	})
}

// installCRDs installs Berth's CRDs and prints which ones it left unchanged.
func installCRDs(ctx context.Context, config *rest.Config, out io.Writer) error {
	foreign, err := install.CRDs(ctx, config)
	for _, name := range foreign {
		say(out, "CRD %s was not installed by Berth and is not changed.\n", name)
	}
	return err
}

// onLoopback is true if only this machine can reach the address.
func onLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// parseQueueConfig parses NAMESPACE/NAME. An empty text gives an empty name.
func parseQueueConfig(text string) (types.NamespacedName, error) {
	if text == "" {
		return types.NamespacedName{}, nil
	}
	_, key, err := kinds.ParseName(text, kinds.Kind{Name: "ConfigMap", Namespaced: true}, "")
	if err != nil {
		return types.NamespacedName{}, usagef("--queue-config: %w", err)
	}
	return key, nil
}
