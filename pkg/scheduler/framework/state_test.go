package framework

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type number struct{ n int }

func (n *number) Clone() StateData { c := *n; return &c }

type text struct{ s string }

func (x *text) Clone() StateData { c := *x; return &c }

func TestCycleStateEntries(t *testing.T) {
	s := NewCycleState(nil)
	if _, err := s.Read("a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("reading a missing entry: %v, want ErrNotFound", err)
	}
	s.Write("a", &number{1})
	s.Write("b", &text{"x"})
	s.Write("a", &number{2})
	if got, ok := ReadAs[*number](s, "a"); !ok || got.n != 2 {
		t.Errorf("a is %v, %t: want the last write", got, ok)
	}
	if _, ok := ReadAs[*text](s, "a"); ok {
		t.Error("an entry was read as another type")
	}
	c := s.Clone()
	if got, ok := ReadAs[*number](c, "a"); !ok || got.n != 2 {
		t.Errorf("the clone's a is %v, %t", got, ok)
	} else {
		got.n = 3
	}
	if got, _ := ReadAs[*number](s, "a"); got.n != 2 {
		t.Error("a change of the clone is seen in the original")
	}
	if _, ok := ReadAs[*text](s, "b"); !ok {
		t.Error("writing a deleted b")
	}
}

func TestCycleStateAnswers(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	s := NewCycleState(nil)
	if !s.Requeue().IsZero() || !s.NextAttempt().IsZero() || !s.FilterExpiry(1).IsZero() || !s.RankExpiry(1).IsZero() || s.Demoted() != nil {
		t.Error("a new state is not empty")
	}
	for _, sec := range []int{30, 10, 20} {
		s.RequeueAt(at(sec))
		s.SetFilterExpiry(1, at(sec+1))
		s.SetRankExpiry(1, at(sec+2))
		s.AttemptAt(at(sec - 1))
	}
	s.Demote(7)
	s.Warn("P", "first")
	s.Warn("Q", "second")
	c := s.Clone()
	s.RequeueAt(at(1))
	s.SetFilterExpiry(1, at(2))
	s.SetRankExpiry(1, at(2))
	s.AttemptAt(at(0))
	s.Demote(8)
	s.Warn("P", "third")
	if !c.Requeue().Equal(at(10)) || !c.FilterExpiry(1).Equal(at(11)) || !c.RankExpiry(1).Equal(at(12)) || !c.NextAttempt().Equal(at(9)) {
		t.Errorf("requeue %v, filter expiry %v, rank expiry %v, next attempt %v: want the earliest of each", c.Requeue(), c.FilterExpiry(1), c.RankExpiry(1), c.NextAttempt())
	}
	if c.RequeueAt(at(5)); !c.NextAttempt().Equal(at(5)) {
		t.Errorf("next attempt at %v, want the earlier requeue time", c.NextAttempt())
	}
	if got := slices.Collect(c.Demoted().All); !slices.Equal(got, []int{7}) {
		t.Errorf("demoted are %v", got)
	}
	if diff := cmp.Diff([]Warning{{"P", "first"}, {"Q", "second"}}, c.Warnings()); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestStatus(t *testing.T) {
	cause := errors.New("broken")
	tests := map[string]struct {
		status     *Status
		wantCode   Code
		wantReason string
		wantErr    string
		wantCause  bool
	}{
		"nil is success":            {},
		"an error of nil":           {status: AsStatus(nil).WithPlugin("P")},
		"the zero value is success": {status: &Status{}},
		"a reason":                  {status: NewStatus(Unschedulable, "no"), wantCode: Unschedulable, wantReason: "no", wantErr: "no"},
		"with a plugin":             {status: NewStatus(Unschedulable, "no").WithPlugin("P"), wantCode: Unschedulable, wantReason: "no", wantErr: "P: no"},
		"WithPlugin is final":       {status: NewStatus(Wait, "w").WithPlugin("P").WithPlugin("Q"), wantCode: Wait, wantReason: "w", wantErr: "P: w"},
		"an error":                  {status: AsStatus(cause), wantCode: Error, wantReason: "broken", wantErr: "broken", wantCause: true},
		"an error with a plugin":    {status: AsStatus(cause).WithPlugin("P"), wantCode: Error, wantReason: "broken", wantErr: "P: broken", wantCause: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.status.Code() != tc.wantCode || tc.status.Reason() != tc.wantReason {
				t.Errorf("got %s %q, want %s %q", tc.status.Code(), tc.status.Reason(), tc.wantCode, tc.wantReason)
			}
			err := tc.status.Err()
			if (err == nil) != (tc.wantErr == "") || err != nil && err.Error() != tc.wantErr {
				t.Errorf("Err is %v, want %q", err, tc.wantErr)
			}
			if errors.Is(err, cause) != tc.wantCause {
				t.Errorf("Err wraps its cause: %t", !tc.wantCause)
			}
		})
	}
	shared := NewStatus(Skip, "")
	if shared.WithPlugin("P"); shared.Plugin() != "" {
		t.Error("naming a plugin changed a shared Status")
	}
	if Code(42).String() != "Code(42)" || Skip.String() != "Skip" || !shared.IsSkip() {
		t.Error("String does not return the names of codes")
	}
}

func TestRegistry(t *testing.T) {
	factory := func(context.Context, json.RawMessage, *Handle) (Plugin, error) { return nil, nil }
	r := Registry{}
	if err := r.Merge(Registry{"b": factory, "a": factory}); err != nil {
		t.Errorf("merging: %v", err)
	}
	err := r.Merge(Registry{"c": factory, "b": factory, "a": factory})
	want := "plugin \"a\" is registered twice\nplugin \"b\" is registered twice"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
	if err := r.Register("d", nil); err == nil || err.Error() != `plugin "d" has no factory` {
		t.Errorf("without a factory: %v", err)
	}
}

func TestDecodeArgs(t *testing.T) {
	type args struct {
		Share int    `json:"share"`
		Zone  string `json:"zone"`
	}
	tests := map[string]struct {
		raw     string
		want    args
		wantErr bool
	}{
		"no arguments: defaults":   {want: args{Share: 5, Zone: "UTC"}},
		"given fields override":    {raw: `{"share": 7}`, want: args{Share: 7, Zone: "UTC"}},
		"an unknown field":         {raw: `{"shrae": 7}`, wantErr: true},
		"a field in another case":  {raw: `{"Share": 7}`, wantErr: true},
		"a field of another type":  {raw: `{"share": "many"}`, wantErr: true},
		"the same field two times": {raw: `{"share": 1, "share": 2}`, wantErr: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeArgs(json.RawMessage(tc.raw), args{Share: 5, Zone: "UTC"})
			if (err != nil) != tc.wantErr {
				t.Fatalf("error %v, want one: %t", err, tc.wantErr)
			}
			if err == nil && got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func TestDigestOf(t *testing.T) {
	a, b := DigestOf([]string{"x", "y"}), DigestOf([]string{"y", "x"})
	if a != b {
		t.Error("the order of the names changes the digest")
	}
	if a == DigestOf([]string{"xy"}) || a == DigestOf([]string{"x"}) || a == DigestOf(nil) {
		t.Error("different sets have the same digest")
	}
}
