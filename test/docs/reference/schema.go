package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/berth-dev/berth/config/crd"
)

// schema is what a CRD or a JSON schema says of a value, as far as a reader wants to know.
type schema struct {
	Description          string            `json:"description"`
	Type                 string            `json:"type"`
	Format               string            `json:"format"`
	Properties           map[string]schema `json:"properties"`
	Items                *schema           `json:"items"`
	AdditionalProperties json.RawMessage   `json:"additionalProperties"`
	Required             []string          `json:"required"`
	Enum                 []any             `json:"enum"`
	Default              any               `json:"default"`
	Minimum              *float64          `json:"minimum"`
	Maximum              *float64          `json:"maximum"`
	MinLength            *int64            `json:"minLength"`
	MaxLength            *int64            `json:"maxLength"`
	MaxItems             *int64            `json:"maxItems"`
	MaxProperties        *int64            `json:"maxProperties"`
	Pattern              string            `json:"pattern"`
	IntOrString          bool              `json:"x-kubernetes-int-or-string"`
}

func apiPage() (string, error) {
	crds, err := crd.All()
	if err != nil {
		return "", err
	}
	var page strings.Builder
	page.WriteString(generated("config/crd/bases") + "# API\n\nOpen Cluster Management's six kinds, and Berth's own (`berth.dev`). All served versions of a kind have the same fields.\n")
	slices.SortStableFunc(crds, func(a, b *apiextensionsv1.CustomResourceDefinition) int {
		return strings.Compare(b.Spec.Group, a.Spec.Group)
	})
	described := fieldLists{}
	for _, c := range crds {
		var served []string
		for _, v := range c.Spec.Versions {
			if v.Served {
				served = append(served, "`"+v.Name+"`")
			}
		}
		text, err := json.Marshal(c.Spec.Versions[0].Schema.OpenAPIV3Schema)
		if err != nil {
			return "", err
		}
		var s schema
		if err := json.Unmarshal(text, &s); err != nil {
			return "", err
		}
		for _, known := range []string{"apiVersion", "kind", "metadata"} {
			delete(s.Properties, known)
		}
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\nGroup `%s`, served as %s; scope %s.\n\n%s", c.Spec.Names.Kind, oneLine(s.Description),
			c.Spec.Group, strings.Join(served, ", "), c.Spec.Scope, described.list(s, c.Spec.Names.Kind, ""))
	}
	return page.String(), nil
}

func configurationPage(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var s schema
	if err := json.Unmarshal(text, &s); err != nil {
		return "", err
	}
	// The points of a profile have sets of one form.
	profile := s.Properties["profiles"].Items.Properties
	points := profile["plugins"]
	names := slices.Sorted(maps.Keys(points.Properties))
	one := points.Properties["score"]
	one.Description = "What changes at one point."
	points.Properties = map[string]schema{"<point>": one}
	profile["plugins"] = points
	return generated("config/schema/placementschedulerconfiguration.json") + "# Configuration\n\n" + oneLine(s.Description) +
		"\n\n[../configuration.md](../configuration.md) explains the file, [../plugins](../plugins/README.md) the plugins and their arguments. The points are `" +
		strings.Join(names, "`, `") + "`; a `weight` has a meaning at `score` and `multiPoint` only.\n\n" + fieldLists{}.list(s, "this page", ""), nil
}

// fieldLists are where the fields of each object were described first, by the JSON of the fields.
type fieldLists map[string]string

// list has an item for each field, and below it those of objects and lists. Fields that were
// described before get a reference to that place instead. of is the kind.
func (l fieldLists) list(s schema, of, path string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field := s.Properties[name]
		below, next := field, path+name
		for below.Items != nil {
			below, next = *below.Items, next+"[]"
		}
		same, fields := "", ""
		switch key := fieldsOf(below); {
		case ofKubernetes(below) != "":
			same = " Fields: Kubernetes' `" + ofKubernetes(below) + "`."
		case len(below.Properties) > 1 && l[key] != "":
			same = " Fields: as " + l[key] + "."
		default:
			l[key] = fmt.Sprintf("`%s` of %s", next, of)
			fields = l.list(below, of, next+".")
		}
		text := meaning(name, field, slices.Contains(s.Required, name)) + same
		fmt.Fprintf(&out, "- `%s%s` (%s)%s\n%s", path, name, kind(field), strings.TrimRight(": "+strings.TrimSpace(text), ": "), fields)
	}
	return out.String()
}

// ofKubernetes returns the type of k8s.io/apimachinery that has the fields of an object, and empty
// for all others.
func ofKubernetes(s schema) string {
	has := func(names ...string) bool {
		return len(s.Properties) == len(names) && !slices.ContainsFunc(names, func(name string) bool { _, ok := s.Properties[name]; return !ok })
	}
	switch {
	case has("lastTransitionTime", "message", "observedGeneration", "reason", "status", "type"):
		return "Condition"
	case has("matchExpressions", "matchLabels"):
		return "LabelSelector"
	case has("key", "operator", "values"):
		return "LabelSelectorRequirement"
	}
	return ""
}

// fieldsOf is the JSON of the fields of an object.
func fieldsOf(s schema) string {
	text, err := json.Marshal(s.Properties)
	if err != nil {
		panic(err) // it was read from JSON
	}
	return string(text)
}

// kind is the type, as kubectl explain writes it.
func kind(s schema) string {
	switch {
	case s.IntOrString:
		return "integer or string"
	case s.Items != nil:
		return "[]" + kind(*s.Items)
	case s.Type == "object" && len(s.AdditionalProperties) > 0 && string(s.AdditionalProperties) != "false":
		return "map"
	case s.Type == "":
		return "value"
	case s.Format == "date-time":
		return "time"
	}
	return s.Type
}

// maxPattern is the length of the longest pattern that is shown.
const maxPattern = 40

// meaning is the description without its first words "name is", and what the schema demands beside
// it. Bounds and defaults that the description has are not repeated.
func meaning(name string, s schema, required bool) string {
	text := oneLine(s.Description)
	for _, verb := range []string{" is ", " are ", " has ", " contains "} {
		if rest, ok := strings.CutPrefix(text, name+verb); ok {
			text = strings.ToUpper(rest[:1]) + rest[1:]
		}
	}
	parts := []string{text}
	add := func(when bool, format string, args ...any) {
		if when {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(required, "Required.")
	if missing := slices.DeleteFunc(slices.Clone(s.Enum), func(v any) bool { return strings.Contains(text, fmt.Sprint(v)) }); len(missing) > 0 {
		var values []string
		for _, v := range s.Enum {
			values = append(values, fmt.Sprintf("`%v`", v))
		}
		add(true, "One of %s.", strings.Join(values, ", "))
	}
	if s.Default != nil && !strings.Contains(strings.ToLower(text), "default") {
		value, err := json.Marshal(s.Default)
		add(err == nil, "Default `%s`.", value)
	}
	if !strings.Contains(strings.ToLower(text), "from ") {
		add(s.Minimum != nil && *s.Minimum > 0, "At least %v.", value(s.Minimum))
		add(s.Maximum != nil, "At most %v.", value(s.Maximum))
	}
	if !strings.Contains(strings.ToLower(text), "at most ") {
		// Names of objects and values of labels have the lengths of Kubernetes.
		add(s.MaxLength != nil && *s.MaxLength != 63 && *s.MaxLength != 253, "At most %d characters.", value(s.MaxLength))
		add(s.MaxItems != nil, "At most %d.", value(s.MaxItems))
		add(s.MaxProperties != nil, "At most %d.", value(s.MaxProperties))
	}
	add(s.Pattern != "" && len(s.Pattern) <= maxPattern, "Matches `%s`.", s.Pattern)
	return strings.TrimSpace(strings.Join(parts, " "))
}

// value is what a pointer points to, or zero.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
