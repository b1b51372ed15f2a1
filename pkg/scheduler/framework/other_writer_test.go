package framework_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/pkg/scheduler/framework"
	"github.com/berth-dev/berth/test/fixture"
)

func TestOtherWriter(t *testing.T) {
	entry := func(manager string, second int64) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(time.Unix(second, 0))
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: &at, FieldsV1: metav1.NewFieldsV1("{}"),
		}
	}
	type fields []metav1.ManagedFieldsEntry
	for name, tc := range map[string]struct {
		fields fields
		want   string
	}{
		"none":                            {},
		"Berth's":                         {fields: fields{entry("berth", 5)}},
		"an earlier one":                  {fields: fields{entry("placement", 4), entry("berth", 5)}},
		"an earlier one, listed last":     {fields: fields{entry("berth", 5), entry("placement", 4)}},
		"a later one":                     {fields: fields{entry("placement", 6), entry("berth", 5)}, want: "placement"},
		"a later one, listed last":        {fields: fields{entry("berth", 5), entry("placement", 6)}, want: "placement"},
		"one in the same second":          {fields: fields{entry("placement", 5), entry("berth", 5)}, want: "placement"},
		"one in that second, listed last": {fields: fields{entry("berth", 5), entry("placement", 5)}, want: "placement"},
		"the latest of two":               {fields: fields{entry("kubectl-edit", 7), entry("berth", 5), entry("placement", 6)}, want: "kubectl-edit"},
		"one before Fence":                {fields: fields{entry("berth", 5), entry("placement", 6), entry("berth-fence", 7)}, want: "placement"},
		"one without a time":              {fields: fields{{Manager: "placement"}, entry("berth", 5)}},
		"only one, without a time":        {fields: fields{{Manager: "placement"}}, want: "placement"},
	} {
		t.Run(name, func(t *testing.T) {
			page := fixture.Page("n", "p-decision-1").Obj()
			page.ManagedFields = tc.fields
			framework.KeepOtherWriter(page)
			if got := framework.OtherWriter(page); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
			if kept := page.ManagedFields; tc.want == "" && kept != nil || tc.want != "" && (len(kept) != 1 || kept[0].FieldsV1 != nil || kept[0].Time != nil) {
				t.Errorf("kept %v", kept)
			}
			framework.KeepOtherWriter(page)
			if got := framework.OtherWriter(page); got != tc.want {
				t.Errorf("after a second time %q, want %q", got, tc.want)
			}
		})
	}
}
