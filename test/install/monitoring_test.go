package install

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// libraryLabels are the metrics of libraries that queries may name, with the labels they have; the
// suite finds them on a running controller. What Prometheus adds to every metric is in addedLabels.
var (
	libraryLabels = map[string][]string{
		"leader_election_master_status":    {"name"},
		"workqueue_depth":                  {"name"},
		"workqueue_queue_duration_seconds": {"name"},
		"process_resident_memory_bytes":    nil,
		"process_cpu_seconds_total":        nil,
	}
	addedLabels = []string{"__name__", "le", "job", "pod", "instance", "namespace"}
)

var documented = regexp.MustCompile("(?m)^\\| `(berth_[a-z_]+)` \\| [a-z]+ \\| (.*?) \\|")

// existing are metrics with their labels: Berth's as docs/metrics.md has them, which a test beside
// the code compares, and the libraries'.
func existing(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	metrics := map[string][]string{}
	for _, row := range documented.FindAllStringSubmatch(string(page), -1) {
		metrics[row[1]] = regexp.MustCompile("[a-z_]+").FindAllString(row[2], -1)
	}
	if len(metrics) == 0 {
		t.Fatal("docs/metrics.md lists no metric")
	}
	for name, labels := range libraryLabels {
		metrics[name] = labels
	}
	return metrics
}

// check finds what a query names that does not exist.
func check(t *testing.T, where, query string, metrics map[string][]string) {
	t.Helper()
	for _, variable := range []string{"$__rate_interval", "$__interval", "$__range"} {
		query = strings.ReplaceAll(query, variable, "5m")
	}
	expression, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %s: %v", where, query, err)
		return
	}
	var known, used []string
	parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
		switch node := node.(type) {
		case *parser.VectorSelector:
			name := node.Name
			for _, suffix := range []string{"", "_bucket", "_count", "_sum"} {
				if _, ok := metrics[strings.TrimSuffix(node.Name, suffix)]; ok {
					name = strings.TrimSuffix(node.Name, suffix)
					break
				}
			}
			labels, ok := metrics[name]
			if !ok {
				t.Errorf("%s: there is no metric %q in %s", where, node.Name, query)
			}
			known = append(known, labels...)
			for _, m := range node.LabelMatchers {
				used = append(used, m.Name)
			}
		case *parser.AggregateExpr:
			used = append(used, node.Grouping...)
		}
		return nil
	})
	for _, label := range used {
		if !slices.Contains(known, label) && !slices.Contains(addedLabels, label) {
			t.Errorf("%s: no metric in %s has a label %q", where, query, label)
		}
	}
}

func TestAlerts(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "config", "monitoring", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rule monitoringv1.PrometheusRule
	if err := yaml.UnmarshalStrict(text, &rule); err != nil {
		t.Fatal(err)
	}
	runbooks, err := os.ReadFile(filepath.Join(root, "docs", "runbooks.md"))
	if err != nil {
		t.Fatal(err)
	}
	metrics := existing(t)
	sections := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(string(runbooks), -1) {
		sections[heading[1]] = false
	}
	for _, group := range rule.Spec.Groups {
		for _, alert := range group.Rules {
			check(t, alert.Alert, alert.Expr.String(), metrics)
			if _, ok := sections[alert.Alert]; !ok {
				t.Errorf("docs/runbooks.md has no section %s", alert.Alert)
			}
			sections[alert.Alert] = true
			if link := alert.Annotations["runbook_url"]; !strings.HasSuffix(link, "/docs/runbooks.md#"+strings.ToLower(alert.Alert)) {
				t.Errorf("%s leads to %q", alert.Alert, link)
			}
			for _, key := range []string{"summary", "description"} {
				if alert.Annotations[key] == "" {
					t.Errorf("%s has no %s", alert.Alert, key)
				}
			}
			if !slices.Contains([]string{"critical", "warning", "info"}, alert.Labels["severity"]) {
				t.Errorf("%s has severity %q", alert.Alert, alert.Labels["severity"])
			}
		}
	}
	for name, used := range sections {
		if !used {
			t.Errorf("docs/runbooks.md has a section %s, which is not an alert", name)
		}
	}
}

func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "config", "dashboard", "berth.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	metrics, ids := existing(t), map[int]bool{}
	for _, panel := range dashboard.Panels {
		if ids[panel.ID] || len(panel.Targets) == 0 {
			t.Errorf("panel %d, %q, is there twice or asks nothing", panel.ID, panel.Title)
		}
		ids[panel.ID] = true
		for _, target := range panel.Targets {
			check(t, panel.Title, target.Expr, metrics)
		}
	}
	for name := range metrics {
		if strings.HasPrefix(name, "berth_") && !strings.Contains(string(text), name) {
			t.Errorf("no panel shows %s", name)
		}
	}
}
