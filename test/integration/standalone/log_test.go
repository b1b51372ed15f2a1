package standalone

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"

	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("The log of the controller", func() {
	It("begins with the version and the hub, and a SIGTERM of the leader ends it without an error", func() {
		alone.stopBerth()
		DeferCleanup(func() { alone.startBerth("*") })
		port, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		address := port.Addr().String()
		Expect(port.Close()).To(Succeed())
		command := exec.Command(testhub.Binary(), "controller", "--kubeconfig", alone.Kubeconfig, "--leader-election-namespace=default",
			"--health-probe-bind-address=0", "--metrics-bind-address="+address, "--workers=2")
		session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { session.Kill().Wait() })
		started := func() bool {
			log := string(session.Err.Contents())
			controllers := strings.Count(log, `"msg":"Starting Controller"`)
			return strings.Count(log, `"msg":"Starting workers"`) == controllers &&
				regexp.MustCompile(`"msg":"Starting workers","controller":"placement"`).MatchString(log)
		}
		Eventually(started).Should(BeTrue())

		By("reading the metric of the build")
		response, err := http.Get("http://" + address + "/metrics")
		Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		Expect(io.ReadAll(response.Body)).To(ContainSubstring(`berth_build_info{`))

		By("stopping it")
		session.Signal(syscall.SIGTERM)
		Eventually(session).Should(gexec.Exit(0))
		lines := strings.Split(strings.TrimSpace(string(session.Err.Contents())), "\n")
		for _, text := range lines {
			var line map[string]any
			Expect(json.Unmarshal([]byte(text), &line)).To(Succeed(), text)
			Expect(line).To(HaveKeyWithValue("level", "info"), text)
			Expect(line).To(HaveKeyWithValue("caller", MatchRegexp(`^[^/]+/[^/]+\.go:[0-9]+$`)), text)
			Expect(fmt.Sprint(line["source"])).NotTo(HavePrefix("func source"), text)
		}
		var first, last map[string]any
		Expect(json.Unmarshal([]byte(lines[0]), &first)).To(Succeed())
		Expect(json.Unmarshal([]byte(lines[len(lines)-1]), &last)).To(Succeed())
		Expect(first).To(And(
			HaveKeyWithValue("msg", "Starting berth"), HaveKeyWithValue("version", Not(BeEmpty())), HaveKeyWithValue("commit", Not(BeEmpty())),
			HaveKeyWithValue("config", "built-in"), HaveKeyWithValue("profiles", ConsistOf("default")), HaveKeyWithValue("hub", "https://"+strings.TrimPrefix(alone.Config.Host, "https://")),
		))
		Expect(last).To(HaveKeyWithValue("msg", "Stopped berth"))
	})
})
