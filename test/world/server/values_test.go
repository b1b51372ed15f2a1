package server

import (
	"fmt"
	"maps"
	"slices"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// mutate sets one field of an object that its schema knows, or does not, and says which.
func (g *generator) mutate(v *version, content map[string]any) string {
	if v.structural == nil {
		content["data"] = map[string]any{pick(g, "a", "b"): "eA=="}
		return ""
	}
	schema, where, path := v.structural, content, ""
	for {
		fields := slices.DeleteFunc(slices.Sorted(maps.Keys(schema.Properties)), func(name string) bool {
			return name == "apiVersion" || name == "kind" || name == "metadata"
		})
		name := "unknown"
		if len(fields) > 0 && !g.one(12) {
			name = pick(g, fields...)
		}
		path += "." + name
		next := schema.Properties[name]
		if next.Type == "object" && len(next.Properties) > 0 && !g.one(8) {
			inner, _ := where[name].(map[string]any)
			if inner == nil {
				inner = map[string]any{}
				where[name] = inner
			}
			schema, where = &next, inner
			continue
		}
		where[name] = g.value(&next, 0)
		return fmt.Sprintf(" %s=%v", path, where[name])
	}
}

// value draws a value of a schema, sometimes a wrong one.
func (g *generator) value(s *structuralschema.Structural, depth int) any {
	if g.one(10) {
		return pick[any](g, nil, "x", int64(-1), int64(1<<40), true, []any{}, map[string]any{}, "")
	}
	if s.XIntOrString {
		return pick[any](g, int64(3), "20%", "x")
	}
	if s.ValueValidation != nil && len(s.ValueValidation.Enum) > 0 {
		return pick(g, s.ValueValidation.Enum...).Object
	}
	switch s.Type {
	case "integer", "number":
		return pick[any](g, int64(0), int64(1), int64(7), int64(100))
	case "boolean":
		return g.one(2)
	case "array":
		list := []any{}
		for range g.random.IntN(3) {
			list = append(list, g.value(s.Items, depth+1))
		}
		return list
	case "object":
		content := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			required := s.ValueValidation != nil && slices.Contains(s.ValueValidation.Required, name)
			if property := s.Properties[name]; required && !g.one(15) || depth < 6 && g.one(4) {
				content[name] = g.value(&property, depth+1)
			}
		}
		return content
	default:
		return pick(g, "a", "c", "gold", "2026-01-01T00:00:00Z", "Not valid", "a")
	}
}
