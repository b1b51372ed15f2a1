package hub

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/test/testhub"
)

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = 15 * time.Second
)

func TestHub(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(30 * time.Second)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	RunSpecs(t, "berth up")
}

// begin runs `berth up` on the data directory, in a process group of its own as a shell would.
func begin(dataDir string, flags ...string) *gexec.Session {
	GinkgoHelper()
	command := exec.Command(testhub.Binary(), append([]string{"up", "--data-dir", dataDir}, flags...)...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Kill().Wait(stopTimeout) })
	return session
}

// hub is a `berth up` that is up.
type hub struct {
	*gexec.Session
	client client.Client
	pids   map[string]int // of its children
}

// up starts a hub, checks what it serves as soon as it is up, and waits until it says what to try
// next.
func up(dataDir string, flags ...string) *hub {
	GinkgoHelper()
	session := begin(dataDir, flags...)
	Eventually(session, startTimeout).Should(Or(gbytes.Say("The hub is up"), gexec.Exit()))
	Expect(session.ExitCode()).To(Equal(-1), "berth up ended: %s", session.Err.Contents())
	mistaken := newPlacement("default", "mistaken")
	mistaken.SetAnnotations(map[string]string{"berth.dev/profile": "none"})
	Expect(connect(dataDir).Create(context.Background(), mistaken, client.DryRunAll)).To(
		MatchError(ContainSubstring(`metadata.annotations[berth.dev/profile]: Unsupported value: "none": supported values: "default"`)))
	// After a restart, edits are answered at once, too.
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(mistaken.GroupVersionKind())
	Expect(connect(dataDir).List(context.Background(), all)).To(Succeed())
	for _, one := range all.Items {
		Expect(connect(dataDir).Delete(context.Background(), &one, client.DryRunAll)).To(Succeed())
	}
	Eventually(session, startTimeout).Should(Or(gbytes.Say("Try in another terminal"), gexec.Exit()))
	Expect(session.ExitCode()).To(Equal(-1), "berth up ended: %s", session.Err.Contents())
	result := &hub{Session: session, client: connect(dataDir), pids: map[string]int{}}
	for _, name := range []string{"etcd", "kube-apiserver", "gc"} {
		result.pids[name] = childPID(dataDir, name)
	}
	return result
}

func connect(dataDir string) client.Client {
	GinkgoHelper()
	return testhub.Connect(filepath.Join(dataDir, "kubeconfig"))
}

func childPID(dataDir, name string) int {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(dataDir, "run", name+".pid"))
	Expect(err).NotTo(HaveOccurred())
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	Expect(err).NotTo(HaveOccurred())
	return pid
}

// living names the children that still run.
func (h *hub) living() []string {
	var names []string
	for name, pid := range h.pids {
		if alive(pid) {
			names = append(names, name)
		}
	}
	return names
}

// alive does not count a zombie, which a container without an init process may keep forever.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return !os.IsNotExist(err) || !hasProc()
	}
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return !bytes.HasPrefix(state, []byte("Z"))
}

func hasProc() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}
