// Package view follows objects of a hub as they were together at one moment. pkg/client and
// pkg/generator use it, because what they answer must not lack a cluster that only moved to another
// page.
//
// It imports nothing of Berth. Read view.go.
package view
