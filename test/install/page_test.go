package install

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// pageBlocks are the blocks of commands of docs/install.md, in order.
func pageBlocks() [][]string { return blocksOf("docs/install.md", "") }

// blocksOf are the blocks of commands of a page after a heading.
func blocksOf(file, heading string) [][]string {
	page, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		panic(err) // the tree of specs is made of it
	}
	if _, after, ok := strings.Cut(string(page), heading); ok && heading != "" {
		section, _, _ := strings.Cut(after, "\n## ")
		page = []byte(section)
	}
	var blocks [][]string
	for _, block := range regexp.MustCompile(`(?m)(?:^    \S.*\n)+`).FindAllString(string(page), -1) {
		blocks = append(blocks, strings.Split(strings.ReplaceAll(strings.TrimSpace(block), "\n    ", "\n"), "\n"))
	}
	return blocks
}

// pageChecks run a command that begins so and look at what it did. Other commands only have to
// succeed.
var pageChecks = map[string]func(ctx context.Context, p *page, command string){
	"docker push ": func(ctx context.Context, p *page, command string) {
		p.run(ctx, command)
		Expect(filepath.Join(p.folder, "registry", "manifest.json")).To(BeARegularFile())
	},
	"kubectl apply --server-side -f bin/install.yaml": func(ctx context.Context, p *page, command string) {
		p.run(ctx, command)
		Expect(p.run(ctx, "kubectl get deployment berth -n berth-system -o jsonpath='{.spec.template.spec.containers[*].image}'")).To(Equal("registry.example/berth:v0.1.0"))
	},
	"helm install ": func(ctx context.Context, p *page, command string) {
		Expect(p.run(ctx, command)).To(And(ContainSubstring("STATUS: deployed"), ContainSubstring("kubectl rollout status deployment/berth -n berth-system")))
		Expect(p.run(ctx, "kubectl get deployment berth -n berth-system -o jsonpath='{.spec.template.spec.containers[*].image}'")).To(Equal("registry.example/berth:v0.1.0"))
	},
	// A release is on GitHub only: the workflow makes what these commands check.
	"sha256sum --check ": func(_ context.Context, _ *page, _ string) {
		Expect(os.ReadFile(filepath.Join(root, "Makefile"))).To(ContainSubstring("sha256sum * >SHA256SUMS"))
	},
	"cosign verify-blob ": func(_ context.Context, _ *page, command string) {
		text, err := os.ReadFile(filepath.Join(root, ".github", "workflows", "release.yaml"))
		Expect(err).NotTo(HaveOccurred())
		words := strings.Fields(command)
		Expect(string(text)).To(ContainSubstring("cosign sign-blob --yes --bundle bin/release/" + words[4] + " bin/release/" + words[2] + "\n"))
	},
	"gh attestation verify ": func(_ context.Context, _ *page, command string) {
		wants := "subject-path: bin/release/*\n"
		if strings.Contains(command, " --predicate-type https://spdx.dev/Document/v2.3") {
			wants = "sbom-path: bin/release/berth-${{ github.ref_name }}-${{ matrix.system }}.spdx.json\n"
		}
		Expect(os.ReadFile(filepath.Join(root, ".github", "workflows", "release.yaml"))).To(ContainSubstring(wants))
	},
	"bin/berth controller ": func(ctx context.Context, p *page, command string) {
		health := freeAddress()
		controller := p.command(ctx, strings.Replace(command, "hub.kubeconfig", p.kubeconfig(), 1)+" --health-probe-bind-address="+health)
		session, err := gexec.Start(controller, GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() (int, error) {
			response, err := http.Get("http://" + health + "/readyz")
			if err != nil {
				return 0, err
			}
			return response.StatusCode, response.Body.Close()
		}).Should(Equal(http.StatusOK))
		Eventually(func() string { return p.run(ctx, "kubectl get leases -n berth-system -o name") }).Should(ContainSubstring("lease.coordination.k8s.io/berth"))
		Eventually(session.Terminate()).Should(gexec.Exit(0))
	},
}

// page is the walk through docs/install.md. folder has programs, the kubeconfig of the hub and what
// was pushed.
type page struct{ folder string }

func (p *page) kubeconfig() string { return filepath.Join(p.folder, "kubeconfig") }

// command is a command line of the page.
func (p *page) command(ctx context.Context, line string) *exec.Cmd {
	GinkgoHelper()
	here, err := filepath.Abs(root)
	Expect(err).NotTo(HaveOccurred())
	command := exec.CommandContext(ctx, "bash", "-ec", "exec "+line)
	command.Dir = here
	command.Env = append(os.Environ(), "ENGINE=buildah", "KUBECONFIG="+p.kubeconfig(), "HOME="+p.folder,
		"GOPATH="+strings.TrimSpace(output(ctx, "go", "env", "GOPATH")), "GOCACHE="+strings.TrimSpace(output(ctx, "go", "env", "GOCACHE")),
		"PATH="+strings.Join([]string{filepath.Join(p.folder, "bin"), assets(), filepath.Join(here, "bin", "hub"), os.Getenv("PATH")}, ":"))
	return command
}

// run demands that a command line succeeds, and returns what it prints.
func (p *page) run(ctx context.Context, line string) string {
	GinkgoHelper()
	out, err := p.command(ctx, line).CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s\n%s", line, out)
	return string(out)
}

// follow runs a command of the page, with its check.
func (p *page) follow(ctx context.Context, command string) {
	GinkgoHelper()
	By(command)
	for begin, check := range pageChecks {
		if strings.HasPrefix(command, begin) {
			check(ctx, p, command)
			return
		}
	}
	p.run(ctx, command)
}

// startHub starts an empty hub, which the commands of the spec use.
func (p *page) startHub() {
	GinkgoHelper()
	environment := &envtest.Environment{BinaryAssetsDirectory: assets()}
	environment.ControlPlane.GetAPIServer().Configure().Set("authorization-mode", "RBAC")
	_, err := environment.Start()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(environment.Stop)
	Expect(os.WriteFile(p.kubeconfig(), environment.KubeConfig, 0o600)).To(Succeed())
}

var _ = Describe("docs/install.md", Ordered, func() {
	p := &page{}

	BeforeAll(func(ctx SpecContext) {
		p.folder = GinkgoT().TempDir()
		bin := filepath.Join(p.folder, "bin")
		Expect(os.Mkdir(bin, 0o700)).To(Succeed())
		output(ctx, "go", "build", "-o", filepath.Join(bin, "helm"), "helm.sh/helm/v4/cmd/helm")
		// There is no registry to push to: a folder gets the image.
		push := "#!/bin/sh\n[ \"$1\" = push ] && exec buildah push --quiet \"$2\" dir:" + filepath.Join(p.folder, "registry") + "\n"
		Expect(os.WriteFile(filepath.Join(bin, "docker"), []byte(push), 0o700)).To(Succeed())
	})

	It("has these commands", func() {
		commands := slices.Concat(pageBlocks()...)
		for begin := range pageChecks {
			Expect(commands).To(ContainElement(HavePrefix(begin)))
		}
	})

	It("has README's commands to install", func() {
		commands := slices.Concat(blocksOf("README.md", "\n## Install on a hub\n")...)
		Expect(commands).To(HaveLen(3))
		Expect(slices.Concat(pageBlocks()...)).To(ContainElements(commands))
	})

	for _, block := range pageBlocks() {
		It("works: "+strings.Join(block, "; "), func(ctx SpecContext) {
			builds := strings.HasPrefix(block[0], "make image")
			if builds || strings.Contains(strings.Join(block, " "), "bin/install.yaml") {
				needBuildah() // The file is written with the image.
			}
			if !builds {
				p.startHub()
			}
			for _, command := range block {
				p.follow(ctx, command)
			}
		})
	}
})
