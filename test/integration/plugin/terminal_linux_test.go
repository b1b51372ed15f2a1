package plugin

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"unsafe"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/test/fixture"
)

// session is a run of the plugin on a terminal.
type session struct {
	command *exec.Cmd
	screen  *os.File
	mu      sync.Mutex
	shown   []byte
	ended   chan struct{}
}

// onTerminal starts the plugin with a terminal for all it reads and prints.
func onTerminal(ctx context.Context, environment []string, words ...string) *session {
	GinkgoHelper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	Expect(err).NotTo(HaveOccurred())
	var unlock, number int32
	for request, value := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlock, syscall.TIOCGPTN: &number} {
		_, _, failure := syscall.Syscall(syscall.SYS_IOCTL, screen.Fd(), request, uintptr(unsafe.Pointer(value)))
		Expect(failure).To(BeZero())
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	Expect(err).NotTo(HaveOccurred())
	s := &session{command: exec.CommandContext(ctx, filepath.Join(programs, pluginName), words...), screen: screen, ended: make(chan struct{})}
	s.command.Stdin, s.command.Stdout, s.command.Stderr = terminal, terminal, terminal
	s.command.Env = append(os.Environ(), append([]string{"TERM=xterm", "NO_COLOR="}, environment...)...)
	Expect(s.command.Start()).To(Succeed())
	Expect(terminal.Close()).To(Succeed())
	go s.read()
	DeferCleanup(func() {
		<-s.ended
		Expect(screen.Close()).To(Succeed())
	})
	return s
}

// read collects the output until the program and its terminal end.
func (s *session) read() {
	defer close(s.ended)
	part := make([]byte, 4096)
	for {
		n, err := s.screen.Read(part)
		s.mu.Lock()
		s.shown = append(s.shown, part[:n]...)
		s.mu.Unlock()
		if err != nil {
			_ = s.command.Wait() // its code says how it ended
			return
		}
	}
}

func (s *session) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.shown)
}

func (s *session) types(text string) {
	GinkgoHelper()
	_, err := io.WriteString(s.screen, text)
	Expect(err).NotTo(HaveOccurred())
}

func (s *session) code() int {
	GinkgoHelper()
	Eventually(s.ended).Should(BeClosed())
	return s.command.ProcessState.ExitCode()
}

var _ = Describe("On a terminal", func() {
	var (
		t  team
		pl *v1alpha1.Placement
	)
	BeforeEach(func(ctx SpecContext) {
		t = newTeam(ctx)
		pl = t.place(ctx, fixture.Placement(string(t), "web").Number(1), 1)
	})
	It("approve asks, and does nothing without a confirmation", func(ctx SpecContext) {
		record := recorded(ctx, pl, 2, "a", "b", berthv1alpha1.PhaseHeld)
		s := onTerminal(ctx, nil, "approve", "web", "-n", string(t), "-o", "wide")
		Eventually(s.text).Should(ContainSubstring("Approve change 2 of Placement " + string(t) + "/web? [y/N] "))
		Expect(s.text()).To(And(ContainSubstring("\x1b[32madded\x1b[0m"), ContainSubstring("\x1b[31mremoved\x1b[0m")))
		s.types("\n")
		Expect(s.code()).To(Equal(failed))
		Expect(s.text()).To(ContainSubstring("change 2 of Placement " + string(t) + "/web was not approved"))
		Expect(approvalOf(ctx, record)).To(BeNil())

		s = onTerminal(ctx, nil, "approve", "web", "-n", string(t))
		Eventually(s.text).Should(ContainSubstring("[y/N] "))
		s.types("y\n")
		Expect(s.code()).To(Equal(same))
		Expect(approvalOf(ctx, record)).To(HaveField("Decision", berthv1alpha1.Approved))
	})

	It("approve refuses a change that is superseded during the question", func(ctx SpecContext) {
		record := recorded(ctx, pl, 2, "a", "b", berthv1alpha1.PhaseHeld)
		s := onTerminal(ctx, nil, "approve", "web", "-n", string(t))
		Eventually(s.text).Should(ContainSubstring("[y/N] "))
		setPhase(ctx, record, berthv1alpha1.PhaseSuperseded)
		recorded(ctx, pl, 3, "a", "c", berthv1alpha1.PhaseHeld)
		s.types("y\n")
		Expect(s.code()).To(Equal(failed))
		Expect(s.text()).To(ContainSubstring("approving change 2 of Placement " + string(t) + "/web: it is Superseded meanwhile; nothing was approved"))
		Expect(approvalOf(ctx, record)).To(BeNil())
	})

	It("reject refuses a change that is approved during the question", func(ctx SpecContext) {
		record := recorded(ctx, pl, 2, "a", "b", berthv1alpha1.PhaseHeld)
		s := onTerminal(ctx, nil, "reject", "web", "-n", string(t))
		Eventually(s.text).Should(ContainSubstring("[y/N] "))
		Expect(run(ctx, "", "approve", "web", "-n", string(t), "--yes").code).To(Equal(same))
		s.types("yes\n")
		Expect(s.code()).To(Equal(failed))
		Expect(s.text()).To(MatchRegexp(`it is approved by \S+ meanwhile; nothing was rejected`))
		Expect(approvalOf(ctx, record)).To(HaveField("Decision", berthv1alpha1.Approved))
	})

	It("added clusters are green and removed clusters red, unless NO_COLOR is set", func(ctx SpecContext) {
		words := []string{"diff", "--label", t.name(1) + ":" + v1alpha1.ClusterSetLabel + "-"}
		s := onTerminal(ctx, nil, words...)
		Expect(s.code()).To(Equal(differs))
		Expect(s.text()).To(And(ContainSubstring("\x1b[32m1: "+t.name(2)+"\x1b[0m"), ContainSubstring("\x1b[31m1: "+t.name(1)+"\x1b[0m")))
		s = onTerminal(ctx, []string{"NO_COLOR=1"}, words...)
		Expect(s.code()).To(Equal(differs))
		Expect(s.text()).NotTo(ContainSubstring("\x1b"))
	})
})
