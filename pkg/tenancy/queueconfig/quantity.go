package queueconfig

import (
	"errors"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/pkg/tenancy"
)

// maxDigits is how many digits the largest legal amount can have.
const maxDigits = 19

var (
	quantity = regexp.MustCompile(`^\+?([0-9]+)([A-Za-z]*)$`)
	thousand = []string{"", "k", "M", "G", "T", "P", "E"}
	kibi     = []string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
)

// parseQuantity parses a whole number with an optional suffix: k (or K), M, G, T, P, E for powers
// of 1000, with an i (Ki) for powers of 1024. The resource vcore is in thousandths and may have the
// suffix m.
func parseQuantity(resource, value string) (int64, error) {
	match := quantity.FindStringSubmatch(strings.Join(strings.Fields(value), ""))
	if match == nil {
		return 0, errors.New(tenancy.Messagef("%q is not a quantity: it must be a whole number of at least 0 with an optional suffix, such as 10 or 2k", value))
	}
	// Parsing a number takes more than linear time.
	digits := strings.TrimLeft(match[1], "0")
	if len(digits) > maxDigits {
		return 0, errors.New(tenancy.Messagef("%q is not a quantity: it is too large", value))
	}
	n, _ := new(big.Int).SetString("0"+digits, 10)
	suffix := match[2]
	base, power := int64(1000), slices.Index(thousand, suffix)
	if power < 0 {
		base, power = 1024, slices.Index(kibi, suffix)
	}
	switch {
	case suffix == "K":
		base, power = 1000, 1
	case resource == "vcore" && suffix == "m":
		power = 0
	case power < 0:
		return 0, errors.New(tenancy.Messagef("%q is not a quantity: unknown suffix %q", value, suffix))
	}
	if resource == "vcore" && suffix != "m" {
		n.Mul(n, big.NewInt(1000))
	}
	n.Mul(n, new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(power)), nil))
	if !n.IsInt64() {
		return 0, errors.New(tenancy.Messagef("%q is not a quantity: it is too large", value))
	}
	return n.Int64(), nil
}
