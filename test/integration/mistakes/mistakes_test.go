package mistakes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/test/testhub"
)

// conditions are the conditions in which the user sees a mistake that the API server accepts, by
// kind, in order.
var conditions = map[string][]string{
	"Placement":                {"PlacementMisconfigured", "PlacementSatisfied"},
	"ManagedClusterSet":        {"ClusterSetEmpty"},
	"ManagedClusterSetBinding": {"Bound"},
	"SelectionPolicy":          {"Ready"},
}

var _ = Describe("A file with a mistake", func() {
	paths, err := filepath.Glob("files/*.yaml")
	if err != nil || len(paths) < 50 {
		panic(fmt.Sprintf("%d files, %v", len(paths), err))
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		It("shows the line in "+name, func(ctx SpecContext) {
			Expect(apply(ctx, name, false)).To(Equal(readFile(path).want))
		})
	}
})

// apply applies a file as kubectl apply does, deletes what it stored, and returns the lines that
// the user sees: "error: …" and "warning: …" at once, "condition: …" from the controller.
func apply(ctx context.Context, name string, dryRun bool) []string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join("files", name+".yaml"))
	Expect(err).NotTo(HaveOccurred())
	object := testhub.Parse(string(text))[0]
	warnings := &warnings{}
	config := rest.CopyConfig(hub.Config)
	config.WarningHandlerWithContext = warnings
	users, err := dynamic.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	mapping, err := hub.RESTMapper().RESTMapping(object.GroupVersionKind().GroupKind(), object.GroupVersionKind().Version)
	if err != nil {
		return []string{"error: " + err.Error()}
	}
	var resource dynamic.ResourceInterface = users.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		resource = users.Resource(mapping.Resource).Namespace(object.GetNamespace())
	}
	options := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, FieldManager: "kubectl-client-side-apply"}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	created, err := resource.Create(ctx, object, options)
	if err != nil {
		return append(warnings.lines, errorLines(err)...)
	}
	if dryRun {
		return warnings.lines
	}
	defer func() { Expect(hub.Delete(ctx, created)).To(Succeed()) }()
	if types := conditions[object.GetKind()]; len(types) > 0 && len(warnings.lines) == 0 {
		return []string{"condition: " + conditionOf(ctx, created, types)}
	}
	return warnings.lines
}

// errorLines returns the lines that kubectl prints for an error. The API server returns the causes
// in any order, so they are sorted.
func errorLines(err error) []string {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return []string{"error: " + err.Error()}
	}
	details := status.Status().Details
	if !apierrors.IsInvalid(err) || details == nil || len(details.Causes) == 0 {
		return []string{fmt.Sprintf("error: Error from server (%s): %s", apierrors.ReasonForError(err), err)}
	}
	lines := make([]string, 0, len(details.Causes))
	for _, cause := range details.Causes {
		lines = append(lines, fmt.Sprintf("error: The %s %q is invalid: %s: %s", details.Kind, details.Name, cause.Field, cause.Message))
	}
	slices.Sort(lines)
	return lines
}

// conditionOf waits until the controller has set all conditions, and returns the first that reports
// a mistake, else the last.
func conditionOf(ctx context.Context, object *unstructured.Unstructured, types []string) string {
	GinkgoHelper()
	said := map[string]string{}
	Eventually(func(g Gomega) {
		g.Expect(hub.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
		found, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
		g.Expect(err).NotTo(HaveOccurred())
		for _, item := range found {
			condition, _ := item.(map[string]any)
			said[fmt.Sprint(condition["type"])] = fmt.Sprintf("%s=%s %s: %s", condition["type"], condition["status"], condition["reason"], condition["message"])
		}
		for _, name := range types {
			g.Expect(said).To(HaveKey(name))
		}
	}).Should(Succeed())
	if misconfigured := said[types[0]]; strings.HasPrefix(misconfigured, "PlacementMisconfigured=True") {
		return misconfigured
	}
	return said[types[len(types)-1]]
}

// warnings collects the warnings of the API server.
type warnings struct {
	mu    sync.Mutex
	lines []string
}

// HandleWarningHeaderWithContext implements rest.WarningHandlerWithContext.
func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, "warning: "+text)
}
