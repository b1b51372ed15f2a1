package install

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxImageBytes is a bound on the size of the image: the program is most of it.
const maxImageBytes = 96 << 20

var _ = Describe("The image of make image", Ordered, func() {
	const image = "berth:test"

	BeforeAll(func(ctx SpecContext) {
		needBuildah()
		storage := GinkgoT().TempDir()
		file := filepath.Join(storage, "storage.conf")
		Expect(os.WriteFile(file, fmt.Appendf(nil, "[storage]\ndriver = \"vfs\"\ngraphroot = %q\nrunroot = %q\n",
			filepath.Join(storage, "graph"), filepath.Join(storage, "run")), 0o600)).To(Succeed())
		GinkgoT().Setenv("CONTAINERS_STORAGE_CONF", file)
		output(ctx, "make", "-C", root, "image", "ENGINE=buildah", "IMAGE="+image)
	})

	It("has one layer with the program, its user and its entry point", func(ctx SpecContext) {
		var inspected struct {
			Manifest string
			OCIv1    struct {
				Architecture, OS string
				Config           struct {
					User            string
					Entrypoint, Cmd []string
				}
			}
		}
		Expect(json.Unmarshal([]byte(output(ctx, "buildah", "inspect", "--type", "image", image)), &inspected)).To(Succeed())
		Expect(inspected.OCIv1.Config.User).To(Equal("65532:65532"))
		Expect(inspected.OCIv1.Config.Entrypoint).To(Equal([]string{"/berth"}))
		Expect(inspected.OCIv1.Config.Cmd).To(BeEmpty())
		Expect(inspected.OCIv1.OS + "/" + inspected.OCIv1.Architecture).To(Equal("linux/" + strings.TrimSpace(output(ctx, "go", "env", "GOARCH"))))
		var manifest struct{ Layers []struct{ Size int64 } }
		Expect(json.Unmarshal([]byte(inspected.Manifest), &manifest)).To(Succeed())
		Expect(manifest.Layers).To(HaveLen(1))
		Expect(manifest.Layers[0].Size).To(And(BeNumerically(">", 1<<20), BeNumerically("<", maxImageBytes)))
	})

	It("is part of a release, with clients, the chart, install.yaml and checksums", func(ctx SpecContext) {
		const number, version = "0.0.0-test", "v0.0.0-test"
		system := "linux-" + strings.TrimSpace(output(ctx, "go", "env", "GOARCH"))
		folder := GinkgoT().TempDir()
		output(ctx, "make", "-C", root, "release", "RELEASE_FOLDER="+folder, "RELEASE_SYSTEMS="+system, "VERSION="+version, "COMMIT=test")

		release := func(command string) string { return output(ctx, "bash", "-ec", "cd "+folder+"; "+command) }
		Expect(strings.Fields(release("ls"))).To(ConsistOf(
			"SHA256SUMS", "berth-"+number+".tgz", "berth-"+version+"-image.tar", "berth-"+version+"-"+system+".tar.gz", "berth-"+version+"-"+system+".spdx.json",
			"install.yaml", "placement.yaml"))
		Expect(strings.Count(release("sha256sum --check SHA256SUMS"), ": OK")).To(Equal(6))
		program, err := filepath.Abs(filepath.Join(root, "bin", "berth"))
		Expect(err).NotTo(HaveOccurred())
		Expect(release("tar -xzOf *.tar.gz berth | cmp - " + program)).To(BeEmpty())
		Expect(release("cat install.yaml")).To(ContainSubstring("image: berth:" + version + "\n"))
		Expect(release("tar -xzOf *.tgz berth/Chart.yaml")).To(ContainSubstring("\nversion: " + number + "\nappVersion: " + version + "\n"))
		values, err := os.ReadFile(filepath.Join(root, "charts", "berth", "values.yaml"))
		Expect(err).NotTo(HaveOccurred())
		Expect(release("tar -xzOf *.tgz berth/values.yaml")).To(Equal(string(values)))
		Expect(strings.Fields(release("tar -tzf *.tgz"))).To(ContainElements("berth/templates/deployment.yaml", "berth/files/crd/berth.dev_placementchanges.yaml"))
		Expect(release("tar -xOf *-image.tar index.json")).To(ContainSubstring("application/vnd.oci.image.index.v1+json"))
	})

	It("decides on a hub as user 65532", func(ctx SpecContext) {
		objects, err := kustomize("crd")
		Expect(err).NotTo(HaveOccurred())
		for _, o := range objects {
			Expect(apply(ctx, o)).To(Succeed())
		}
		create(ctx, `{apiVersion: v1, kind: Namespace, metadata: {name: imaged}}`)
		create(ctx, `{apiVersion: `+ocm+`/v1beta2, kind: ManagedClusterSet, metadata: {name: imaged}}`)
		create(ctx, `{apiVersion: `+ocm+`/v1beta2, kind: ManagedClusterSetBinding, metadata: {name: imaged, namespace: imaged}, spec: {clusterSet: imaged}}`)
		create(ctx, `{apiVersion: `+ocm+`/v1, kind: ManagedCluster, metadata: {name: imaged, labels: {`+ocm+`/clusterset: imaged}}}`)
		create(ctx, `{apiVersion: `+ocm+`/v1beta1, kind: Placement, metadata: {name: imaged, namespace: imaged}, spec: {}}`)
		DeferCleanup(func(ctx SpecContext) {
			Expect(hub.Delete(ctx, object(ocm+"/v1beta1", "Placement", "imaged", "imaged"))).To(Succeed())
			Expect(hub.Delete(ctx, object(ocm+"/v1", "ManagedCluster", "", "imaged"))).To(Succeed())
		})

		// No housekeeping: another spec checks that the service account creates the standard sets.
		health := freeAddress()
		runImage(ctx, image, "controller", "--leader-elect=false", "--housekeeping=", "--metrics-bind-address=0", "--health-probe-bind-address="+health)
		Eventually(func() error {
			response, err := http.Get("http://" + health + "/readyz")
			if err != nil {
				return err
			}
			return response.Body.Close()
		}).Should(Succeed())
		Expect(ids(containerProcess(health))).To(Equal("65532:65532"))
		Eventually(func() int64 {
			placement := object(ocm+"/v1beta1", "Placement", "imaged", "imaged")
			Expect(hub.Get(ctx, client.ObjectKeyFromObject(placement), placement)).To(Succeed())
			return selected(placement)
		}).Should(BeEquivalentTo(1))
	})
})

// needBuildah skips a spec of the image where buildah is missing.
func needBuildah() {
	GinkgoHelper()
	if _, err := exec.LookPath("buildah"); err != nil {
		Skip("the image is not tested: buildah is not on the PATH")
	}
}

// output runs a program, which must succeed, and returns what it prints.
func output(ctx context.Context, name string, args ...string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx, name, args...)
	var said strings.Builder
	command.Stderr = &said
	out, err := command.Output()
	Expect(err).NotTo(HaveOccurred(), "%s %s\n%s%s", name, strings.Join(args, " "), out, said.String())
	return string(out)
}

// runImage runs the program of an image in a container, on the hub, until the spec ends.
func runImage(ctx context.Context, image string, args ...string) {
	GinkgoHelper()
	text, err := os.ReadFile(adminKubeconfig())
	Expect(err).NotTo(HaveOccurred())
	folder := GinkgoT().TempDir()
	Expect(os.WriteFile(filepath.Join(folder, "kubeconfig"), text, 0o600)).To(Succeed())
	if os.Geteuid() == 0 {
		for _, path := range []string{folder, filepath.Join(folder, "kubeconfig")} {
			Expect(os.Chown(path, 65532, 65532)).To(Succeed())
		}
	}
	container := strings.TrimSpace(output(ctx, "buildah", "from", image))
	command := append([]string{"run", "--isolation", "chroot", "--volume", folder + ":/hub:ro", container, "--", "/berth"}, args...)
	session, err := gexec.Start(exec.Command("buildah", append(command, "--kubeconfig=/hub/kubeconfig")...), GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		Expect(syscall.Kill(containerProcess(args[len(args)-1]), syscall.SIGTERM)).To(Succeed())
		Eventually(session).Should(gexec.Exit(0))
	})
}

// containerProcess is the process of the image's entry point that has an argument with a text.
func containerProcess(text string) int {
	GinkgoHelper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	Expect(err).NotTo(HaveOccurred())
	for _, path := range found {
		// A process may have ended.
		if line, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(line), "/berth\x00") && strings.Contains(string(line), text) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			Expect(err).NotTo(HaveOccurred())
			return pid
		}
	}
	Fail("no process of the image has the argument " + text)
	return 0
}

// ids are the user and the group of a process, as it sees them.
func ids(pid int) string {
	GinkgoHelper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	Expect(err).NotTo(HaveOccurred())
	found := regexp.MustCompile(`Uid:\t(\d+)\t[^\n]*\nGid:\t(\d+)`).FindSubmatch(status)
	Expect(found).NotTo(BeNil())
	return string(found[1]) + ":" + string(found[2])
}

// selected is the number of clusters that a Placement's status counts.
func selected(placement *unstructured.Unstructured) int64 {
	count, _, _ := unstructured.NestedInt64(placement.Object, "status", "numberOfSelectedClusters")
	return count
}
