package explore

import (
	"os"
	"strings"
)

// axe is the script of axe-core, which finds breaches of WCAG.
const axe = "node_modules/axe-core/axe.min.js"

// accessible fails for each breach of WCAG 2.2 AA, and of good practice, that axe-core finds in the
// page as it is now.
func (b *browser) accessible() {
	b.t.Helper()
	script, err := os.ReadFile(axe)
	if err != nil {
		b.t.Fatalf("axe-core is not installed: run make typecheck, or npm ci in test/explore: %v", err)
	}
	eval[any](b, `if (!window.axe) { `+string(script)+` }`)
	var found []struct {
		ID, Impact, Help string
		Nodes            []string
	}
	b.do("POST", "/execute/async", map[string]any{"args": []any{}, "script": `const done = arguments[0];
		axe.run(document, { resultTypes: ['violations'] }).then((result) => done(result.violations.map((v) => ({
			id: v.id, impact: v.impact, help: v.help, nodes: v.nodes.map((n) => n.target.join(' ') + ': ' + n.failureSummary),
		}))), (error) => done([{ id: 'error', impact: '', help: String(error), nodes: [] }]))`}, &found)
	for _, violation := range found {
		shown := violation.Nodes[:min(len(violation.Nodes), 5)]
		b.t.Errorf("axe-core: %s (%s): %s, %d times:\n%s", violation.ID, violation.Impact, violation.Help, len(violation.Nodes), strings.Join(shown, "\n"))
	}
}
