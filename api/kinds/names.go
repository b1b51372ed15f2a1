package kinds

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// ParseName reads what a user types for one object: NAME, TYPE/NAME or, for a kind with
// namespaces, NAMESPACE/NAME. standard is the kind of what has no TYPE, and namespace is that of
// what names none. Without namespace, only NAMESPACE/NAME names an object with a namespace.
func ParseName(text string, standard Kind, namespace string) (Kind, types.NamespacedName, error) {
	key, kind := types.NamespacedName{Namespace: namespace, Name: text}, standard
	forms := "neither NAME nor TYPE/NAME"
	if standard.Namespaced {
		forms = "neither NAME, TYPE/NAME nor NAMESPACE/NAME"
	}
	if namespace == "" && standard.Namespaced {
		forms = "not NAMESPACE/NAME"
	}
	if first, name, two := strings.Cut(text, "/"); two {
		key.Name = name
		switch typed, known := Named(first); {
		case known && (namespace != "" || !standard.Namespaced):
			kind = typed
		case standard.Namespaced && len(validation.IsDNS1123Label(first)) == 0:
			key.Namespace = first
		default:
			key.Name = ""
		}
	}
	if key.Name == "" || strings.Contains(key.Name, "/") || kind.Namespaced && key.Namespace == "" {
		return Kind{}, types.NamespacedName{}, fmt.Errorf("%q is %s", text, forms)
	}
	if !kind.Namespaced {
		key.Namespace = ""
	}
	return kind, key, nil
}
