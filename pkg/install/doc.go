// Package install installs on a hub what Berth needs: CRDs, roles, admission policies, webhooks,
// queues and samples. It prints nothing and has no flags; cmd/berth/app has both.
//
// It may import api and the embedded files under config. Read crds.go first.
package install
