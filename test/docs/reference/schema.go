package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

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
			c.Spec.Group, strings.Join(served, ", "), c.Spec.Scope, table(s))
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
		strings.Join(names, "`, `") + "`; a `weight` has a meaning at `score` and `multiPoint` only.\n\n" + table(s), nil
}

// table has a row for each field, those of objects and lists included.
func table(s schema) string {
	return "| field | type | meaning |\n|---|---|---|\n" + rows(s, "")
}

func rows(s schema, path string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field := s.Properties[name]
		fmt.Fprintf(&out, "| `%s%s` | %s | %s |\n", path, name, kind(field), meaning(field, slices.Contains(s.Required, name)))
		below, next := field, path+name+"."
		for below.Items != nil {
			below, next = *below.Items, strings.TrimSuffix(next, ".")+"[]."
		}
		out.WriteString(rows(below, next))
	}
	return out.String()
}

func kind(s schema) string {
	switch {
	case s.IntOrString:
		return "integer or string"
	case s.Items != nil:
		return "list of " + kind(*s.Items)
	case s.Type == "object" && len(s.AdditionalProperties) > 0 && string(s.AdditionalProperties) != "false":
		return "map"
	case s.Type == "":
		return "value"
	case s.Format == "date-time":
		return "time"
	}
	return s.Type
}

// meaning is the description, and what the schema demands beside it.
func meaning(s schema, required bool) string {
	parts := []string{strings.ReplaceAll(oneLine(s.Description), "|", `\|`)}
	add := func(when bool, format string, args ...any) {
		if when {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(required, "Required.")
	if len(s.Enum) > 0 {
		var values []string
		for _, v := range s.Enum {
			values = append(values, fmt.Sprintf("`%v`", v))
		}
		add(true, "One of %s.", strings.Join(values, ", "))
	}
	if s.Default != nil {
		text, err := json.Marshal(s.Default)
		add(err == nil, "Default `%s`.", text)
	}
	if s.Minimum != nil {
		add(true, "At least %v.", *s.Minimum)
	}
	if s.Maximum != nil {
		add(true, "At most %v.", *s.Maximum)
	}
	if s.MinLength != nil {
		add(true, "Length at least %d.", *s.MinLength)
	}
	if s.MaxLength != nil {
		add(true, "Length at most %d.", *s.MaxLength)
	}
	if s.MaxItems != nil {
		add(true, "At most %d items.", *s.MaxItems)
	}
	if s.MaxProperties != nil {
		add(true, "At most %d entries.", *s.MaxProperties)
	}
	add(s.Pattern != "", "Matches `%s`.", strings.ReplaceAll(s.Pattern, "|", `\|`))
	return strings.TrimSpace(strings.Join(parts, " "))
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
