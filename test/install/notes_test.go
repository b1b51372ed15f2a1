package install

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// notes are what `helm install` prints.
func notes(name, values string) (string, error) {
	files, err := helmFiles(name, "tools", values)
	return files[filepath.ToSlash(filepath.Join("berth", "templates", "NOTES.txt"))], err
}

// TestNotes: the notes mention what is off, and only that.
func TestNotes(t *testing.T) {
	const image, webhooks, alerts, reporter, crds = "make image", "webhook.certificate=cert-manager", "rules.enabled=true", "reporter.enabled=true", "Uninstalling keeps the CRDs"
	tests := map[string]struct{ shown, hidden []string }{
		"": {shown: []string{
			"make image IMAGE=registry.example/berth:v0.1.0\n", "kubectl rollout status deployment/fleet-berth -n tools\n", webhooks, alerts, reporter, crds,
		}},
		"image: {tag: v9}":                     {shown: []string{"make image IMAGE=registry.example/berth:v9\n"}},
		"image: {repository: mirror/berth}":    {hidden: []string{image}},
		"image: {digest: '" + digest + "'}":    {hidden: []string{image}},
		"fullnameOverride: chosen":             {shown: []string{"deployment/chosen -n tools"}},
		"webhook: {certificate: cert-manager}": {shown: []string{alerts}, hidden: []string{webhooks}},
		"rules: {enabled: true}":               {shown: []string{webhooks}, hidden: []string{alerts}},
		"reporter: {enabled: true}":            {hidden: []string{reporter}},
		"installCRDs: false":                   {hidden: []string{crds}},
	}
	for values, tc := range tests {
		text, err := notes("fleet", values)
		if err != nil {
			t.Fatal(err)
		}
		for _, hint := range slices.Concat(tc.shown, tc.hidden) {
			if strings.Contains(text, hint) != slices.Contains(tc.shown, hint) {
				t.Errorf("with %q, %q is in the notes: %t\n%s", values, hint, strings.Contains(text, hint), text)
			}
		}
	}
}

var _ = Describe("The chart's notes", func() {
	It("show objects that the API server accepts", func(ctx SpecContext) {
		objects, err := kustomize("crd")
		Expect(err).NotTo(HaveOccurred())
		for _, o := range objects {
			Expect(apply(ctx, o)).To(Succeed())
		}
		text, err := notes("berth", "")
		Expect(err).NotTo(HaveOccurred())
		block := regexp.MustCompile(`(?s)<<EOF\n(.*?)\n  EOF`).FindStringSubmatch(text)
		Expect(block).NotTo(BeNil())
		parsed, err := parse("NOTES.txt", []byte(strings.ReplaceAll(block[1], "\n  ", "\n")[2:]))
		Expect(err).NotTo(HaveOccurred())
		Expect(parsed).To(HaveLen(2))
		for _, o := range parsed {
			Eventually(func() error { return apply(ctx, o, client.DryRunAll) }).Should(Succeed())
		}
	})
})
