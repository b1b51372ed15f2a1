package tenancy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// DefaultPartition is the partition that counts; others are only validated.
const DefaultPartition = "default"

// Config is one valid configuration. It never changes.
type Config struct {
	// Tree holds the queues and the placement rules.
	Tree *Tree
	// Resolver finds a user's groups where a submission names none: none, os or test.
	Resolver string
}

// Problem is an error in a configuration, or a warning about one.
type Problem struct {
	Line    int    // from 1; 0 where no line is known
	Path    string // such as partitions[0].queues[1].submitacl; may be empty
	Message string
}

func (p Problem) String() string {
	text := p.Message
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	if p.Line > 0 {
		text = fmt.Sprintf("line %d: %s", p.Line, text)
	}
	return text
}

// Problems is the error of an invalid configuration: all that is wrong with it, by line.
type Problems []Problem

// Error has one problem on each line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

// Parse reads a configuration in YAML. It is strict: an unknown, repeated or mistyped key is an error like any other. The
// error, if there is one, is of type Problems; warnings are about what is legal and yet without effect. Neither depends on
// anything but the text.
func Parse(text []byte) (*Config, []Problem, error) {
	document, err := parseYAML(text)
	if err != nil {
		return nil, nil, Problems{yamlProblem(err)}
	}
	r := &reader{}
	partitions := r.document(document)
	v := &validator{errors: r.problems}
	trees := v.partitions(partitions)
	sortProblems(v.errors)
	sortProblems(v.warnings)
	if len(v.errors) > 0 {
		return nil, v.warnings, Problems(v.errors)
	}
	for i, p := range partitions {
		if p.isDefault() {
			return &Config{Tree: trees[i], Resolver: cmp.Or(p.resolver.value, "none")}, v.warnings, nil
		}
	}
	// Nothing says where anything goes, so nothing goes anywhere.
	return &Config{Tree: newTree(&partitionConfig{}), Resolver: "none"}, v.warnings, nil
}

// parseYAML returns the root of the text's only document.
func parseYAML(text []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var documents [2]yaml.Node
	for i := range documents {
		err := decoder.Decode(&documents[i])
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if second := documents[1].Content; len(second) > 0 && !isNull(second[0]) {
		return nil, fmt.Errorf("yaml: line %d: a second document", second[0].Line)
	}
	if len(documents[0].Content) == 0 {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}, nil
	}
	return documents[0].Content[0], nil
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// yamlProblem takes the line out of a syntax error's text: the library has no other place for it.
func yamlProblem(err error) Problem {
	match := yamlLine.FindStringSubmatch(err.Error())
	if match == nil {
		return Problem{Message: err.Error()}
	}
	line, _ := strconv.Atoi(match[1]) // digits
	return Problem{Line: line, Message: "yaml: " + strings.TrimPrefix(err.Error(), match[0])}
}

func sortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
}
