package testhub

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Metric is the sum of a counter or gauge of this process over all series that have each of values
// as the value of a label.
func Metric(name string, values ...string) float64 {
	GinkgoHelper()
	families, err := metrics.Registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			var has []string
			for _, label := range m.GetLabel() {
				has = append(has, label.GetValue())
			}
			if !slices.ContainsFunc(values, func(v string) bool { return !slices.Contains(has, v) }) {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// MetricAt is the sum of a metric over all series at a metrics endpoint.
func MetricAt(address, name string) (float64, error) {
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return 0, fmt.Errorf("reading the metrics: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	sum := 0.0
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		series, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("reading %s: %w", series, err)
		}
		sum += n
	}
	return sum, lines.Err()
}

// FreeAddress returns an address on which no process listens.
func FreeAddress() string {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	Expect(listener.Close()).To(Succeed())
	return listener.Addr().String()
}
