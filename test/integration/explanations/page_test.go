package explanations

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/controller-runtime/pkg/client"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("docs/explanations.md", func() {
	It("prints what the hub answers", func(ctx SpecContext) {
		page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "explanations.md"))
		Expect(err).NotTo(HaveOccurred())
		var author client.WithWatch
		commands := 0
		for _, block := range regexp.MustCompile("(?ms)^```(yaml|text)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
			if block[1] == "text" {
				first, rest, _ := strings.Cut(block[2], "\n")
				checkCommand(ctx, author, strings.TrimPrefix(first, "$ "), rest)
				commands++
				continue
			}
			if author == nil {
				hub.ApplyYAML(ctx, block[2])
				author = hub.Author(ctx, "paint")
				awaitFleet(ctx)
				continue
			}
			for _, object := range testhub.Parse(block[2]) {
				Expect(author.Create(ctx, object)).To(Succeed())
			}
		}
		Expect(commands).To(Equal(5))
	})
})

// awaitFleet waits until the controller knows the three clusters of the namespace. It would decide
// mixer on those that it knows, and Steady would keep the decision.
func awaitFleet(ctx context.Context) {
	GinkgoHelper()
	all := &team{name: "paint", author: hub}
	all.place(ctx, fixture.Placement("paint", "all"), 3)
	Expect(hub.Delete(ctx, fixture.Placement("paint", "all").Obj())).To(Succeed())
	Eventually(ctx, testhub.PagesIn).WithArguments(hub, client.InNamespace("paint")).Should(BeEmpty())
}

// checkCommand compares what kubectl get prints for an explained PlacementExplanation with the
// page.
func checkCommand(ctx context.Context, author client.WithWatch, command, want string) {
	GinkgoHelper()
	name := strings.Fields(command)[3]
	e := &berthv1alpha1.PlacementExplanation{ObjectMeta: metav1.ObjectMeta{Namespace: "paint", Name: name}}
	Eventually(ctx, testhub.Condition).WithArguments(author, e, "Explained").ShouldNot(BeEmpty())
	Expect(author.Get(ctx, client.ObjectKeyFromObject(e), e)).To(Succeed())
	_, template, isPath := strings.Cut(command, "-o jsonpath=")
	if !isPath {
		row := strings.Fields(strings.Split(want, "\n")[1])
		cells := strings.Fields(strings.ReplaceAll(strings.Join(table(ctx, e), " "), "<nil>", ""))
		Expect(cells).To(Equal(row[:len(row)-1]))
		return
	}
	path := jsonpath.New("page")
	path.AllowMissingKeys(true)
	Expect(path.Parse(strings.Trim(template, "'"))).To(Succeed(), template)
	var printed bytes.Buffer
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(e)
	Expect(err).NotTo(HaveOccurred())
	Expect(path.Execute(&printed, object)).To(Succeed())
	Expect(strings.Split(printed.String(), "\n")).To(Equal(strings.Split(want, "\n")))
}
