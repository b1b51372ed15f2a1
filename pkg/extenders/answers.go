package extenders

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/pkg/scheduler/config"
	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// Answers are answers of a file, by the name of an extender or by `<profile>/<name>`.
type Answers map[string]*Answer

// ReadAnswers reads the answers of extenders in YAML or JSON. It rejects unknown fields.
func ReadAnswers(text []byte) (Answers, error) {
	all := Answers{}
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] == nil || all[name].Clusters == nil {
			return nil, fmt.Errorf("%s: clusters is missing", name)
		}
	}
	return all, nil
}

// ByExtender returns the answers for the extenders of a configuration. Names that no extender has
// are errors.
func (a Answers) ByExtender(c *config.PlacementSchedulerConfiguration) (map[framework.ExtenderKey]*Answer, error) {
	used, found := map[string]bool{}, map[framework.ExtenderKey]*Answer{}
	if c != nil {
		for i := range c.Profiles {
			for _, e := range c.Profiles[i].Extenders {
				key := framework.ExtenderKey{Profile: c.Profiles[i].Name, Name: e.Name}
				for _, name := range []string{e.Name, key.String()} {
					if answer := a[name]; answer != nil {
						used[name], found[key] = true, answer
					}
				}
			}
		}
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if !used[name] {
			errs = append(errs, fmt.Errorf("no profile of the configuration has an extender %s", name))
		}
	}
	return found, errors.Join(errs...)
}
