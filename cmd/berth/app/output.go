package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// printObject prints an object as JSON or YAML.
func printObject(out io.Writer, format string, object any) error {
	text, err := json.MarshalIndent(object, "", "  ")
	if err == nil && format == "yaml" {
		text, err = yamlOf(text)
	}
	if err != nil {
		return err
	}
	_, err = out.Write(append(bytes.TrimSpace(text), '\n'))
	return err
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
