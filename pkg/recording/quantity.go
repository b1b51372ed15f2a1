package recording

import (
	"math/big"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// maxFastDigits is how many digits Quantity keeps with their exponent. It rounds longer numbers to
// nanos, and so changes their exponent.
const maxFastDigits = 18

// suffixes are those of DecimalSI, for every third exponent from minSuffix to maxSuffix.
var suffixes = []string{"n", "u", "m", "", "k", "M", "G", "T", "P", "E"}

// Exponents: those of the first and the last suffix, and the largest one that a ResourceList reads.
const (
	minSuffix   = -9
	maxSuffix   = 18
	maxExponent = 999
)

// quantityJSON returns JSON that is read as the same quantity. The canonical text is read as the
// same number, but as another float64 if its exponent differs, as those of "0.3" and "300m" do.
func quantityJSON(q resource.Quantity) string {
	if q == (resource.Quantity{}) {
		return "null"
	}
	canonical := q.String()
	if isReadAs(canonical, q) {
		return strconv.Quote(canonical)
	}
	for _, text := range exactTexts(q) {
		if isReadAs(text, q) {
			return strconv.Quote(text)
		}
	}
	return strconv.Quote(canonical)
}

// exactTexts returns texts that keep the exponent, or that are rounded as q was; at least one of
// them is read as q.
func exactTexts(q resource.Quantity) (texts []string) {
	q = q.DeepCopy() // AsDec changes it.
	digits, exponent := q.AsDec().UnscaledBig(), -int(q.AsDec().Scale())
	switch q.Format {
	case resource.BinarySI:
		// 1024 times 5^10 is 10^10. A number with a point is rounded to nanos, one above the
		// maximum becomes the maximum.
		scaled := new(big.Int).Mul(digits, new(big.Int).Exp(big.NewInt(5), big.NewInt(10), nil))
		return []string{"0Ki", "8Ei", "-8Ei", decimal(scaled, 10-exponent) + "Ki"}
	case resource.DecimalSI:
		digits, exponent = withoutZeros(digits, exponent, maxSuffix)
		for i, suffix := range suffixes {
			texts = append(texts, decimal(digits, minSuffix+3*i-exponent)+suffix)
		}
	default:
		digits, exponent = withoutZeros(digits, exponent, maxExponent)
		n := len(new(big.Int).Abs(digits).String())
		texts = []string{decimal(digits, 0) + "e" + strconv.Itoa(exponent), decimal(digits, n) + "e" + strconv.Itoa(exponent+n)}
	}
	return texts
}

func isReadAs(text string, q resource.Quantity) bool {
	read, err := resource.ParseQuantity(text)
	return err == nil && v1alpha1.IsWithinBounds(text) && v1alpha1.IdenticalQuantities(read, q)
}

// withoutZeros moves zeros at the end of a long number into the exponent, up to a maximum.
func withoutZeros(digits *big.Int, exponent, most int) (*big.Int, int) {
	text := digits.String()
	for len(strings.TrimPrefix(text, "-")) > maxFastDigits+1 && strings.HasSuffix(text, "0") && exponent < most {
		text, exponent = text[:len(text)-1], exponent+1
	}
	short, _ := new(big.Int).SetString(text, 10)
	return short, exponent
}

// decimal returns a number with its last digits behind the point.
func decimal(digits *big.Int, behind int) string {
	behind = max(behind, 0)
	return new(big.Rat).SetFrac(digits, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(behind)), nil)).FloatString(behind)
}
