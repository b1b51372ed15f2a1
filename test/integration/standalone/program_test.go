package standalone

import (
	"bytes"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/berth-dev/berth/test/testhub"
)

var _ = Describe("The program", func() {
	It("has no method that nothing calls, which the linker would keep with text/template, a third of the program", func() {
		program, err := os.ReadFile(testhub.Binary())
		Expect(err).NotTo(HaveOccurred())
		// The error of the function that calls any method of a value.
		Expect(bytes.Contains(program, []byte("can't evaluate field %s in type %s"))).To(BeFalse())
	})
})
