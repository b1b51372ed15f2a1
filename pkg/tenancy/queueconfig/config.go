package queueconfig

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/berth-dev/berth/pkg/tenancy"
)

// MaxConfig bounds a configuration, in bytes. A ConfigMap holds no more.
const MaxConfig = 1 << 20

// DefaultPartition is the partition that counts; others are only validated.
const DefaultPartition = "default"

// Config is one valid configuration. It never changes.
type Config struct {
	// Tree holds the queues and the placement rules.
	Tree *tenancy.Tree
	// Resolver finds a user's groups where a submission names none: none, os or test.
	Resolver string
}

// Parse reads a configuration in YAML. It is strict: an unknown, repeated or mistyped key is an
// error like any other. The error, if there is one, is of type Problems; warnings are about what is
// legal and yet without effect. Neither depends on anything but the text. A text of more than
// MaxConfig bytes is refused unread. Time and memory are linear in its length.
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
	for i, p := range partitions {
		if p.isDefault() {
			return &Config{Tree: trees[i], Resolver: cmp.Or(p.resolver.value, "none")}, warnings, nil
		}
	}
	// Nothing says where anything goes, so nothing goes anywhere.
	return &Config{Tree: (&partitionConfig{}).tree(), Resolver: "none"}, warnings, nil
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
		return Problem{Message: tenancy.Bound(err.Error())}
	}
	line, _ := strconv.Atoi(match[1]) // digits
	return Problem{Line: line, Message: tenancy.Bound("yaml: " + strings.TrimPrefix(err.Error(), match[0]))}
}
