package queueconfig

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

	"github.com/berth-dev/berth/pkg/tenancy"
)

// MaxConfig bounds a configuration, in bytes. A ConfigMap holds no more.
const MaxConfig = 1 << 20

// DefaultPartition is the partition that is used; others are only validated.
const DefaultPartition = "default"

// Config is one valid configuration. It never changes.
type Config struct {
	// Tree holds the queues and the placement rules.
	Tree *tenancy.Tree
	// Resolver is the type of the GroupResolver: none, os or test.
	Resolver string
}

// Parse parses and validates a configuration in YAML. An unknown or repeated key is an error. The
// error is of type Problems; warnings are about legal settings without effect. Both depend only on
// the text. A text of more than MaxConfig bytes is an error. Time and memory are linear in its
// length.
func Parse(text []byte) (*Config, []Problem, error) {
	if len(text) > MaxConfig {
		return nil, nil, Problems{{Message: fmt.Sprintf("the configuration has %d bytes, more than %d", len(text), MaxConfig)}}
	}
	document, err := parseYAML(text)
	if err != nil {
		return nil, nil, Problems{yamlProblem(err)}
	}
	r := &reader{}
	partitions := r.document(document)
	if r.problems.total >= MaxProblems {
		return nil, nil, Problems(r.problems.sorted())
	}
	v := &validator{errors: r.problems}
	trees := v.partitions(partitions)
	warnings := v.warnings.sorted()
	if v.errors.total > 0 {
		return nil, warnings, Problems(v.errors.sorted())
	}
	used := slices.IndexFunc(partitions, (*partitionConfig).isDefault)
	return &Config{Tree: trees[used], Resolver: cmp.Or(partitions[used].resolver.value, "none")}, warnings, nil
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

// yamlProblem takes the line from the text of a syntax error, because the library has no field for
// it.
func yamlProblem(err error) Problem {
	match := yamlLine.FindStringSubmatch(err.Error())
	if match == nil {
		return Problem{Message: tenancy.Bound(err.Error())}
	}
	line, _ := strconv.Atoi(match[1]) // digits
	return Problem{Line: line, Message: tenancy.Bound("yaml: " + strings.TrimPrefix(err.Error(), match[0]))}
}
