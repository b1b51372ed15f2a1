package kinds

import "testing"

func TestParseName(t *testing.T) {
	placement, _ := Named("placement")
	cluster, _ := Named("cluster")
	for text, tc := range map[string]struct {
		standard        Kind
		namespace, want string
	}{
		"web": {placement, "shop", "Placement shop/web"}, "pl/web": {placement, "shop", "Placement shop/web"},
		"ads/web": {placement, "shop", "Placement ads/web"}, "ads/web2": {placement, "", "Placement ads/web2"},
		"placement.cluster.open-cluster-management.io/web": {placement, "shop", "Placement shop/web"},
		"pch/web-3": {placement, "shop", "PlacementChange shop/web-3"}, "mcl/paris": {placement, "shop", "ManagedCluster /paris"},
		"paris": {cluster, "shop", "ManagedCluster /paris"}, "managedclusters/rome": {cluster, "", "ManagedCluster /rome"},
		"placement.apps/web": {placement, "shop", ""}, "placement/": {placement, "shop", ""}, "": {placement, "shop", ""},
		"a/b/c": {placement, "shop", ""}, "shop/paris": {cluster, "shop", ""}, "pl/other": {placement, "", "Placement pl/other"}, "x": {placement, "", ""}, "/y": {placement, "", ""},
	} {
		kind, key, err := ParseName(text, tc.standard, tc.namespace)
		got := kind.Name + " " + key.String()
		if err != nil {
			got = ""
		}
		if got != tc.want {
			t.Errorf("%q is %q, %v; want %q", text, got, err, tc.want)
		}
	}
}
