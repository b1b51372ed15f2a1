package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestMain(m *testing.M) {
	if runInformersIfAsked() || runTimerIfAsked() {
		return
	}
	_, _ = os.Unsetenv("GOGC"), os.Unsetenv("GOMEMLIMIT") // Berth collects its garbage as everywhere.
	os.Exit(m.Run())
}

// measured measures rows on a small hub and returns the results by row. BERTH_BIN names another
// berth.
func measured(t *testing.T, args ...string) map[string]result {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	file := filepath.Join(t.TempDir(), "load.json")
	binary := os.Getenv("BERTH_BIN")
	if binary == "" {
		binary = filepath.Join("..", "..", "bin", "berth")
	}
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Setenv("KUBEBUILDER_ASSETS", filepath.Join("..", "..", "bin", "hub"))
	}
	o, err := parse(append([]string{"-controller", binary, "-json", file}, args...))
	if err != nil {
		t.Fatal(err)
	}
	var printed, progress bytes.Buffer
	if err := runAll(t.Context(), o, &printed, &progress); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	t.Log(printed.String())
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var written loadReport
	if err := json.Unmarshal(data, &written); err != nil {
		t.Fatal(err)
	}
	got := map[string]result{}
	for _, x := range written.Sizes[0].Results {
		got[x.Row] = x
	}
	return got
}

// isBusyRow reports whether a row is one of a busy hub, whose fleet is larger.
func isBusyRow(row string) bool { return strings.HasPrefix(row, "busy") }

// TestRows measures every other row. It checks what the controller did, not how long it took.
func TestRows(t *testing.T) {
	rows := slices.DeleteFunc(slices.Clone(allRows), isBusyRow)
	got := measured(t, "-clusters", "20", "-placements", "20", "-churn", "250", "-rollout", "20", "-evictions", "10", "-repeats", "1", "-samples", "5",
		"-heartbeats", "40", "-budget", "2s", "-length", "2s", "-rows", strings.Join(rows, ","))
	for _, row := range append([]string{"hot-p99", "hot-predicate-p99", "hot-read-p99", "hot-read-cpu", "hot-last-p99", "cold-writes", "lock-held"}, rows...) {
		if _, ok := got[row]; !ok {
			t.Errorf("there is no row %q", row)
		}
	}
	for row, want := range map[string]struct{ cycles, pages, statuses float64 }{
		"hot":           {1, 1, 0},
		"hot-predicate": {1, 1, 0},
		"hot-read":      {1, 1, 0},
		"hot-last":      {1, 1, 0},
		"hot-all":       {20, 20, 0},
		"cold":          {20, 20, 20},
	} {
		if x := got[row]; x.Cycles == nil || *x.Cycles < want.cycles || x.Pages < want.pages || x.Statuses < want.statuses {
			t.Errorf("%s: %+v; want at least %+v", row, x, want)
		}
	}
	if x := got["heartbeat"]; x.Cycles == nil || *x.Cycles+x.Pages+x.Statuses > 0 {
		t.Errorf("heartbeats cost cycles or writes: %+v", x)
	}
	for row, want := range map[string]struct{ least, pages, records, evictions float64 }{
		"steps":     {10, 10, 12, 0},
		"evictions": {20, 20, 40, 30},
		"drain":     {40, 40, 80, 0},
	} {
		x := got[row]
		switch {
		case x.Steps == nil:
			t.Errorf("%s: %+v; want the writes of steps", row, x)
		case x.Steps.LeastPages != want.least || x.Pages < want.least || x.Pages > want.pages || x.Steps.Records > want.records || x.Steps.Evictions > want.evictions:
			t.Errorf("%s: %v page writes of at least %v, %+v; want %+v at most", row, x.Pages, x.Steps.LeastPages, *x.Steps, want)
		}
	}
	if got["churn"].Value != 1 {
		t.Errorf("a cluster that joins cost %v page writes, want 1", got["churn"].Value)
	}
}

// TestBusy checks that clusters move on a busy hub, and that hardly any page is written for another
// reason.
func TestBusy(t *testing.T) {
	got := measured(t, "-clusters", "200", "-placements", "40", "-length", "5s", "-rows", "busy,busy-policies")
	for _, row := range []string{"busy", "busy-policies"} {
		for _, part := range []string{"", "-p50", "-p99", "-floor-p50", "-floor-p99", "-pages", "-history", "-memory", "-peak"} {
			if _, ok := got[row+part]; !ok {
				t.Errorf("there is no row %q", row+part)
			}
		}
	}
	if x := got["busy-pages"]; x.Samples == 0 || x.Pages == 0 || x.Value > 1.2 {
		t.Errorf("pages: %+v; want each written about once", x)
	}
}

func TestQuantile(t *testing.T) {
	for name, tc := range map[string]struct {
		of   []time.Duration
		q    float64
		want time.Duration
	}{
		"one":                  {[]time.Duration{7}, 0.99, 7},
		"the middle of three":  {[]time.Duration{3, 1, 2}, 0.5, 2},
		"the tail of a few":    {[]time.Duration{1, 2, 3}, 0.99, 3},
		"of four, the greater": {[]time.Duration{4, 3, 2, 1}, 0.5, 3},
	} {
		t.Run(name, func(t *testing.T) {
			if got := quantile(tc.of, tc.q); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestHistogram(t *testing.T) {
	before := histogram{bounds: []float64{1, 2, 4}, counts: []float64{5, 6, 6}}
	h := histogram{bounds: []float64{1, 2, 4}, counts: []float64{7, 9, 10}}.since(before)
	for q, want := range map[float64]float64{0.1: 1, 0.5: 1, 0.6: 2, 0.75: 2, 0.99: 4} {
		if got := h.quantile(q); got != want {
			t.Errorf("quantile %g is %g, want %g", q, got, want)
		}
	}
}
