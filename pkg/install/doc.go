// Package install puts on a hub what Berth needs there: CRDs, admission policies, webhooks, queues
// and the samples. It prints nothing and knows no flags; cmd/berth/app does both.
//
// It may import api and the embedded files under config. Read crds.go first.
package install
