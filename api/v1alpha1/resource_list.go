package v1alpha1

import (
	"encoding/json"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Bounds of a quantity's text, in bytes, and of its decimal exponent, in digits. Parsing
// 1e-100000000 takes minutes, and so does comparing 1e100000000 with 1.
const (
	maxQuantityLength = 64
	maxExponentDigits = 3
)

// UnmarshalJSON implements json.Unmarshaler. It omits values that are no quantities or exceed the
// bounds. A fleet is decoded as one list, so an invalid cluster must not fail the others.
func (l *ResourceList) UnmarshalJSON(text []byte) error {
	var amounts map[ResourceName]json.RawMessage
	if err := json.Unmarshal(text, &amounts); err != nil {
		return err
	}
	if amounts == nil {
		*l = nil
		return nil
	}
	*l = make(ResourceList, len(amounts))
	for name, amount := range amounts {
		var q resource.Quantity
		if IsWithinBounds(string(amount)) && json.Unmarshal(amount, &q) == nil {
			(*l)[name] = q
		}
	}
	return nil
}

// IsWithinBounds reports whether a ResourceList reads a quantity: it can be parsed quickly.
func IsWithinBounds(amount string) bool {
	amount = strings.Trim(amount, `"`)
	exponent := ""
	if i := strings.LastIndexAny(amount, "eE"); i >= 0 {
		exponent = strings.TrimLeft(amount[i+1:], "+-0")
	}
	return len(amount) <= maxQuantityLength && len(exponent) <= maxExponentDigits
}

// IdenticalQuantities reports whether two quantities have the same value, notation and float64.
// Quantities of the same value can differ in the others: 0.3 and 300m, or 1.500 and 1500m.
func IdenticalQuantities(a, b resource.Quantity) bool {
	return a == b || a.Format == b.Format && a.String() == b.String() && a.Cmp(b) == 0 &&
		math.Float64bits(a.AsApproximateFloat64()) == math.Float64bits(b.AsApproximateFloat64())
}
