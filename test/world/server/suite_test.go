package server

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/test/testhub"
)

// kubernetes is the configuration of clients of a real API server.
var kubernetes *rest.Config

func TestServer(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "The model of the API server")
}

var _ = BeforeSuite(func() { kubernetes = testhub.StartServer().Config })
