package explore

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/pkg/recording"
	"github.com/berth-dev/berth/pkg/simulator"
)

// TestPast shows the recording of the documentation, without a hub.
func TestPast(t *testing.T) {
	dir := filepath.Join("..", "..", "examples", "recording")
	s := NewServer(simulator.Options{}, NewViewer(simulator.Options{}, nil, nil, dir))
	var session Session
	read(t, get(s, nil, "api/session"), 200, &session)
	if session.Live || !session.Recording {
		t.Errorf("session %+v", session)
	}
	for _, path := range []string{"api/fleet", "api/columns?placement=shop/web", "api/fleet?world=at-yesterday", "api/events?since=1"} {
		if w := get(s, nil, path); w.Code != 404 && w.Code != 400 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	line := Timeline{}
	for deadline := time.Now().Add(time.Minute); !line.Done && time.Now().Before(deadline); {
		read(t, get(s, nil, "api/time"), 200, &line)
	}
	if len(line.Ticks) == 0 || line.Error != "" || !line.First.Before(line.Last) {
		t.Fatalf("time line %+v", line)
	}
	// A time line that may be old is not done until it has been read again.
	s.viewer.past.mu.Lock()
	s.viewer.past.read = time.Time{}
	s.viewer.past.mu.Unlock()
	read(t, get(s, nil, "api/time"), 200, &line)
	if line.Done {
		t.Error("an old time line is shown as the newest one")
	}
	for deadline := time.Now().Add(time.Minute); !line.Done && time.Now().Before(deadline); {
		read(t, get(s, nil, "api/time"), 200, &line)
	}
	before := len(line.Ticks[0].Cause)
	if before == 0 || line.Ticks[0].Placement == "" {
		t.Errorf("the first tick %+v", line.Ticks[0])
	}
	for i, tick := range line.Ticks {
		var f Fleet
		read(t, get(s, nil, "api/fleet?world=at-"+tick.Time.Add(time.Minute).UTC().Format(time.RFC3339)), 200, &f)
		if len(f.Placements) == 0 || len(f.Clusters) == 0 {
			t.Fatalf("tick %d: %d Placements, %d clusters", i, len(f.Placements), len(f.Clusters))
		}
		var c Columns
		read(t, get(s, nil, "api/columns?world=at-"+tick.Time.Add(time.Minute).UTC().Format(time.RFC3339)+"&placement="+tick.Placement), 200, &c)
		if len(c.Columns) != 1 || len(c.Columns[0].Cells) != len(f.Clusters) || !strings.Contains(c.Columns[0].Cells, "1") {
			t.Errorf("tick %d, %+v: columns %+v", i, tick, c)
		}
	}
	if w := get(s, nil, "api/fleet?world=at-1999-01-01T00:00:00Z"); w.Code != 502 || !strings.Contains(w.Body.String(), "not known") {
		t.Errorf("before the recording: %d %s", w.Code, w.Body)
	}
}

// TestTicks: neighbours are joined when there are too many.
func TestTicks(t *testing.T) {
	line := &Timeline{}
	for i := range 5 * maxTicks {
		line.add(&recording.Entry{Time: time.Unix(int64(i), 0), Decision: &recording.Decision{Namespace: "ns", Name: "p", Added: []string{"a"}, Removed: []string{"b"}}})
	}
	sum := Tick{}
	for _, tick := range line.Ticks {
		sum.Changes, sum.Added, sum.Removed = sum.Changes+tick.Changes, sum.Added+tick.Added, sum.Removed+tick.Removed
	}
	if len(line.Ticks) >= 2*maxTicks || sum != (Tick{Changes: 5 * maxTicks, Added: 5 * maxTicks, Removed: 5 * maxTicks}) {
		t.Errorf("%d ticks with %+v", len(line.Ticks), sum)
	}
}
