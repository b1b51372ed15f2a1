package simulator

import (
	"encoding/json"
	"fmt"
	"time"

	kjson "sigs.k8s.io/json"
)

// scenarioFormat is the only version of the scenario file format.
const scenarioFormat = 1

// scenarioFile has the fields of a scenario file that are read; others are ignored.
type scenarioFile struct {
	Format    int            `json:"format"`
	Scenarios []scenarioText `json:"scenarios"`
}

type scenarioText struct {
	ID        string     `json:"id"`
	InputForm string     `json:"inputForm"`
	Steps     []stepText `json:"steps"`
}

type stepText struct {
	Now     string          `json:"now"`
	Objects json.RawMessage `json:"objects"`
}

func (l *loader) scenarios(document json.RawMessage) ([]Scenario, error) {
	var file scenarioFile
	if err := kjson.UnmarshalCaseSensitivePreserveInts(document, &file); err != nil {
		return nil, err
	}
	if file.Format != scenarioFormat {
		return nil, fmt.Errorf("format: Unsupported value: %d: supported values: %d", file.Format, scenarioFormat)
	}
	scenarios := make([]Scenario, 0, len(file.Scenarios))
	for _, text := range file.Scenarios {
		switch text.InputForm {
		case "":
			text.InputForm = "manifest"
		case "manifest", "served":
		default:
			return nil, fmt.Errorf("scenario %s: inputForm: Unsupported value: %q: supported values: \"manifest\", \"served\"", text.ID, text.InputForm)
		}
		scenario := Scenario{ID: text.ID, InputForm: text.InputForm}
		for i, step := range text.Steps {
			read, err := l.step(step)
			if err != nil {
				return nil, fmt.Errorf("scenario %s: steps[%d]: %w", text.ID, i, err)
			}
			scenario.Steps = append(scenario.Steps, read)
		}
		scenarios = append(scenarios, scenario)
	}
	return scenarios, nil
}

func (l *loader) step(text stepText) (Step, error) {
	var step Step
	if text.Now != "" {
		now, err := time.Parse(time.RFC3339, text.Now)
		if err != nil {
			return Step{}, fmt.Errorf("now: Invalid value: %q: must be an RFC 3339 time", text.Now)
		}
		step.Now = now
	}
	if text.Objects == nil {
		return step, nil
	}
	names := map[string]bool{}
	err := flatten("objects", text.Objects, header{}, 0, func(at string, item object) error {
		got, err := l.recorded(item)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if got.known && names[got.ref] {
			return fmt.Errorf("%s: %s: already defined in this step", at, got.ref)
		}
		names[got.ref] = true
		if got.refused != "" {
			step.Refused = append(step.Refused, Refusal{Object: got.ref, Error: got.refused})
		}
		if got.value != nil {
			step.Objects = append(step.Objects, got.value)
		} else if got.refused == "" {
			l.input.NotRead.add(item)
		}
		return nil
	})
	return step, err
}

// recorded admits a recorded object once for all steps that repeat it.
func (l *loader) recorded(item object) (admitted, error) {
	key := item.apiVersion + " " + item.kind + " " + string(item.text)
	if got, ok := l.seen[key]; ok {
		return got, nil
	}
	if err := l.count(item); err != nil {
		return admitted{}, err
	}
	got, err := admit(item, false)
	if err == nil {
		l.seen[key] = got
	}
	return got, err
}
