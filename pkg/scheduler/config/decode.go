package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	goyaml "go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Load reads one PlacementSchedulerConfiguration in YAML or JSON. It rejects unknown fields and
// mistakes that do not depend on plugins; MergeAll and Merged.Resolve find those that do. An error
// has one line for each mistake, which begins with the path of the field.
func Load(data []byte) (*PlacementSchedulerConfiguration, error) {
	text, err := toJSON(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	if err != nil {
		return nil, err
	}
	var document any
	duplicates, err := kjson.UnmarshalStrict(text, &document)
	if err = errors.Join(append(duplicates, err)...); err != nil {
		return nil, err
	}
	// In a file of another kind, other mistakes are not reported.
	if err := checkKind(document); err != nil {
		return nil, err
	}
	if mistakes := checkShape(nil, document, reflect.TypeFor[PlacementSchedulerConfiguration]()); len(mistakes) > 0 {
		return nil, join(mistakes)
	}
	c := &PlacementSchedulerConfiguration{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, c); err != nil {
		return nil, err
	}
	for i := range c.Profiles {
		if c.Profiles[i].Name == "" {
			c.Profiles[i].Name = DefaultProfile
		}
		for j := range c.Profiles[i].PluginConfig {
			if args := &c.Profiles[i].PluginConfig[j].Args; string(*args) == "null" {
				*args = nil
			}
		}
	}
	if mistakes := validate(c); len(mistakes) > 0 {
		return nil, join(mistakes)
	}
	return c, nil
}

// toJSON converts the only document in data to JSON.
func toJSON(data []byte) ([]byte, error) {
	// JSON may be indented with tabs, which YAML does not allow.
	if json.Valid(data) {
		return data, nil
	}
	decoder := goyaml.NewDecoder(bytes.NewReader(data))
	var document, second goyaml.Node
	if err := decoder.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !errors.Is(decoder.Decode(&second), io.EOF) {
		return nil, errors.New("the file has more than one document")
	}
	if err := errors.Join(duplicateKeys(nil, &document)...); err != nil {
		return nil, err
	}
	return yaml.YAMLToJSONStrict(data)
}

// duplicateKeys finds keys that occur twice. The YAML library would report their lines, not their
// paths.
func duplicateKeys(at *field.Path, node *goyaml.Node) (errs []error) {
	switch node.Kind {
	case goyaml.DocumentNode:
		for _, child := range node.Content {
			errs = append(errs, duplicateKeys(at, child)...)
		}
	case goyaml.SequenceNode:
		for i, child := range node.Content {
			errs = append(errs, duplicateKeys(at.Index(i), child)...)
		}
	case goyaml.MappingNode:
		seen := map[string]bool{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i].Value
			if seen[key] {
				errs = append(errs, fmt.Errorf("duplicate field %q", at.Child(key)))
			}
			seen[key] = true
			errs = append(errs, duplicateKeys(at.Child(key), node.Content[i+1])...)
		}
	}
	return errs
}

func checkKind(document any) error {
	object, ok := document.(map[string]any)
	if !ok && document != nil {
		return fmt.Errorf("must be an object of kind %s", Kind)
	}
	var mistakes field.ErrorList
	for _, want := range [][2]string{{"apiVersion", APIVersion}, {"kind", Kind}} {
		path, got := field.NewPath(want[0]), object[want[0]]
		switch got {
		case want[1]:
		case nil:
			mistakes = append(mistakes, field.Required(path, "must be "+want[1]))
		default:
			mistakes = append(mistakes, field.NotSupported(path, got, []string{want[1]}))
		}
	}
	return join(mistakes)
}

// hints are messages for keys that users may expect from other programs, in lower case.
var hints = map[string]string{
	"normalizescore": "a method of score plugins, without a list: enable the plugin under score",
	"unreserve":      "a method of reserve plugins, without a list: enable the plugin under reserve",
	"plugins":        "a field of a profile: write it at profiles[0].plugins",
	"pluginconfig":   "a field of a profile: write it at profiles[0].pluginConfig",
	"schedulername":  "unknown field: write name",
}

// checkShape finds unknown fields, and values that do not have the type t of this package. null is
// a missing value.
func checkShape(at *field.Path, value any, t reflect.Type) (mistakes field.ErrorList) {
	if t == reflect.TypeFor[json.RawMessage]() {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		if t.Elem().Kind() == reflect.Struct && t != reflect.TypeFor[*metav1.Duration]() {
			return checkShape(at, value, t.Elem())
		}
		return checkScalar(at, value, t)
	case reflect.Map:
		return checkMap(at, value)
	case reflect.Struct:
		return checkFields(at, value, t)
	case reflect.Slice:
		list, ok := value.([]any)
		if !ok {
			return field.ErrorList{field.TypeInvalid(at, value, "must be a list")}
		}
		for i, item := range list {
			mistakes = append(mistakes, checkShape(at.Index(i), item, t.Elem())...)
		}
	case reflect.String:
		text, ok := value.(string)
		switch {
		case !ok:
			return field.ErrorList{field.TypeInvalid(at, value, "must be a string")}
		case text == "":
			return field.ErrorList{field.Required(at, "must not be empty")}
		}
	default:
		return checkScalar(at, value, t)
	}
	return mistakes
}

// checkFields checks the fields of an object.
func checkFields(at *field.Path, value any, t reflect.Type) (mistakes field.ErrorList) {
	object, ok := value.(map[string]any)
	if !ok {
		return field.ErrorList{field.TypeInvalid(at, value, "must be an object")}
	}
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = f.Type
		if child := object[name]; child != nil {
			mistakes = append(mistakes, checkShape(at.Child(name), child, f.Type)...)
		}
	}
	return append(mistakes, unknownFields(at, object, fields)...)
}

// checkMap checks a map of strings.
func checkMap(at *field.Path, value any) (mistakes field.ErrorList) {
	object, ok := value.(map[string]any)
	if !ok {
		return field.ErrorList{field.TypeInvalid(at, value, "must be an object")}
	}
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if _, ok := object[key].(string); !ok {
			mistakes = append(mistakes, field.TypeInvalid(at.Key(key), object[key], "must be a string"))
		}
	}
	return mistakes
}

// checkScalar checks a weight or cycleTimeout.
func checkScalar(at *field.Path, value any, t reflect.Type) field.ErrorList {
	if t == reflect.TypeFor[*metav1.Duration]() {
		return checkCycleTimeout(at, value)
	}
	if n, ok := value.(int64); !ok || n < math.MinInt32 || n > math.MaxInt32 {
		return field.ErrorList{field.TypeInvalid(at, value, "must be an integer"+rangeOfWeights)}
	}
	return nil
}

func unknownFields(at *field.Path, object map[string]any, known map[string]reflect.Type) (mistakes field.ErrorList) {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if known[key] != nil {
			continue
		}
		detail := cmp.Or(hints[strings.ToLower(key)], "unknown field")
		for name := range known {
			if strings.EqualFold(name, key) {
				detail = fmt.Sprintf("unknown field: write %s", name)
			}
		}
		mistakes = append(mistakes, field.Forbidden(at.Child(key), detail))
	}
	return mistakes
}

// join returns one error with a line for each mistake; nil without mistakes.
func join(mistakes field.ErrorList) error {
	errs := make([]error, 0, len(mistakes))
	for _, mistake := range mistakes {
		errs = append(errs, mistake)
	}
	return errors.Join(errs...)
}

func checkCycleTimeout(at *field.Path, value any) field.ErrorList {
	text, ok := value.(string)
	d, err := time.ParseDuration(text)
	if !ok || err != nil || d < MinCycleTimeout || d > MaxCycleTimeout {
		return field.ErrorList{field.Invalid(at, value,
			fmt.Sprintf("must be a duration from %s to %s, for example %s", MinCycleTimeout, MaxCycleTimeout, DefaultCycleTimeout))}
	}
	return nil
}
