package simulator

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	goyaml "go.yaml.in/yaml/v3"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/pkg/boundedfile"
)

// Limits of the input, so that a small hostile file cannot fill the memory.
const (
	// maxInput is the maximum size of all files and standard input together, decompressed.
	maxInput = 256 << 20
	// maxDocument is the maximum size of one YAML document, also with its aliases expanded;
	// maxParts is the maximum number of its lines, commas and brackets. JSON has no such limits.
	maxDocument = 32 << 20
	maxParts    = 4_000_000
	// maxObject is the size of the largest request that an API server accepts.
	maxObject  = 3 << 20
	maxObjects = 200_000
)

// sources reads files, folders and standard input.
type sources struct {
	stdin io.Reader
	// left is how many bytes may still be read.
	left    int64
	notRead *NotRead
	visit   func(name string, data []byte) error
}

// all calls visit with the name and the decompressed content of every file at the paths, in order.
func (s *sources) all(paths []string) error {
	for _, path := range paths {
		if path == "-" {
			if s.stdin == nil {
				return errors.New("reading standard input: there is none")
			}
			if err := s.read("standard input", s.stdin); err != nil {
				return err
			}
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("reading input: %w", err)
		}
		if info.IsDir() {
			err = s.folder(path)
		} else {
			err = s.file(path, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *sources) folder(folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("reading input: %w", err)
		}
		hidden := strings.HasPrefix(entry.Name(), ".")
		switch {
		case path == folder:
			return nil
		case entry.IsDir():
			// Like kubectl apply -f, do not read subfolders.
			if !hidden {
				s.notRead.folders = append(s.notRead.folders, entry.Name())
			}
			return filepath.SkipDir
		}
		// A link to a folder is not followed: it could lead back here.
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			if !hidden {
				s.notRead.folders = append(s.notRead.folders, entry.Name())
			}
			return nil
		}
		if hidden || !hasObjects(path) {
			s.notRead.files = append(s.notRead.files, entry.Name())
			return nil
		}
		return s.file(path, false)
	})
}

// hasObjects is true if the file's extension shows that it contains objects.
func hasObjects(path string) bool {
	switch filepath.Ext(strings.TrimSuffix(path, ".gz")) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// file reads a file, or a named pipe, such as <(command) in a shell, if pipes is true.
func (s *sources) file(path string, pipes bool) error {
	file, err := boundedfile.Open(path, pipes)
	if err != nil {
		return fmt.Errorf("reading input: %w", err)
	}
	defer func() { _ = file.Close() }() // Only read from: closing cannot lose anything.
	return s.read(path, file)
}

func (s *sources) read(name string, from io.Reader) error {
	unzipped, err := boundedfile.Unzip(from)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	data, err := boundedfile.ReadAll(unzipped, name, s.left)
	if errors.Is(err, boundedfile.ErrTooLarge) {
		err = fmt.Errorf("the input has more than %d MiB", maxInput>>20)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	s.left -= int64(len(data))
	return s.visit(name, data)
}

// documentsOf splits a stream of YAML or JSON documents and converts each to JSON. It omits empty
// documents.
func documentsOf(data []byte) ([]json.RawMessage, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if utilyaml.IsJSONBuffer(data) {
		if documents, err := jsonDocuments(data); err == nil {
			return documents, nil
		}
		// It may still be YAML: JSON between separators, or a flow mapping.
	}
	var documents []json.RawMessage
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		part, err := partDocuments(text)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		documents = append(documents, part...)
	}
}

// partDocuments reads the text between two YAML separators: one YAML document or any number of JSON
// documents.
func partDocuments(text []byte) ([]json.RawMessage, error) {
	likeJSON := utilyaml.IsJSONBuffer(text)
	var jsonErr error
	if likeJSON {
		var documents []json.RawMessage
		if documents, jsonErr = jsonDocuments(text); jsonErr == nil {
			return documents, nil
		}
	}
	if err := checkSize(text); err != nil {
		return nil, err
	}
	document, err := yaml.YAMLToJSONStrict(text)
	// The parser stops after the first document, so further text must be reported.
	if err == nil && (likeJSON || bytes.Contains(text, []byte("\n..."))) {
		decoder := goyaml.NewDecoder(bytes.NewReader(text))
		var first, second goyaml.Node
		if err = decoder.Decode(&first); err == nil && !errors.Is(decoder.Decode(&second), io.EOF) {
			err = errors.New("a second document must begin with ---")
		}
	}
	switch {
	case err != nil && jsonErr != nil:
		return nil, jsonErr
	case err != nil:
		return nil, err
	case string(document) == "null":
		return nil, nil
	}
	return []json.RawMessage{document}, nil
}

// checkSize returns an error for a YAML document that needs too much memory.
func checkSize(text []byte) error {
	parts := 0
	for _, mark := range []string{"\n", ",", "[", "{"} {
		parts += bytes.Count(text, []byte(mark))
	}
	switch {
	case len(text) > maxDocument:
		return fmt.Errorf("larger than %d MiB: split it, or use JSON", maxDocument>>20)
	case parts > maxParts:
		return fmt.Errorf("more than %d parts: split it, or use JSON", maxParts)
	case !bytes.ContainsRune(text, '&') || !bytes.ContainsRune(text, '*'):
		return nil
	}
	var document goyaml.Node
	if err := goyaml.Unmarshal(text, &document); err != nil {
		return nil //nolint:nilerr // The conversion reports it.
	}
	if expandedSize(&document, map[*goyaml.Node]int{}) > maxDocument {
		return fmt.Errorf("its aliases expand it to more than %d MiB", maxDocument>>20)
	}
	return nil
}

// expandedSize returns the size of a node with its aliases expanded, at most about maxDocument. of
// has the sizes of anchors; one that contains itself counts as nothing, because the conversion
// refuses it.
func expandedSize(node *goyaml.Node, of map[*goyaml.Node]int) int {
	if node.Kind == goyaml.AliasNode {
		node = node.Alias
	}
	if size, known := of[node]; known {
		return size
	}
	if node.Anchor != "" {
		of[node] = 0
	}
	size := len(node.Value) + 1
	for _, child := range node.Content {
		if size += expandedSize(child, of); size > maxDocument {
			break
		}
	}
	if node.Anchor != "" {
		of[node] = size
	}
	return size
}

func jsonDocuments(data []byte) ([]json.RawMessage, error) {
	var documents []json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		var document json.RawMessage
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			line := 1 + bytes.Count(data[:decoder.InputOffset()], []byte("\n"))
			return nil, fmt.Errorf("the JSON that begins at line %d: %w", line, err)
		}
		documents = append(documents, document)
	}
}
