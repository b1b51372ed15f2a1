package hub

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const userInfo = "yunikorn.apache.org/user.info"

// forger creates Placements with a forged submitter, one after the other, as long as
// it runs.
type forger struct {
	stop context.CancelFunc
	done chan struct{}
	// refused counts those that Berth refused, unanswered those that the API server refused because
	// Berth did not answer, and stored those that nobody refused.
	refused, unanswered, stored atomic.Int64
}

func startForger(dataDir string) *forger {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dataDir, "kubeconfig"))
	Expect(err).NotTo(HaveOccurred())
	// A connection to an API server that is gone must not be waited for while the next one is up.
	config.NextProtos, config.Timeout = []string{"http/1.1"}, 2*time.Second
	config.QPS = -1
	c, err := client.New(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(context.Background())
	f := &forger{stop: stop, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		pace := time.NewTicker(2 * time.Millisecond)
		defer pace.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			<-pace.C
			placement := newPlacement("default", fmt.Sprintf("forged-%d", i))
			placement.SetAnnotations(map[string]string{userInfo: `{"user":"ann","groups":["admins"]}`})
			switch err := c.Create(ctx, placement); {
			case err == nil:
				f.stored.Add(1)
			case strings.Contains(err.Error(), "not allowed to set user annotation"):
				f.refused.Add(1)
			case strings.Contains(err.Error(), "failed calling webhook"):
				f.unanswered.Add(1)
			}
		}
	}()
	DeferCleanup(func() {
		stop()
		<-f.done
	})
	return f
}

var _ = Describe("The local hub with queues", func() {
	It("stores no forged identity while it stops and starts, and keeps its queues without --queue-file", func(ctx SpecContext) {
		dataDir := filepath.Join(GinkgoT().TempDir(), "data")
		queues := filepath.Join(GinkgoT().TempDir(), "queues.yaml")
		Expect(os.WriteFile(queues, []byte("partitions: [{name: default, queues: [{name: root, queues: [{name: a}]}]}]\n"), 0o600)).To(Succeed())
		running := up(dataDir, "--queue-file", queues)
		forging := startForger(dataDir)
		// goesOn waits until the forger was refused once more, which is after all that was done
		// before.
		goesOn := func() {
			GinkgoHelper()
			refused := forging.refused.Load()
			Eventually(forging.refused.Load).Should(BeNumerically(">", refused), func() string {
				return fmt.Sprintf("%d forgeries are stored", forging.stored.Load())
			})
		}
		for _, flags := range [][]string{{"--queue-file", queues}, nil} {
			By(fmt.Sprintf("starting again with %q", flags))
			goesOn()
			unanswered := forging.unanswered.Load()
			Eventually(running.Terminate(), stopTimeout).Should(gexec.Exit(0))
			running = up(dataDir, flags...)
			Expect(forging.stored.Load()).To(BeZero())
			goesOn()
			// The forger was there when the API server was, and the controller was not.
			Expect(forging.unanswered.Load()).To(BeNumerically(">", unanswered))
			Expect(forging.stored.Load()).To(BeZero())
		}
		forging.stop()
		Eventually(forging.done).Should(BeClosed())
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(newPlacement("", "").GroupVersionKind())
		Expect(running.client.List(ctx, &list)).To(Succeed())
		Expect(list.Items).To(BeEmpty())
		AddReportEntry("forgeries", fmt.Sprintf("%d refused, %d not answered, %d stored",
			forging.refused.Load(), forging.unanswered.Load(), forging.stored.Load()))

		By("placing into the queues that the hub has")
		Expect(string(running.Out.Contents())).To(ContainSubstring("Placements go to the queues of an earlier start; the ConfigMap is berth-system/yunikorn-configs.\n"))
		placement := newPlacement("default", "stamped")
		Expect(running.client.Create(ctx, placement)).To(Succeed())
		Expect(placement.GetAnnotations()).To(HaveKeyWithValue(userInfo, ContainSubstring(`"user":"berth-admin"`)))
		Eventually(func(g Gomega) {
			g.Expect(running.client.Get(ctx, client.ObjectKeyFromObject(placement), placement)).To(Succeed())
			conditions, _, _ := unstructured.NestedSlice(placement.Object, "status", "conditions")
			g.Expect(conditions).To(ContainElement(HaveKeyWithValue("type", "QueueAdmitted")))
		}).Should(Succeed())

		By("starting once more after an administrator deleted the webhooks")
		for _, webhooks := range []client.Object{
			&admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{},
		} {
			webhooks.SetName("berth")
			Expect(running.client.Delete(ctx, webhooks)).To(Succeed())
		}
		Eventually(running.Terminate(), stopTimeout).Should(gexec.Exit(0))
		running = up(dataDir)
		Expect(string(running.Out.Contents())).NotTo(ContainSubstring("queues"))
		unguarded := newPlacement("default", "not-stamped")
		Expect(running.client.Create(ctx, unguarded)).To(Succeed())
		Expect(unguarded.GetAnnotations()).NotTo(HaveKey(userInfo))
		Eventually(running.Terminate(), stopTimeout).Should(gexec.Exit(0))
	})
})
