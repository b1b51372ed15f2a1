package testhub

import (
	"slices"

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
