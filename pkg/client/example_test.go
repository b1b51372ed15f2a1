package client_test

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/berth-dev/berth/pkg/client"
)

// Deploy to the clusters of the Placement web, and clean up the clusters that leave, until Ctrl-C.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	config, err := ctrl.GetConfig()
	if err != nil {
		fmt.Println(err)
		return
	}
	hub, err := client.Connect(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	web := client.NewFollower(hub, "shop", "web")
	web.OnChange(func(added, removed []client.Cluster) {
		for _, cluster := range added {
			fmt.Println("deploy to", cluster.Name)
		}
		for _, cluster := range removed {
			fmt.Println("clean up", cluster.Name)
		}
	})
	web.Run(ctx)
}

// Read the current decision at any time. An error is not an empty decision.
func ExampleFollower_Clusters() {
	config, err := ctrl.GetConfig()
	if err != nil {
		fmt.Println(err)
		return
	}
	hub, err := client.Connect(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	web := client.NewFollower(hub, "shop", "web")
	go web.Run(context.Background())

	switch clusters, err := web.Clusters(); {
	case errors.Is(err, client.ErrUnknown), errors.Is(err, client.ErrNoDecision):
		fmt.Println("ask again later, and change nothing:", err)
	case errors.Is(err, client.ErrNoPlacement):
		fmt.Println("clean up everywhere, if that is what a missing Placement means to you")
	default:
		for _, cluster := range clusters {
			fmt.Println(cluster.Name, "of the decision group", cluster.GroupIndex)
		}
	}
}
