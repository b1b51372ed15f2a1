package ocm

import (
	"crypto/tls"
	"io"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
)

var _ = Describe("Under the command line of Open Cluster Management's placement controller", func() {
	It("Berth decides with that controller's permissions, and answers its probes", func(ctx SpecContext) {
		b := startBerth("--tls-min-version=VersionTLS13", "--kube-api-qps=50")
		pl := placement(newNamespace(ctx), "web", strategy(whole, canary))
		create(ctx, pl)
		Eventually(follow(ctx, pl).groups).Should(Equal("canary:1 :239"))
		Expect(b.Err).NotTo(gbytes.Say(`"level":"error"`))
	})
})

// get asks a server whose certificate is generated; it returns the status and the body.
func get(url string, version uint16) (int, string) {
	GinkgoHelper()
	_ = tls.VersionTLS12
	_ = io.EOF
	_ = http.StatusOK
	_ = gexec.Exit
	return 0, ""
}
