package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	berthv1alpha1 "github.com/berth-dev/berth/api/berth/v1alpha1"
	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/pkg/changes"
)

// Values of -o. markdown is for comments on pull requests, columns has the columns after it.
const (
	markdown = "markdown"
	columns  = "custom-columns="
)

// formats are the values of -o that are no templates; some commands have more.
func formats(more []string) []string {
	return append([]string{"table", "wide", "json", "yaml", "name"}, more...)
}

// structured is true if a value of -o prints the object and not a text for people.
func structured(output string) bool {
	return output != "" && output != "table" && output != "wide" && output != markdown
}

func addOutputFlag(cmd *cobra.Command, output *string, more ...string) {
	all := formats(more)
	cmd.Flags().StringVarP(output, "output", "o", "table", strings.Join(all, ", ")+", "+columns+"… or jsonpath=…")
	complete(cmd, "output", cobra.FixedCompletions(append(all, columns, "jsonpath="), cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
}

// checkOutput checks a value of -o before the hub is asked.
func checkOutput(output string, more ...string) error {
	if slices.Contains(formats(more), output) {
		return nil
	}
	if text, found := strings.CutPrefix(output, columns); found {
		_, err := parseColumns(text)
		return err
	}
	_, err := printerOf(output)
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		return usagef("-o: %q is not one of %s, jsonpath=… and %s…", output, strings.Join(formats(more), ", "), columns)
	}
	if err != nil {
		return usagef("-o: %w", err)
	}
	return nil
}

// printerOf returns the printer of a JSONPath template. There is none for Go's templates: by their
// package, which may call any method, the linker keeps all methods of the program, a third of it.
func printerOf(output string) (printers.ResourcePrinter, error) {
	return new(genericclioptions.JSONPathPrintFlags).ToPrinter(output)
}

// printObject prints an object in one of the structured formats.
func printObject(out io.Writer, format string, object any) error {
	text, err := json.MarshalIndent(object, "", "  ")
	text = append(text, '\n')
	if err == nil && format == "yaml" {
		text, err = yamlOf(text)
	}
	if err != nil {
		return err
	}
	if format == "json" || format == "yaml" {
		_, err = out.Write(text)
		return err
	}
	content := map[string]any{}
	if err := json.Unmarshal(text, &content); err != nil {
		return err
	}
	if format == "name" {
		return printNames(out, items(content))
	}
	if text, found := strings.CutPrefix(format, columns); found {
		return printColumns(out, text, items(content))
	}
	printer, err := printerOf(format)
	if err != nil {
		return err
	}
	return printer.PrintObj(&unstructured.Unstructured{Object: content}, out)
}

// items are the entries of a printed list, or the object that is no list.
func items(content map[string]any) []any {
	for _, key := range []string{"placements", "changes", "clusters", "results"} {
		if list, is := content[key].([]any); is {
			return list
		}
	}
	return []any{content}
}

// printNames prints the resources and names of entries, as kubectl does.
func printNames(out io.Writer, entries []any) error {
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		_, placement, _ := strings.Cut(fmt.Sprint(fields["placement"]), "/")
		revision, isChange := fields["revision"].(float64)
		name := fmt.Sprintf("placement.%s/%s", v1alpha1.GroupName, placement)
		switch {
		case placement != "" && isChange:
			name = fmt.Sprintf("placementchange.%s/%s", berthv1alpha1.GroupName, changes.Name(placement, int64(revision)))
		case placement == "" && fields["name"] != nil:
			name = fmt.Sprintf("managedcluster.%s/%s", v1alpha1.GroupName, fields["name"])
		case placement == "":
			return usagef("-o name: what the command prints has no names")
		}
		say(out, "%s\n", name)
	}
	return nil
}

type column struct {
	heading string
	path    *jsonpath.JSONPath
}

// parseColumns reads the text after custom-columns=, such as "PLACEMENT:.placement,N:.clusters".
func parseColumns(text string) ([]column, error) {
	var all []column
	for part := range strings.SplitSeq(text, ",") {
		heading, path, found := strings.Cut(part, ":")
		c := column{heading, jsonpath.New(heading).AllowMissingKeys(true)}
		if !found || heading == "" {
			return nil, usagef("-o: %q is no column such as PLACEMENT:.placement", part)
		}
		if err := c.path.Parse("{" + strings.Trim(path, "{}") + "}"); err != nil {
			return nil, usagef("-o: column %q: %w", part, err)
		}
		all = append(all, c)
	}
	return all, nil
}

func printColumns(out io.Writer, text string, entries []any) error {
	parsed, err := parseColumns(text)
	if err != nil {
		return err
	}
	t := &table{whole: true}
	for _, c := range parsed {
		t.heading = append(t.heading, c.heading)
	}
	for _, entry := range entries {
		row := make([]cell, len(parsed))
		for i, c := range parsed {
			var value strings.Builder
			if err := c.path.Execute(&value, entry); err != nil {
				return fmt.Errorf("-o: column %q: %w", c.heading, err)
			}
			if row[i].text = value.String(); row[i].text == "" {
				row[i].text = none
			}
		}
		t.add(row...)
	}
	return t.print(out, false)
}

// yamlOf converts JSON to YAML. It quotes strings with control characters, because only quoted
// strings have escapes.
func yamlOf(text []byte) ([]byte, error) {
	// The YAML parser refuses some control characters, and does not accept a surrogate pair.
	text, err := yaml.JSONToYAML(escapeControls(text, func(r rune) string {
		if r > 0xffff {
			return string(r)
		}
		return fmt.Sprintf(`\u%04x`, r)
	}))
	if err != nil || !bytes.ContainsFunc(text, func(r rune) bool { return r != '\n' && controls(r) }) {
		return text, err
	}
	var document yamlv3.Node
	if err := yamlv3.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	quoteControls(&document)
	var quoted bytes.Buffer
	encoder := yamlv3.NewEncoder(&quoted)
	encoder.SetIndent(2)
	if err := encoder.Encode(&document); err != nil {
		return nil, err
	}
	return escapeControls(quoted.Bytes(), func(r rune) string { return fmt.Sprintf(`\U%08x`, r) }), nil
}

// escapeControls replaces every control character but newlines with the result of with.
func escapeControls(text []byte, with func(rune) string) []byte {
	var escaped []byte
	for _, r := range string(text) {
		if r == '\n' || !controls(r) {
			escaped = utf8.AppendRune(escaped, r)
		} else {
			escaped = append(escaped, with(r)...)
		}
	}
	return escaped
}

func quoteControls(node *yamlv3.Node) {
	if node.Kind == yamlv3.ScalarNode && oneLine(node.Value) != node.Value {
		node.Style = yamlv3.DoubleQuotedStyle
	}
	for _, child := range node.Content {
		quoteControls(child)
	}
}
