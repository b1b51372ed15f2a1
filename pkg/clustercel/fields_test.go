package clustercel

import (
	"strings"
	"testing"
)

func TestCompileChecksFields(t *testing.T) {
	const metadata = "managedCluster.metadata has no field \"nam\": its fields are annotations, creationTimestamp, deletionGracePeriodSeconds, " +
		"deletionTimestamp, finalizers, generateName, generation, labels, managedFields, name, namespace, ownerReferences, resourceVersion, selfLink, uid"
	tests := map[string]struct{ expression, want string }{
		"a syntax error": {`managedCluster.metadata.labels[`,
			`1:32: Syntax error: mismatched input '<EOF>'`},
		"an assignment":               {`managedCluster.metadata.labels.env = "prod"`, `1:36: Syntax error: token recognition error at: '= ': compare with ==`},
		"an unknown variable":         {`cluster.metadata.name == "x"`, `1:1: undeclared reference to 'cluster': the only variable is managedCluster`},
		"an unknown field":            {`managedCluster.metadata.nam == "x"`, "1:24: " + metadata},
		"an unknown field by key":     {`managedCluster["metadata"]["nam"] == "x"`, metadata},
		"an unknown optional field":   {`managedCluster.metadata.?nam.orValue("") == "x"`, metadata},
		"an unknown field in has":     {`has(managedCluster.metadata.nam)`, metadata},
		"a field of the top":          {`managedCluster.labels.env == "prod"`, `managedCluster has no field "labels": its fields are apiVersion, kind, metadata, spec, status`},
		"a claim as a field":          {`managedCluster.status.clusterClaims.region == "eu"`, `managedCluster.status.clusterClaims is a list and has no field "region": use exists`},
		"a field of a string":         {`managedCluster.metadata.name.first == "x"`, `managedCluster.metadata.name is a string and has no field "first"`},
		"a field of a list's item":    {`managedCluster.status.conditions.exists(c, c.state == "True")`, `c has no field "state"`},
		"a field of a score":          {`managedCluster.scores("demo").exists(s, s.score > 5)`, `s has no field "score": its fields are name, value`},
		"in a nested loop":            {`managedCluster.spec.taints.all(t, managedCluster.status.conditions.exists(c, c.kind == t.key))`, `c has no field "kind"`},
		"a string":                    {`managedCluster.metadata.name`, `1:24: the result must be a boolean, but it is a string: compare it, for example with ==`},
		"a list":                      {`managedCluster.spec.taints`, `the result must be a boolean, but it is a list`},
		"a constant":                  {`1 + 1`, `the result must be a boolean, but it is a number`},
		"an optional":                 {`optional.of(true)`, `the result must be a boolean, but it is of type optional_type(bool)`},
		"a version as a number":       {`managedCluster.status.version.kubernetes > 1.30`, `managedCluster.status.version.kubernetes is a string and is compared with a number`},
		"a quantity as a number":      {`managedCluster.status.allocatable.cpu > 4`, `compare quantities, for example quantity(...).isGreaterThan(quantity("4"))`},
		"a time as a timestamp":       {`managedCluster.metadata.creationTimestamp < timestamp("2026-01-01T00:00:00Z")`, `convert the string with timestamp(...)`},
		"a label as a boolean":        {`managedCluster.metadata.labels.gpu && true`, `managedCluster.metadata.labels.gpu is a string, but a boolean is required`},
		"in a string":                 {`"prod" in managedCluster.metadata.name`, `the operator in requires a list or a map`},
		"a loop over a string":        {`managedCluster.metadata.name.exists(c, c == "x")`, `managedCluster.metadata.name is a string: a list or a map is required`},
		"any label":                   {`managedCluster.metadata.labels.env == "prod"`, ""},
		"any annotation":              {`managedCluster.metadata.annotations["a/b"] == "c"`, ""},
		"any resource":                {`quantity(managedCluster.status.capacity["nvidia.com/gpu"]).isGreaterThan(quantity("1"))`, ""},
		"a claim":                     {`managedCluster.status.clusterClaims.exists(c, c.name == "region" && c.value == "eu")`, ""},
		"a key of the cluster":        {`"status" in managedCluster && managedCluster["spec"]["hubAcceptsClient"]`, ""},
		"an optional label":           {`managedCluster.metadata.?labels["env"].orValue("") == "prod"`, ""},
		"an optional index":           {`managedCluster.metadata.labels[?"env"].orValue("") == "prod"`, ""},
		"a default object":            {`managedCluster.?status.?version.orValue({"kubernetes": ""}).kubernetes == "v1.30.0"`, ""},
		"JSON":                        {`managedCluster.metadata.annotations["x"].parseJSON().some.field`, ""},
		"a loop over keys":            {`managedCluster.metadata.labels.exists(k, k.startsWith("gpu"))`, ""},
		"a boolean field":             {`managedCluster.spec.hubAcceptsClient`, ""},
		"numbers of different types":  {`managedCluster.spec.leaseDurationSeconds > 1.5`, ""},
		"a condition that is null":    {`managedCluster.status.conditions != null`, ""},
		"a loop variable of its name": {`[{"a": true}].exists(managedCluster, managedCluster.a)`, ""},
		"a map and a filter":          {`managedCluster.spec.taints.filter(t, t.effect == "NoSelect").map(t, t.key).exists(k, k == "gpu")`, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Compile(tc.expression)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("want no error, got %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n")):
				t.Errorf("want %q, got %v", tc.want, err)
			}
		})
	}
}
