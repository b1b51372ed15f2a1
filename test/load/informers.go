package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
)

// informersVariable holds the kubeconfig for a process that only runs informers.
const informersVariable = "BERTH_LOAD_INFORMERS"

// startInformers runs this program again, as one that only runs the informers of a controller.
func startInformers(kubeconfig, dir string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	command := exec.Command(self)
	command.Env = append(os.Environ(), informersVariable+"="+kubeconfig)
	return startCommand(command, filepath.Join(dir, "informers.log"))
}

// runInformersIfAsked runs informers of all kinds that decisions depend on until a signal ends the
// process, if startInformers started it.
func runInformersIfAsked() bool {
	kubeconfig := os.Getenv(informersVariable)
	if kubeconfig == "" {
		return false
	}
	if err := runInformers(kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, "informers:", err)
		os.Exit(1)
	}
	return true
}

func runInformers(kubeconfig string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), berthv1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	watches, err := cache.New(config, cache.Options{Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return err
	}
	for _, kind := range kinds.All() {
		informer, err := watches.GetInformer(ctx, kind.New().(client.Object), cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %s: %w", kind.Name, err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) {}}); err != nil {
			return fmt.Errorf("watching %s: %w", kind.Name, err)
		}
	}
	return watches.Start(ctx)
}
