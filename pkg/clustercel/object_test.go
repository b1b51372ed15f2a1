package clustercel

import (
	"strings"
	"testing"
)

func TestObjectExpressions(t *testing.T) {
	content := map[string]any{
		"spec":   map[string]any{"destination": map[string]any{"name": "paris"}, "replicas": int64(3)},
		"status": map[string]any{"health": map[string]any{"status": "Healthy"}, "conditions": []any{map[string]any{"type": "Available", "status": "True"}}},
	}
	for name, tc := range map[string]struct {
		text string
		bool bool
		// want is the result, or a part of the error.
		want string
	}{
		"field":               {text: "object.spec.destination.name", want: "paris"},
		"computed":            {text: "object.spec.destination.name + '-1'", want: "paris-1"},
		"missing field":       {text: "object.spec.destination.server", want: "no such key: server"},
		"a number":            {text: "object.spec.replicas", want: "the result is int64, not a string"},
		"optional field":      {text: "object.spec.?region.orValue('none')", want: "none"},
		"ready":               {text: "object.status.health.status == 'Healthy'", bool: true, want: "true"},
		"not ready":           {text: "object.status.health.status == 'Degraded'", bool: true, want: "false"},
		"condition":           {text: "object.status.conditions.exists(c, c.type == 'Available' && c.status == 'True')", bool: true, want: "true"},
		"no boolean":          {text: "object.status.health.status", bool: true, want: "the result is string, not a boolean"},
		"another type":        {text: "1 + 1", want: "compilation failed: the result is int, not string"},
		"another variable":    {text: "managedCluster.metadata.name", want: "undeclared reference to 'managedCluster': the only variable is object"},
		"scores":              {text: "object.scores('x') == []", bool: true, want: "compilation failed"},
		"syntax":              {text: "object.", want: "compilation failed"},
		"too long":            {text: strings.Repeat("a", MaxLength+1), want: "longer than"},
		"more than the limit": {text: "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a + b + c + d + e + f + object.spec.replicas > 0))))))", bool: true, want: "cost limit exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := resultOf(tc.text, tc.bool, content, t); got != tc.want && (len(tc.want) < 6 || !strings.Contains(got, tc.want)) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func resultOf(text string, boolean bool, content map[string]any, t *testing.T) string {
	compile := CompileString
	if boolean {
		compile = CompileBool
	}
	e, err := compile(text)
	if err != nil {
		return err.Error()
	}
	if boolean {
		yes, err := e.Bool(t.Context(), content)
		switch {
		case err != nil:
			return err.Error()
		case yes:
			return "true"
		}
		return "false"
	}
	name, err := e.String(t.Context(), content)
	if err != nil {
		return err.Error()
	}
	return name
}
