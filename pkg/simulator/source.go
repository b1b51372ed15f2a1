package simulator

import (
	"bufio"
	"bytes"
	"compress/gzip"
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
)

// maxSourceBytes bounds a decompressed file, so that a small hostile file cannot fill the memory.
const maxSourceBytes = 1 << 30

// eachSource calls visit with the name and the decompressed content of every file at the paths, in
// order.
func eachSource(paths []string, stdin io.Reader, visit func(name string, data []byte) error) error {
	for _, path := range paths {
		if path == "-" {
			if stdin == nil {
				return errors.New("reading standard input: there is none")
			}
			if err := visitReader("standard input", stdin, visit); err != nil {
				return err
			}
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("reading input: %w", err)
		}
		if info.IsDir() {
			err = visitFolder(path, visit)
		} else {
			err = visitFile(path, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func visitFolder(folder string, visit func(name string, data []byte) error) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("reading input: %w", err)
		case entry.IsDir() && path != folder:
			// Like kubectl apply -f, do not read subfolders.
			return filepath.SkipDir
		case entry.IsDir() || strings.HasPrefix(entry.Name(), ".") || !hasObjects(path):
			return nil
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return nil // A link to a folder is not followed: it could lead back here.
		}
		return visitFile(path, visit)
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

func visitFile(path string, visit func(name string, data []byte) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading input: %w", err)
	}
	defer func() { _ = file.Close() }() // Only read from: closing cannot lose anything.
	return visitReader(path, file, visit)
}

func visitReader(name string, from io.Reader, visit func(name string, data []byte) error) error {
	data, err := readAll(from)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return visit(name, data)
}

// readAll reads to the end, and decompresses gzip by its first bytes, independent of the file's
// name.
func readAll(from io.Reader) ([]byte, error) {
	buffered := bufio.NewReader(from)
	from = buffered
	if magic, _ := buffered.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, err
		}
		from = unzipped
	}
	data, err := io.ReadAll(io.LimitReader(from, maxSourceBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxSourceBytes {
		return nil, fmt.Errorf("more than %d bytes", maxSourceBytes)
	}
	return data, nil
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
