package docs

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// alertmanagerConfig has the fields of an Alertmanager configuration that docs/operations.md uses.
type alertmanagerConfig struct {
	Route     alertRoute `json:"route"`
	Receivers []struct {
		Name           string `json:"name"`
		WebhookConfigs []struct {
			URL        string `json:"url"`
			HTTPConfig struct {
				Authorization struct {
					CredentialsFile string `json:"credentials_file"`
				} `json:"authorization"`
			} `json:"http_config"`
		} `json:"webhook_configs"`
	} `json:"receivers"`
}

type alertRoute struct {
	Receiver       string       `json:"receiver"`
	Matchers       []string     `json:"matchers"`
	GroupBy        []string     `json:"group_by"`
	RepeatInterval string       `json:"repeat_interval"`
	Routes         []alertRoute `json:"routes"`
}

// TestAlertmanagerRecipe demands that the configuration of docs/operations.md sends every alert of
// config/monitoring to its webhook, and no other.
func TestAlertmanagerRecipe(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Alerts\n")
	_, block, _ := strings.Cut(section, "```yaml\n")
	block, _, _ = strings.Cut(block, "```")
	var c alertmanagerConfig
	if err := yaml.UnmarshalStrict([]byte(block), &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Route.Routes) != 1 || len(c.Route.Routes[0].Matchers) != 1 || len(c.Receivers) != 2 {
		t.Fatalf("%+v", c)
	}
	route, other, receiver := c.Route.Routes[0], c.Receivers[0], c.Receivers[1]
	if route.Receiver != receiver.Name || c.Route.Receiver != other.Name || len(receiver.WebhookConfigs) != 1 || len(other.WebhookConfigs) != 0 {
		t.Errorf("%+v", c)
	}
	if u, err := url.Parse(receiver.WebhookConfigs[0].URL); err != nil || u.Scheme != "https" {
		t.Errorf("%s: %v", u, err)
	}
	pattern := regexp.MustCompile(`^alertname=~"(.*)"$`).FindStringSubmatch(route.Matchers[0])
	if pattern == nil {
		t.Fatal(route.Matchers[0])
	}
	// Alertmanager anchors expressions.
	matches := regexp.MustCompile("^(?:" + pattern[1] + ")$").MatchString
	for _, name := range alertNames(t) {
		if !matches(name) {
			t.Errorf("%s is not sent", name)
		}
	}
	if matches("KubePodCrashLooping") {
		t.Error("alerts of other programs are sent, too")
	}
}

func alertNames(t *testing.T) (names []string) {
	t.Helper()
	rules, err := os.ReadFile(filepath.Join(root, "config", "monitoring", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(string(rules), -1) {
		names = append(names, found[1])
	}
	if len(names) < 10 {
		t.Fatalf("%d alerts were found", len(names))
	}
	return names
}
