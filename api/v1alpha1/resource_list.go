package v1alpha1

import (
	"encoding/json"
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
		if isWithinBounds(string(amount)) && json.Unmarshal(amount, &q) == nil {
			(*l)[name] = q
		}
	}
	return nil
}

// isWithinBounds is true if a quantity in JSON can be parsed quickly.
func isWithinBounds(amount string) bool {
	amount = strings.Trim(amount, `"`)
	exponent := ""
	if i := strings.LastIndexAny(amount, "eE"); i >= 0 {
		exponent = strings.TrimLeft(amount[i+1:], "+-0")
	}
	return len(amount) <= maxQuantityLength && len(exponent) <= maxExponentDigits
}
