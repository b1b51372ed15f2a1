package simulator

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/berth-dev/berth/api/kinds"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/resilience"
)

// Kinds of edits.
const (
	// EditTaint, EditDrain and EditLabel change a cluster. EditDrain sets the taint of a drain.
	EditTaint = "taint"
	EditDrain = "drain"
	EditLabel = "label"
	// EditLose deletes the clusters of a domain.
	EditLose = "lose"
	// EditNumber sets numberOfClusters of a Placement.
	EditNumber = "number"
	// EditReplace creates or replaces an object, and EditRemove deletes one.
	EditReplace = "replace"
	EditRemove  = "remove"
)

var editKinds = []string{EditTaint, EditDrain, EditLabel, EditLose, EditNumber, EditReplace, EditRemove}

// Edit is one change of a hub whose effect is shown without being written. The fields beside Kind
// depend on it.
type Edit struct {
	// Kind is taint, drain, label, lose, number, replace or remove.
	Kind string `json:"kind"`
	// Cluster is for taint, drain and label.
	Cluster string `json:"cluster,omitempty"`
	// Key and Value are the label or taint; for lose, the domain whose clusters are lost: label:KEY
	// or claim:NAME, without a colon the key of a label. Effect is that of a taint. Remove removes
	// the label or taint: taints of all effects if Effect is empty.
	Key    string `json:"key,omitempty"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect,omitempty"`
	Remove bool   `json:"remove,omitempty"`
	// Placement, as NAMESPACE/NAME, and Number are for number; null means all that qualify.
	Placement string `json:"placement,omitempty"`
	Number    *int32 `json:"number,omitempty"`
	// Type and Name are the object to remove. Name is NAMESPACE/NAME for a namespaced kind.
	Type string `json:"type,omitempty"`
	Name string `json:"name,omitempty"`
	// Text is the object of replace, in YAML or JSON. Object is the same, decoded.
	Text   string        `json:"text,omitempty"`
	Object client.Object `json:"-"`
}

// ErrNoObject is the error for an edit of an object that does not exist.
var ErrNoObject = errors.New("there is no")

// TaintEffects are the effects that a taint can have.
var TaintEffects = []string{
	string(v1alpha1.TaintEffectNoSelect), string(v1alpha1.TaintEffectPreferNoSelect), string(v1alpha1.TaintEffectNoSelectIfNew),
}

// Check returns what is wrong with an edit on any hub.
func (e *Edit) Check() error {
	switch e.Kind {
	case EditTaint:
		return e.checkTaint()
	case EditLabel:
		problems := append(validation.IsQualifiedName(e.Key), validation.IsValidLabelValue(e.Value)...)
		if len(problems) > 0 {
			return fmt.Errorf("the label %q: %s", e.Key, strings.Join(problems, "; "))
		}
	case EditLose:
		if _, err := e.domainKey(); err != nil {
			return err
		}
		if e.Value == "" {
			return errors.New("value: the value of the label or claim is missing")
		}
	case EditNumber:
		if e.Number != nil && *e.Number < 0 {
			return fmt.Errorf("number: %d is negative", *e.Number)
		}
	case EditReplace:
		if (e.Object == nil) == (e.Text == "") {
			return errors.New("text: the object is missing")
		}
	case EditRemove:
		_, _, _, err := e.removed()
		return err
	case EditDrain:
	default:
		return fmt.Errorf("kind: %q is not one of %s", e.Kind, strings.Join(editKinds, ", "))
	}
	return nil
}

func (e *Edit) checkTaint() error {
	if (e.Effect != "" || !e.Remove) && !slices.Contains(TaintEffects, e.Effect) {
		return fmt.Errorf("the taint %q: effect %q is not one of %s", e.Key, e.Effect, strings.Join(TaintEffects, ", "))
	}
	if problems := validation.IsQualifiedName(e.Key); len(problems) > 0 {
		return fmt.Errorf("the taint %q: %s", e.Key, strings.Join(problems, "; "))
	}
	return nil
}

// domainKey returns the key of the domain that is lost.
func (e *Edit) domainKey() (resilience.Key, error) {
	text := e.Key
	if !strings.Contains(text, ":") {
		text = "label:" + text
	}
	key, err := resilience.ParseKey(text)
	if err != nil {
		err = fmt.Errorf("key: %w", err)
	}
	return key, err
}

// removed returns the object to remove.
func (e *Edit) removed() (kind kinds.Kind, namespace, name string, err error) {
	kind, known := kinds.Named(e.Type)
	if !known {
		return kind, "", "", fmt.Errorf("type: %q is not one of %s", e.Type, strings.Join(kinds.Names(), ", "))
	}
	name = e.Name
	form := "NAME"
	if kind.Namespaced {
		namespace, name, _ = strings.Cut(e.Name, "/")
		form = "NAMESPACE/NAME"
	}
	if name == "" || strings.Contains(name, "/") || kind.Namespaced && namespace == "" {
		err = fmt.Errorf("name: %q is not %s of a %s", e.Name, form, kind.Name)
	}
	return kind, namespace, name, err
}
