package recording

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
)

// appender writes entries as JSON. encoding/json needs three times as long for them, and there are
// several for each decision. A test compares both. Fields with their zero value are left out.
type appender struct {
	text []byte
	err  error
}

// appendEntry appends an entry and a line feed.
func appendEntry(text []byte, e *Written) ([]byte, error) {
	a := &appender{text: append(text, '{')}
	a.string("type", e.Type)
	a.number("number", e.Number)
	a.time("time", e.Time)
	a.string("kind", e.Kind)
	a.string("namespace", e.Namespace)
	a.string("name", e.Name)
	a.string("uid", string(e.UID))
	a.string("version", e.Version)
	a.number("generation", e.Generation)
	a.other("annotations", e.Annotations, len(e.Annotations) > 0)
	a.other("taintTimes", e.TaintTimes, len(e.TaintTimes) > 0)
	a.unsigned("hash", e.Hash)
	a.other("object", e.Object, e.Object != nil)
	a.other("status", e.Status, e.Status != nil)
	if e.Published != nil {
		a.published(e.Published)
	}
	a.strings("clusters", e.Clusters)
	a.bool("keepsLanded", e.KeepsLanded)
	a.other("readiness", e.Readiness, e.Readiness != nil)
	a.string("extender", e.Extender)
	a.other("answer", e.Answer, e.Answer != nil)
	a.other("header", e.Header, e.Header != nil)
	a.other("gap", e.Gap, e.Gap != nil)
	a.other("checkpoint", e.Checkpoint, e.Checkpoint != nil)
	a.other("counts", e.Counts, len(e.Counts) > 0)
	if e.Decision != nil {
		a.decision(e.Decision)
	}
	a.other("shadow", e.Shadow, e.Shadow != nil)
	return append(a.text, '}', '\n'), a.err
}

func (a *appender) published(p *Published) {
	a.begin("published")
	a.bool("changes", p.Changes)
	a.strings("added", p.Added)
	a.strings("removed", p.Removed)
	a.other("scores", p.Scores, len(p.Scores) > 0)
	a.strings("noScores", p.NoScores)
	if len(p.Pages) == 1 {
		a.begin("pages")
		for name, hash := range p.Pages {
			a.unsigned(name, hash)
		}
		a.end()
	} else {
		a.other("pages", p.Pages, len(p.Pages) > 0)
	}
	a.number("generation", p.Generation)
	a.string("profile", p.Profile)
	a.time("scoresAt", p.ScoresAt)
	a.number("revision", p.Revision)
	a.bool("restored", p.Restored)
	a.bool("sinceStart", p.SinceStart)
	a.end()
}

func (a *appender) decision(d *Decision) {
	a.begin("decision")
	a.string("namespace", d.Namespace)
	a.string("name", d.Name)
	a.string("uid", string(d.UID))
	a.number("input", d.Input)
	a.time("now", d.Now)
	a.other("queue", d.Queue, d.Queue != nil)
	a.begin("timers")
	a.stability("change", d.Timers.Change)
	a.stability("forced", d.Timers.Forced)
	a.stability("revoked", d.Timers.Revoked)
	a.other("tiers", d.Timers.Tiers, d.Timers.Tiers != nil)
	a.string("tiersOf", string(d.Timers.TiersOf))
	a.time("nextAttempt", d.Timers.NextAttempt)
	a.string("nextAttemptCause", d.Timers.NextAttemptCause)
	a.other("readySince", d.Timers.ReadySince, d.Timers.ReadySince != nil)
	a.bool("reserved", d.Timers.Reserved)
	a.end()
	a.other("answers", d.Answers, d.Answers != nil)
	a.string("cause", d.Cause)
	a.string("profile", d.Profile)
	a.string("outcome", d.Outcome)
	a.string("failure", d.Failure)
	a.bool("endedEarly", d.EndedEarly)
	a.string("target", d.Target)
	a.string("step", d.Step)
	a.number("selected", int64(d.Selected))
	a.number("revision", d.Revision)
	a.strings("added", d.Added)
	a.strings("removed", d.Removed)
	a.end()
}

func (a *appender) stability(name string, s framework.Stability) {
	if s == (framework.Stability{}) {
		return
	}
	a.begin(name)
	a.string("digest", s.Digest)
	a.time("since", s.Since)
	a.time("removingSince", s.RemovingSince)
	a.end()
}

// field begins a field.
func (a *appender) field(name string) {
	if a.text[len(a.text)-1] != '{' {
		a.text = append(a.text, ',')
	}
	a.quote(name)
	a.text = append(a.text, ':')
}

// begin begins an object, end ends it.
func (a *appender) begin(name string) {
	a.field(name)
	a.text = append(a.text, '{')
}

func (a *appender) end() { a.text = append(a.text, '}') }

func (a *appender) string(name, value string) {
	if value != "" {
		a.field(name)
		a.quote(value)
	}
}

func (a *appender) strings(name string, values []string) {
	if len(values) == 0 {
		return
	}
	a.field(name)
	for i, value := range values {
		if i == 0 {
			a.text = append(a.text, '[')
		} else {
			a.text = append(a.text, ',')
		}
		a.quote(value)
	}
	a.text = append(a.text, ']')
}

func (a *appender) number(name string, value int64) {
	if value != 0 {
		a.field(name)
		a.text = strconv.AppendInt(a.text, value, 10)
	}
}

func (a *appender) unsigned(name string, value uint64) {
	if value != 0 {
		a.field(name)
		a.text = strconv.AppendUint(a.text, value, 10)
	}
}

func (a *appender) bool(name string, value bool) {
	if value {
		a.field(name)
		a.text = append(a.text, "true"...)
	}
}

func (a *appender) time(name string, value time.Time) {
	if !value.IsZero() {
		a.field(name)
		a.text = append(a.text, '"')
		a.text = value.AppendFormat(a.text, time.RFC3339Nano)
		a.text = append(a.text, '"')
	}
}

// other appends a value by encoding/json.
func (a *appender) other(name string, value any, present bool) {
	if !present {
		return
	}
	text, err := json.Marshal(value)
	if err != nil {
		a.err = err
		return
	}
	a.field(name)
	a.text = append(a.text, text...)
}

// quote appends a string.
func (a *appender) quote(value string) {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			a.quoteRare(value)
			return
		}
	}
	a.text = append(a.text, '"')
	a.text = append(a.text, value...)
	a.text = append(a.text, '"')
}

func (a *appender) quoteRare(value string) {
	text, err := json.Marshal(value)
	if err != nil {
		a.err = err
		return
	}
	a.text = append(a.text, text...)
}
