package simulator

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

const corpus = "../../test/golden"

func corpusFiles(tb testing.TB) []string {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(corpus, "*.json.gz"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no corpus in %s: %v", corpus, err)
	}
	return files
}

// verdict is what the corpus says of a scenario's objects under the reference's own schemas.
type verdict struct {
	ID       string `json:"id"`
	APIValid bool   `json:"apiValid"`
}

func verdicts(t *testing.T, file string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var content struct {
		Scenarios []verdict `json:"scenarios"`
	}
	if err := json.NewDecoder(unzipped).Decode(&content); err != nil {
		t.Fatal(err)
	}
	valid := map[string]bool{}
	for _, scenario := range content.Scenarios {
		valid[scenario.ID] = scenario.APIValid
	}
	return valid
}

// stricter lists the rules that Berth's schemas have and the reference's lack.
var stricter = map[string]*regexp.Regexp{
	"negative count":                  regexp.MustCompile(`^spec\.numberOfClusters: Invalid value: -\d+: should be greater than or equal to 0$`),
	"name longer than a label value":  regexp.MustCompile(`^metadata\.name: Too long: may not be more than 63 bytes`),
	"invalid toleration":              regexp.MustCompile(`^spec\.tolerations\[\d+\]\.(operator|value): Invalid value: .*must be (Exists when key is empty|empty when operator is Exists)$`),
	"unknown toleration operator":     regexp.MustCompile(`^spec\.tolerations\[\d+\]\.operator: Unsupported value`),
	"unknown prioritizer policy mode": regexp.MustCompile(`^spec\.prioritizerPolicy\.mode: Unsupported value`),
	"unknown selector operator":       regexp.MustCompile(`\.(labelSelector|claimSelector)\.matchExpressions\[\d+\]\.operator: Unsupported value`),
	"binding not named after its set": regexp.MustCompile(`spec\.clusterSet must equal metadata\.name`),
	"negative tolerationSeconds":      regexp.MustCompile(`^spec\.tolerations\[\d+\]\.tolerationSeconds: Invalid value: -\d+: should be greater than or equal to 0$`),
	"builtIn and addOn":               regexp.MustCompile(`\.scoreCoordinate\.(builtIn|addOn): Forbidden: must be (empty|absent) when type is`),
	"set with an unused selector":     regexp.MustCompile(`^spec\.clusterSelector\.selectorType: Invalid value: .*must be LabelSelector`),
	"AddOn coordinate without addOn":  regexp.MustCompile(`^spec\.prioritizerPolicy\.configurations\[\d+\]\.scoreCoordinate\.addOn: Required value`),
}

// TestCorpus holds admission to the corpus: what the reference's schemas refuse is refused, and of
// what they accept only what a rule of Berth's own forbids.
func TestCorpus(t *testing.T) {
	count := map[string]int{}
	var spent time.Duration
	for _, file := range corpusFiles(t) {
		valid := verdicts(t, file)
		begin := time.Now()
		input, err := Load([]string{file}, nil)
		spent += time.Since(begin)
		if err != nil {
			t.Fatal(err)
		}
		if len(input.Scenarios) != len(valid) {
			t.Errorf("%s: %d scenarios read, want %d", file, len(input.Scenarios), len(valid))
		}
		for _, scenario := range input.Scenarios {
			refused := 0
			for i, step := range scenario.Steps {
				if step.Now.IsZero() {
					t.Errorf("%s step %d has no time", scenario.ID, i)
				}
				refused += len(step.Refused)
				for _, refusal := range step.Refused {
					if !valid[scenario.ID] {
						continue
					}
					rule := ownRule(refusal.Error)
					if rule == "" {
						t.Errorf("%s step %d: %s: %s", scenario.ID, i, refusal.Object, refusal.Error)
					}
					count[rule]++
				}
			}
			if !valid[scenario.ID] && refused == 0 {
				t.Errorf("%s: nothing is refused, the reference's schemas refuse something", scenario.ID)
			}
		}
	}
	t.Logf("read in %v; refused by Berth's own rules: %v", spent, count)
}

func ownRule(text string) string {
	for rule, pattern := range stricter {
		if pattern.MatchString(text) {
			return rule
		}
	}
	return ""
}

// TestCorpusKeepsEveryObject counts: no object of the corpus is lost on the way to its type.
func TestCorpusKeepsEveryObject(t *testing.T) {
	for _, file := range corpusFiles(t) {
		text, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		unzipped, err := gzip.NewReader(text)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(unzipped)
		_ = text.Close()
		if err != nil {
			t.Fatal(err)
		}
		var want struct {
			Scenarios []struct {
				ID    string
				Steps []struct {
					Objects struct{ Items []json.RawMessage }
				}
			}
		}
		if err := json.Unmarshal(content, &want); err != nil {
			t.Fatal(err)
		}
		input, err := Load([]string{file}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, scenario := range input.Scenarios {
			for j, step := range scenario.Steps {
				if got, want := len(step.Objects), len(want.Scenarios[i].Steps[j].Objects.Items); got != want {
					t.Errorf("%s step %d: %d objects, want %d", scenario.ID, j, got, want)
				}
			}
		}
	}
}

func BenchmarkLoadCorpus(b *testing.B) {
	files := corpusFiles(b)
	for b.Loop() {
		if _, err := Load(files, nil); err != nil {
			b.Fatal(err)
		}
	}
}
