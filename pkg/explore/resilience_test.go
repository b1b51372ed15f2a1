package explore

import (
	"testing"
	"testing/synctest"

	"github.com/berth-dev/berth/pkg/resilience"
	"github.com/berth-dev/berth/pkg/simulator"
)

// TestResilienceWhileHubIsRead: what is not known because the hub is still being read is asked
// again at once, and not remembered as an error.
func TestResilienceWhileHubIsRead(t *testing.T) {
	hub, err := NewLiveWorld(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(simulator.Options{}, NewViewer(simulator.Options{}, hub, nil, ""))
	key, err := resilience.ParseKey("label:region")
	if err != nil {
		t.Fatal(err)
	}
	s.By = &key
	ask := func() (r Resilience) {
		read(t, get(s, nil, "api/resilience"), 200, &r)
		return r
	}
	synctest.Test(t, func(t *testing.T) {
		ask()
		synctest.Wait()
		if r := ask(); r.Done || r.Error != "" {
			t.Errorf("while the hub is read it is %+v", r)
		}
		synctest.Wait()
		if err := hub.Fill(small()); err != nil {
			t.Fatal(err)
		}
		ask()
		synctest.Wait()
		if r := ask(); !r.Done || r.Error != "" || len(r.Placements) == 0 {
			t.Errorf("after the hub was read it is %+v", r)
		}
	})
}
