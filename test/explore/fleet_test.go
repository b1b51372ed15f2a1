package explore

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/explore"
	"github.com/berth-dev/berth/pkg/simulator"
	"github.com/berth-dev/berth/test/fixture"
)

const (
	fleetClusters   = 5000
	fleetPlacements = 2000
)

var regions = []string{"ap-south", "eu-north", "eu-west", "sa-east", "us-east"}

func clusterName(i int) string {
	per := fleetClusters / len(regions)
	return fmt.Sprintf("%s-%04d", regions[i/per], i%per+1)
}

// fleet has clusters of many kinds, and Placements that choose among them in many ways. Some
// changes need approval.
func fleet() simulator.Objects {
	o := simulator.Objects{fixture.Set("prod"), fixture.Set("edge")}
	for i := range fleetClusters {
		set := "prod"
		if i%10 == 9 {
			set = "edge"
		}
		region := regions[i/(fleetClusters/len(regions))]
		c := fixture.Cluster(clusterName(i)).Set(set).Label("region", region).Label("tier", []string{"gold", "silver", "bronze"}[i%3]).
			Allocatable("cpu", fmt.Sprint(8+i*7%56)).Allocatable("memory", fmt.Sprintf("%dGi", 16+i*13%240))
		if i%17 == 3 {
			c = c.Taint("maintenance", "", v1alpha1.TaintEffectNoSelect)
		}
		o = append(o, c.Obj())
	}
	for i := range fleetPlacements {
		namespace, name := fmt.Sprintf("team-%03d", i/8), []string{"web", "api", "cache", "batch", "search", "audit", "models", "backup"}[i%8]
		if i%8 == 0 {
			o = append(o, fixture.Binding(namespace, "prod"))
			if i%16 == 0 {
				o = append(o, fixture.Binding(namespace, "edge"))
			}
		}
		o = append(o, placement(i, namespace, name))
		if i%8 == 2 {
			o = append(o, fixture.ApprovalPolicy(namespace, name, name))
		}
		if i%8 == 2 {
			o = append(o, fixture.Page(namespace, name+"-decision-1").Of(name).OwnedBy(name).
				Lists(clusterName(4), clusterName(6), clusterName(10), clusterName(12)).Obj())
		}
	}
	return o
}

func placement(i int, namespace, name string) *v1alpha1.Placement {
	p := fixture.Placement(namespace, name)
	switch i % 8 {
	case 0:
		p = p.Number(int32(500+i*10)).Prioritizer("ResourceAllocatableMemory", 2).Prioritizer("ResourceAllocatableCPU", 1)
	case 1:
		p = p.Predicate(fixture.MatchLabel("tier", "gold"))
	case 2:
		p = p.Number(12).Prioritizer("ResourceAllocatableCPU", 1)
	case 3:
		p = p.Toleration("maintenance", v1alpha1.TolerationOpExists, "", "")
	case 4:
		p = p.Predicate(fixture.MatchLabel("region", regions[i/8%len(regions)])).Number(300).Prioritizer("ResourceAllocatableMemory", -1)
	case 5:
		p = p.Predicate(fixture.MatchLabel("region", "mars"))
	case 6:
		p = p.Predicate(fixture.MatchLabel("tier", "silver")).Number(800)
	default:
		p = p.Number(int32(1000 + i))
	}
	return p.Obj()
}

// small has one cluster and one Placement.
func small() simulator.Objects {
	return simulator.Objects{fixture.Set("s"), fixture.Binding("ns", "s"), fixture.Cluster("c1").Set("s").Obj(), fixture.Placement("ns", "web").Obj()}
}

// serve is where the page is, with these objects on the hub.
func serve(t *testing.T, objects simulator.Objects) string {
	t.Helper()
	s := newServer(t, objects)
	address, _ := listen(t, "127.0.0.1:0", s)
	return "http://" + address + s.Path()
}

func newServer(t *testing.T, objects simulator.Objects) *explore.Server {
	t.Helper()
	hub, err := explore.NewLiveWorld(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := hub.Fill(objects); err != nil {
		t.Fatal(err)
	}
	return explore.NewServer(simulator.Options{}, explore.NewViewer(simulator.Options{}, hub, nil, ""))
}

// listen serves at an address, until the test ends or stop is called.
func listen(t *testing.T, address string, handler http.Handler) (at string, stop func()) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: patience}
	go func() { _ = server.Serve(listener) }()
	stop = func() { _ = server.Close() }
	t.Cleanup(stop)
	return listener.Addr().String(), stop
}

// closeServer does not wait until pages close their streams.
func closeServer(server *httptest.Server) {
	_ = server.Listener.Close()
	server.CloseClientConnections()
}
