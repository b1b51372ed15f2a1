package app

import (
	"crypto/tls"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// tlsOptions are the settings of the servers of metrics and webhooks.
type tlsOptions struct {
	minVersion   string
	cipherSuites []string
}

var tlsVersions = map[string]uint16{"VersionTLS12": tls.VersionTLS12, "VersionTLS13": tls.VersionTLS13}

func (o *tlsOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.minVersion, "tls-min-version", "VersionTLS12", "lowest version of TLS for metrics and webhooks: VersionTLS12 or VersionTLS13")
	flags.StringSliceVar(&o.cipherSuites, "tls-cipher-suites", nil, "cipher suites of TLS 1.2 for metrics and webhooks, by IANA name (default: Go's)")
}

func (o *tlsOptions) check() error {
	if tlsVersions[o.minVersion] == 0 {
		return usagef("--tls-min-version: %q must be VersionTLS12 or VersionTLS13", o.minVersion)
	}
	return nil
}

// configure returns a function that configures a server. Cipher suites that Go lacks or calls
// insecure are not used: lists of others contain them.
func (o *tlsOptions) configure(out io.Writer) func(*tls.Config) {
	var suites []uint16
	for _, name := range o.cipherSuites {
		i := slices.IndexFunc(tls.CipherSuites(), func(s *tls.CipherSuite) bool { return s.Name == strings.TrimSpace(name) })
		if i < 0 {
			say(out, "--tls-cipher-suites: %s is not used, because Go has no secure cipher suite of this name.\n", name)
			continue
		}
		suites = append(suites, tls.CipherSuites()[i].ID)
	}
	return func(c *tls.Config) { c.MinVersion, c.CipherSuites = tlsVersions[o.minVersion], suites }
}
