package readiness

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/pkg/scheduler/config"
)

type content = map[string]any

func application(health, sync string) content {
	return content{
		"metadata": content{"namespace": "argocd", "name": "a"},
		"spec":     content{"destination": content{"name": "paris"}},
		"status":   content{"health": content{"status": health}, "sync": content{"status": sync}},
	}
}

func work(generation, observed int64, available string) content {
	return content{
		"metadata": content{"namespace": "paris", "name": "w", "generation": generation},
		"status":   content{"conditions": []any{content{"type": "Available", "status": available, "observedGeneration": observed}}},
	}
}

func TestRead(t *testing.T) {
	deleted := application("Healthy", "Synced")
	deleted["metadata"].(content)["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	for name, tc := range map[string]struct {
		source      string
		object      content
		wantCluster string
		wantReady   bool
	}{
		"healthy":                    {"argocd", application("Healthy", "Synced"), "paris", true},
		"degraded":                   {"argocd", application("Degraded", "Synced"), "paris", false},
		"not synced":                 {"argocd", application("Healthy", "OutOfSync"), "paris", false},
		"no status yet":              {"argocd", content{"metadata": content{}, "spec": content{"destination": content{"name": "paris"}}}, "paris", false},
		"another form of target":     {"argocd", content{"metadata": content{}, "spec": content{"destination": content{"server": "https://x"}}}, "", false},
		"a target of the wrong type": {"argocd", content{"spec": content{"destination": content{"name": int64(7)}}}, "", false},
		"being deleted":              {"argocd", deleted, "paris", false},
		"available":                  {"manifestwork", work(3, 3, "True"), "paris", true},
		"available before an edit":   {"manifestwork", work(4, 3, "True"), "paris", false},
		"not available":              {"manifestwork", work(3, 3, "False"), "paris", false},
		"nothing at all":             {"manifestwork", content{}, "", false},
		"configured":                 {"jobs", content{"metadata": content{"name": "paris"}, "ok": true}, "paris", true},
	} {
		t.Run(name, func(t *testing.T) {
			sources, err := Sources(&config.PlacementSchedulerConfiguration{ReadinessSources: []config.ReadinessSource{{
				Name: "jobs", APIVersion: "batch/v1", Kind: "Job", Namespace: config.PlacementNamespace, Cluster: "object.metadata.name", Ready: "object.ok",
			}}})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range sources {
				if s.Name != tc.source {
					continue
				}
				if cluster, ready := s.Read(t.Context(), tc.object); cluster != tc.wantCluster || ready != tc.wantReady {
					t.Errorf("cluster %q, ready %t; want %q, %t", cluster, ready, tc.wantCluster, tc.wantReady)
				}
			}
		})
	}
}

func TestSources(t *testing.T) {
	own := func(change func(s *config.ReadinessSource)) *config.PlacementSchedulerConfiguration {
		s := config.ReadinessSource{Name: "argocd", APIVersion: "example.com/v1", Kind: "App", Namespace: config.PlacementNamespace, Cluster: "object.c", Ready: "object.r"}
		change(&s)
		return &config.PlacementSchedulerConfiguration{ReadinessSources: []config.ReadinessSource{s}}
	}
	for name, tc := range map[string]struct {
		config  *config.PlacementSchedulerConfiguration
		want    []string
		wantErr string
	}{
		"built in": {nil, []string{"argocd Application", "manifestwork ManifestWork"}, ""},
		"replaced": {own(func(*config.ReadinessSource) {}), []string{"argocd App", "manifestwork ManifestWork"}, ""},
		"added":    {own(func(s *config.ReadinessSource) { s.Name = "x" }), []string{"argocd Application", "manifestwork ManifestWork", "x App"}, ""},
		"cluster":  {own(func(s *config.ReadinessSource) { s.Cluster = "1" }), nil, "readinessSources[0].cluster: compilation failed: the result is int, not string"},
		"ready":    {own(func(s *config.ReadinessSource) { s.Ready = "managedCluster.x" }), nil, "readinessSources[0].ready: compilation failed: 1:1: undeclared reference to 'managedCluster': the only variable is object"},
	} {
		t.Run(name, func(t *testing.T) {
			sources, err := Sources(tc.config)
			if err != nil {
				if tc.wantErr == "" || !strings.HasPrefix(err.Error(), tc.wantErr) {
					t.Errorf("%v, want %q", err, tc.wantErr)
				}
				return
			}
			var got []string
			for _, s := range sources {
				got = append(got, s.Name+" "+s.Kind.Kind)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || tc.wantErr != "" {
				t.Errorf("sources (-want +got):\n%s", diff)
			}
		})
	}
}
