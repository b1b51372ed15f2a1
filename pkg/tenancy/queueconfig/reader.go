package queueconfig

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/berth-dev/berth/pkg/tenancy"
)

// Limits of a document with all aliases expanded. Thousands of queues need a tenth of them.
const (
	maxNodes      = 1 << 17       // values
	maxCharacters = 4 * MaxConfig // of plain text
	maxDepth      = 64            // values around a value
	maxResources  = 32            // of one quota
)

// The types below are the text's values, with their positions. Only keys and types are validated.
type (
	// position is the position of a value in the text.
	position struct {
		line int
		path string
	}
	// text is a scalar; an absent or null one is empty.
	text struct {
		position
		value string
	}
	count struct {
		position // zero if it is not set
		value    uint64
	}
	partitionConfig struct {
		position
		name      text
		hasQueues bool
		queues    []*queueConfig
		rules     []*ruleConfig
		limits    []*limitConfig
		resolver  text
		unused    []position // what is legal and not enforced
	}
	queueConfig struct {
		position
		name                text
		parent              bool
		queues              []*queueConfig
		submitACL, adminACL text
		quota               quotaConfig
		properties          map[string]text
		limits              []*limitConfig
		template            quotaConfig
		templateProperties  map[string]text
	}
	quotaConfig struct {
		position        // of the resources
		guaranteed      map[string]text
		max             map[string]text
		maxApplications count
	}
	ruleConfig struct {
		position
		name, value text
		create      bool
		parent      *ruleConfig
		filter      filterConfig
	}
	filterConfig struct {
		kind          text
		users, groups []text
		compiled      tenancy.Filter // by the validator
	}
	limitConfig struct {
		position
		users, groups   []text
		maxApplications count
		maxResources    map[string]text
	}
)

func (p *partitionConfig) isDefault() bool {
	return p.name.value == "" || strings.EqualFold(p.name.value, DefaultPartition)
}

// reader converts the nodes of a document and collects problems.
type reader struct {
	problems   problemList
	nodes      int
	characters int
	depth      int
	inAlias    bool
}

// fields has, for each legal key, the function that reads its value.
type fields map[string]func(n *yaml.Node, path string)

func (r *reader) failf(n *yaml.Node, path, format string, args ...any) {
	r.problems.addf(position{n.Line, path}, format, args...)
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

func describe(n *yaml.Node) tenancy.Part {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return tenancy.Part(tenancy.Quote(n.Value))
}

// visit calls f with the node, or with the target of an alias. It reports nested aliases, deep
// nesting, and a document that is too large with all aliases expanded.
func (r *reader) visit(n *yaml.Node, path string, f func(n *yaml.Node)) {
	content := n
	if n.Kind == yaml.AliasNode {
		if r.inAlias {
			r.failf(n, path, "yaml: an alias must not contain another alias")
			return
		}
		r.inAlias = true
		defer func() { r.inAlias = false }()
		content = n.Alias
	}
	if r.depth == maxDepth {
		r.failf(n, path, "yaml: the document is nested more than %d levels deep", maxDepth)
		return
	}
	if !r.spend(n, path, 1, len(content.Value)) {
		return
	}
	r.depth++
	f(content)
	r.depth--
}

// spend counts values and characters, and returns false if the document has too many.
func (r *reader) spend(n *yaml.Node, path string, values, characters int) bool {
	before := r.nodes <= maxNodes && r.characters <= maxCharacters
	r.nodes += values
	r.characters += characters
	within := r.nodes <= maxNodes && r.characters <= maxCharacters
	if before && !within {
		r.failf(n, path, "yaml: the document is too large")
	}
	return within
}

// mapping reads a mapping that has only legal keys, each at most once. Null is an empty mapping.
func (r *reader) mapping(n *yaml.Node, path string, legal fields) {
	r.entries(n, path, func(key, value *yaml.Node) {
		at := join(path, tenancy.Cut(key.Value))
		read, ok := legal[key.Value]
		if !ok {
			r.failf(key, at, "unknown field%s", legal.hint(key.Value))
			r.spend(key, path, 1, 0)
			return
		}
		r.visit(value, at, func(value *yaml.Node) { read(value, at) })
	})
}

func (r *reader) entries(n *yaml.Node, path string, each func(key, value *yaml.Node)) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		r.failf(n, path, "yaml: must be a mapping, not %s", describe(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		line, twice := seen[key.Value]
		if twice || key.Kind != yaml.ScalarNode {
			r.spend(key, path, 1, 0) // its value is not visited
		}
		if !r.spend(key, path, 0, len(key.Value)) {
			return
		}
		if key.Kind != yaml.ScalarNode {
			r.failf(key, path, "yaml: a key must be plain text, not %s", describe(key))
		} else if twice {
			r.failf(key, join(path, tenancy.Cut(key.Value)), "yaml: the key is set twice, first on line %d", line)
		} else {
			seen[key.Value] = key.Line
			each(key, value)
		}
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// list reads a list. It returns false for null, which is an empty list.
func (r *reader) list(n *yaml.Node, path string, each func(n *yaml.Node, path string)) bool {
	if isNull(n) {
		return false
	}
	if n.Kind != yaml.SequenceNode {
		r.failf(n, path, "yaml: must be a list, not %s", describe(n))
		return true
	}
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		r.visit(item, at, func(item *yaml.Node) { each(item, at) })
	}
	return true
}

func (r *reader) text(into *text) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		into.position = position{n.Line, path}
		if n.Kind != yaml.ScalarNode {
			r.failf(n, path, "yaml: must be plain text, not %s", describe(n))
		} else if !isNull(n) {
			into.value = n.Value
		}
	}
}

func (r *reader) texts(into *[]text) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		r.list(n, path, func(n *yaml.Node, path string) {
			var t text
			r.text(&t)(n, path)
			*into = append(*into, t)
		})
	}
}

// textMap reads a mapping with any keys. An empty mapping is not nil.
func (r *reader) textMap(into *map[string]text) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if isNull(n) {
			return
		}
		*into = map[string]text{}
		r.entries(n, path, func(key, value *yaml.Node) {
			at := join(path, tenancy.Cut(key.Value))
			r.visit(value, at, func(value *yaml.Node) {
				var t text
				r.text(&t)(value, at)
				(*into)[key.Value] = t
			})
		})
	}
}

// amounts reads a mapping from resources to amounts.
func (r *reader) amounts(into *map[string]text) func(*yaml.Node, string) {
	read := r.textMap(into)
	return func(n *yaml.Node, path string) {
		if read(n, path); len(*into) > maxResources {
			r.failf(n, path, "it must name at most %d resources, not %d", maxResources, len(*into))
			*into = nil
		}
	}
}

// flag reads true or false. It does not accept other YAML booleans, such as yes.
func (r *reader) flag(into *bool) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" || !slices.Contains([]string{"true", "false"}, n.Value) {
			key := path[strings.LastIndexByte(path, '.')+1:]
			r.failf(n, path, "%s must be true or false, not %s", key, describe(n))
			return
		}
		*into = n.Value == "true"
	}
}

func (r *reader) count(into *count) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if isNull(n) {
			return
		}
		value, err := strconv.ParseUint(n.Value, 10, 63)
		if err != nil || n.Kind != yaml.ScalarNode || n.Tag != "!!int" {
			r.failf(n, path, "yaml: must be a whole number of at least 0, not %s", describe(n))
			return
		}
		into.position, into.value = position{n.Line, path}, value
	}
}
