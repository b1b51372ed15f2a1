package v1alpha1

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Bounds of a quantity's text, in bytes, and of its decimal exponent, in digits. Reading
// 1e-100000000 takes minutes, comparing 1e100000000 with 1 as long.
const (
	maxQuantityLength = 64
	maxExponentDigits = 3
)

// UnmarshalJSON implements json.Unmarshaler. It leaves out what is no quantity, or one beyond all
// bounds: a fleet is decoded as one list, and what one cluster says of itself must not keep the
// others from being read.
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
		if isModest(string(amount)) && json.Unmarshal(amount, &q) == nil {
			(*l)[name] = q
		}
	}
	return nil
}

// isModest says, of a quantity as JSON, whether it can be read in no time.
func isModest(amount string) bool {
	amount = strings.Trim(amount, `"`)
	exponent := ""
	if i := strings.LastIndexAny(amount, "eE"); i >= 0 {
		exponent = strings.TrimLeft(amount[i+1:], "+-0")
	}
	return len(amount) <= maxQuantityLength && len(exponent) <= maxExponentDigits
}
