// Package docs tests the documentation: what README.md and docs/ name must exist.
package docs
