// Package docs holds the documentation to the code: what README.md and docs/ name must exist.
package docs
